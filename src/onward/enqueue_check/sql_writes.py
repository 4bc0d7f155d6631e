"""Whether SQL text writes one of the tables that only the primitives may write."""

from __future__ import annotations

import re

from msgspec import Struct

UNKNOWN = "\ufffd"
"""Stands in a text for a part that cannot be known before the program runs."""
PROTECTED = ("jobs", "keys", "history")

_COMMENTS = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_QUOTE = r'["`\[\]]?'
_WRITES = (
    r"INSERT\s+(?:OR\s+\w+\s+)?INTO|REPLACE\s+INTO|UPDATE\s+(?:OR\s+\w+\s+)?(?:ONLY\s+)?|DELETE\s+FROM(?:\s+ONLY)?|MERGE\s+INTO(?:\s+ONLY)?"
    r"|TRUNCATE(?:\s+TABLE)?(?:\s+ONLY)?|(?:DROP|ALTER)\s+TABLE(?:\s+IF\s+EXISTS)?(?:\s+ONLY)?|COPY"
)


class Tables(Struct, frozen=True, kw_only=True):
    """What the tables are called: with a prefix on SQLite, in a schema on Postgres."""

    prefix: str = "onward_"
    schema: str = "onward"


class WritePattern:
    """Finds a statement that writes one of the protected tables."""

    def __init__(self, tables: Tables) -> None:
        names = "|".join(PROTECTED)
        prefixed = rf"(?:{_QUOTE}\w+{_QUOTE}\s*\.\s*)?{_QUOTE}{re.escape(tables.prefix)}(?:{names})"
        in_schema = rf"{_QUOTE}{re.escape(tables.schema)}{_QUOTE}\s*\.\s*{_QUOTE}(?:{names})"
        self._pattern = re.compile(rf"\b({_WRITES})\s*({prefixed}|{in_schema}){_QUOTE}(?![\w$])(\s*(?:\([^)]*\)\s*)?TO\b)?", re.IGNORECASE)

    def find(self, text: str) -> str | None:
        """Give the beginning of such a statement, such as ``DELETE FROM onward_jobs``; None when the text has none."""
        for found in self._pattern.finditer(_COMMENTS.sub(" ", text)):
            reads = found[1].upper() == "COPY" and found[3] is not None
            if not reads:
                return " ".join(f"{found[1]} {found[2]}".replace('"', "").split())
        return None
