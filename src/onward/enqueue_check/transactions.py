"""Which transactions are open at a place: blocks around it, and what sessions have begun by themselves on the way to it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from onward.enqueue_check.violation import Finding

BEGINS = frozenset({"begin", "begin_nested", "transaction", "atomic"})
CHANGES = frozenset({"add", "add_all", "delete", "flush", "merge"})
ENDS = frozenset({"close", "commit", "reset", "rollback"})
READS = frozenset({"connection", "execute", "get", "get_one", "query", "refresh", "scalar", "scalars", "stream", "stream_scalars"})
"""With the changes, the verbs of a session of SQLAlchemy that begin a transaction where none is open."""


class Begun(Struct, frozen=True):
    """The transaction of a session, from the ``line`` of its first use."""

    line: int
    has_changes: bool = False
    enqueues: tuple[Finding, ...] = ()
    """Enqueues without ``within=`` in it: nothing is said of them as long as it only reads."""


class Open(Struct, frozen=True):
    """What is open. Every step gives another one, so that a branch can be gone through without a trace."""

    blocks: tuple[int, ...] = ()
    """The lines of the blocks, from the outermost."""
    sessions: dict[str, Begun] = {}
    is_after_commit: bool = False
    """True in what runs once a transaction has been committed."""

    @property
    def line(self) -> int | None:
        """Where the transaction was opened that an enqueue here has to join; None where there is none."""
        changed = [one.line for one in self.sessions.values() if one.has_changes]
        return next(reversed((*changed, *self.blocks)), None)

    def within_block(self, line: int) -> Open:
        """What is open inside a block that opens a transaction."""
        return replace(self, blocks=(*self.blocks, line))

    def after_use(self, session: str, verb: str, line: int) -> Open:
        """What is open after a call of a session."""
        others = {name: begun for name, begun in self.sessions.items() if name != session}
        begun = self.sessions.get(session, Begun(line))
        if verb in ENDS:
            return replace(self, sessions=others)
        if verb in CHANGES:
            begun = replace(begun, has_changes=True, enqueues=())
        return replace(self, sessions={**others, session: begun}) if verb in CHANGES or verb in READS else self

    def after_enqueue(self, found: Callable[[int], Finding]) -> Open:
        """What is open after an enqueue without ``within=``; ``found`` says so, given the line that opened the transaction."""
        return replace(
            self, sessions={name: replace(one, enqueues=(*one.enqueues, found(one.line))) for name, one in self.sessions.items()}
        )

    def forgotten(self, session: str, verb: str) -> tuple[Finding, ...]:
        """The enqueues that should have joined the session's transaction, as this call of it shows."""
        begun = self.sessions.get(session)
        return begun.enqueues if begun is not None and (verb in CHANGES or verb == "commit") else ()


def after_branches(before: Open, ends: list[Open]) -> Open:
    """What is open behind an ``if``: what one of the branches has begun, unless one has ended what was open before."""
    begun = sorted((item for one in ends for item in one.sessions.items()), key=lambda item: item[1].has_changes)
    ended = {name for name in before.sessions for one in ends if name not in one.sessions}
    return replace(before, sessions={name: one for name, one in begun if name not in ended})


def leaves(body: Sequence[ast.stmt]) -> bool:
    """Say whether what stands behind these statements is not reached from them."""
    return bool(body) and isinstance(body[-1], ast.Return | ast.Raise | ast.Continue | ast.Break)


def runs_after_commit(call: ast.expr) -> bool:
    """Say whether what this call is given, or what it decorates, runs once a transaction has been committed."""
    match call:
        case ast.Call(ast.Attribute(attr="on_commit") | ast.Name("on_commit")):
            return True
        case ast.Call(_, arguments):
            return any(isinstance(one, ast.Constant) and one.value == "after_commit" for one in arguments)
    return False
