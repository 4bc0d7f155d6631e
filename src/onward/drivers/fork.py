"""What a fork must not break: everything that a child inherits and may not use, and what must not be in flight meanwhile."""

from __future__ import annotations

import os
import weakref


class Forked:
    """Something that a fork concerns. Known from ``follow_forks`` on, for as long as it lives."""

    def follow_forks(self) -> None:
        _known.add(self)

    def hold_before_fork(self) -> None:
        """Let nothing be in flight while the process forks."""

    def let_go_after_fork(self) -> None:
        """In the parent: go on."""

    def reset_after_fork(self) -> None:
        """In the child: leave to the parent what is the parent's."""


_known: weakref.WeakSet[Forked] = weakref.WeakSet()


def _before() -> None:
    for one in list(_known):
        one.hold_before_fork()


def _in_parent() -> None:
    for one in list(_known):
        one.let_go_after_fork()


def _in_child() -> None:
    for one in list(_known):
        one.reset_after_fork()


if hasattr(os, "register_at_fork"):  # pragma: no branch - absent only on Windows
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
