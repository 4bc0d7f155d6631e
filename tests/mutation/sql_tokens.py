"""The words of a SQL statement, and how deep in brackets each of them stands."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""
    --[^\n]*                     # a comment
    | '(?:[^']|'')*'             # a literal
    | "(?:[^"]|"")*"             # a quoted identifier
    | ::\w+(?:\s+precision)?     # a cast
    | :\w+                       # a parameter
    | \{\w+\}                    # a word that the loader puts in
    | [A-Za-z_]\w* | \d+
    | <> | <= | >= | ->> | -> | \|\| | [^\s\w]
    """,
    re.VERBOSE,
)


@dataclass(frozen=True)
class Token:
    """``depth`` counts the brackets around it; CASE and END count as brackets too."""

    text: str
    start: int
    depth: int

    @property
    def end(self) -> int:
        """Where it ends in the text."""
        return self.start + len(self.text)

    @property
    def word(self) -> str:
        """In capitals, to be compared with keywords."""
        return self.text.upper()


def tokens(sql: str, offset: int = 0) -> list[Token]:
    """Split a statement, without its comments. An opening bracket stands outside what it opens, and so does the closing one."""
    found: list[Token] = []
    depth = 0
    for match in _TOKEN.finditer(sql):
        text = match[0]
        if text.startswith("--"):
            continue
        if text == ")" or text.upper() == "END":
            depth -= 1
        found.append(Token(text, match.start() + offset, depth))
        if text == "(" or text.upper() == "CASE":
            depth += 1
    return found


def run_of(words: Sequence[Token], first: int, stops: Collection[str]) -> list[Token]:
    """From the token at ``first`` to where its bracket closes, a semicolon, or one of ``stops`` beside it."""
    if first >= len(words):
        return []
    depth = words[first].depth
    last = first
    while last < len(words) and words[last].depth >= depth:
        if words[last].depth == depth and (words[last].text == ";" or words[last].word in stops):
            break
        last += 1
    return list(words[first:last])


def split(words: Sequence[Token], separator: str) -> list[list[Token]]:
    """The parts between separators that stand beside the first token."""
    if not words:
        return []
    depth = min(word.depth for word in words)
    parts: list[list[Token]] = [[]]
    for word in words:
        if word.depth == depth and word.word == separator:
            parts.append([])
        else:
            parts[-1].append(word)
    return [part for part in parts if part]
