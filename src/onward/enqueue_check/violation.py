"""``Violation``: one place where code goes around the primitives, and what belongs there instead."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

Rule: TypeAlias = Literal[
    "store-verb", "private", "internal-import", "raw-sql", "missing-within", "after-commit", "allow-without-reason", "unreadable"
]

INSTEAD: dict[Rule, str] = {
    "store-verb": "use app.enqueue(definition, payload), with within=connection to join a transaction",
    "private": "use app.enqueue(definition, payload), with within=connection to join a transaction",
    "internal-import": "use Onward(url, jobs=[...]) and its verbs: app.enqueue, app.cancel, app.retry",
    "raw-sql": "use app.enqueue(definition, payload, within=connection), or app.cancel, app.retry and app.delete",
    "missing-within": "add within= with the connection or session of that transaction, or enqueue behind its block",
    "after-commit": "call it inside the transaction, with within= and its connection or session",
    "allow-without-reason": "say why behind it: # onward: allow, and the reason",
    "unreadable": "nothing in it was checked",
}


class Violation(Struct, frozen=True, order=True):
    """``found`` is what stands at ``path``, in ``line`` (from 1) and ``column`` (from 1)."""

    path: str
    line: int
    column: int
    rule: Rule
    found: str

    @property
    def instead(self) -> str:
        """Which primitive belongs there."""
        return INSTEAD[self.rule]

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}: {self.found}: {self.instead}"


Finding: TypeAlias = tuple[Violation, int, int]
"""With the first and the last line of the statement that it stands in."""
