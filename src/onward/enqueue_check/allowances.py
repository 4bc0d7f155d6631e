"""``# onward: allow <reason>``: what a person has looked at and lets stand."""

from __future__ import annotations

import io
import re
import tokenize

from msgspec import Struct

_ALLOW = re.compile(r"#\s*onward:\s*allow\b[\s:,(\u2013\u2014-]*(.*)", re.IGNORECASE)


class Allowances(Struct):
    """The lines of one file that carry such a comment."""

    reasons: dict[int, str]
    """By line; empty where no reason stands behind it."""
    alone: frozenset[int]
    """Lines with nothing but the comment: they speak for the statement below."""

    def covers(self, first: int, last: int) -> bool:
        """Say whether a statement on these lines is allowed, by a comment on one of them or on a line of its own above."""
        lines = set(range(first, last + 1))
        above = first - 1
        while above in self.alone:
            lines.add(above)
            above -= 1
        return any(self.reasons.get(line) for line in lines)

    def without_reason(self) -> list[int]:
        """The lines where somebody forgot to say why."""
        return [line for line, reason in self.reasons.items() if not reason]


def read_allowances(source: bytes) -> Allowances:
    """Read the comments; what only looks like one inside a string is none."""
    found = Allowances({}, frozenset())
    if b"onward" not in source or b"allow" not in source:
        return found
    alone = set()
    for token in tokenize.tokenize(io.BytesIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        if not token.line[: token.start[1]].strip():
            alone.add(token.start[0])
        if match := _ALLOW.search(token.string):
            found.reasons[token.start[0]] = match[1].strip() if re.search(r"\w", match[1]) else ""
    found.alone = frozenset(alone)
    return found
