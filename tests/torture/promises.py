"""What a program announced and acknowledged before it was stopped, and so what must be found afterwards.

A program writes a line before each change and one after it::

    will job:01… completed
    is job:01… completed

A subject is a kind and a name; its value is a word. What was acknowledged must still be so, or whatever was announced after it. Values:
the status of a ``job``; ``yes`` or ``no`` for ``there`` (the job is stored) and ``done`` (it is completed); the content of a ``file``.
``gone`` stands for a job or a file that is not there. ``together A B`` says that these jobs come in one commit, ``with A B`` that B comes
with the completion of A. ``note WORDS`` is counted.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable

GONE = "gone"


class Said:
    """The lines of one program, or of several that speak of different subjects."""

    def __init__(self, lines: Iterable[str] = ()) -> None:
        self.acknowledged = 0
        self.has_begun = False
        self.has_ended = False
        self.together: list[tuple[str, ...]] = []
        self.notes: Counter[str] = Counter()
        self.children: list[tuple[str, str]] = []
        """Parent and child."""
        self._allowed: dict[str, list[str]] = {}
        self._known: set[str] = set()
        for line in lines:
            self.add(line)

    def add(self, line: str) -> None:
        """Take one line. A value may hold spaces."""
        verb, _, rest = line.partition(" ")
        if verb == "together":
            self.together.append(tuple(rest.split()))
            return
        if verb == "note":
            self.notes[rest] += 1
            return
        if verb == "with":
            parent, child = rest.split()
            self.children.append((parent, child))
            return
        if verb in ("begin", "end"):
            self.has_begun, self.has_ended = True, self.has_ended or verb == "end"
            return
        subject, _, value = rest.partition(" ")
        assert verb in ("will", "is"), f"no line of ours: {line!r}"
        assert value, f"no line of ours: {line!r}"
        self._known.add(subject.partition(":")[2])
        if verb == "will":
            self._allowed.setdefault(subject, [GONE if subject.startswith(("job", "file")) else "no"]).append(value)
            return
        self.acknowledged += 1
        self._allowed[subject] = [value]

    def subjects(self, kind: str) -> list[str]:
        """Names of the subjects of a kind."""
        return [name for one, _, name in (subject.partition(":") for subject in self._allowed) if one == kind]

    def allowed(self, kind: str, name: str) -> list[str]:
        """What may be found: first the value that was acknowledged, then each that was announced since."""
        return self._allowed[f"{kind}:{name}"]

    def knows(self, name: str) -> bool:
        """Whether anything was ever said of it."""
        return name in self._known


def say(line: str) -> None:
    """Write a line in one system call, so that it is there whole or not at all."""
    os.write(1, f"{line}\n".encode())


def will(kind: str, value: str, *names: str) -> None:
    """Announce what these subjects are going to be."""
    for name in names:
        say(f"will {kind}:{name} {value}")


def acknowledge(kind: str, value: str, *names: str) -> None:
    """Acknowledge what these subjects are now."""
    for name in names:
        say(f"is {kind}:{name} {value}")
