"""What a mutant is: one small change of one file, with a name that stays when other lines of the file move."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).parents[2]
_LONGEST_CHANGE = 160


@dataclass(frozen=True)
class Mutant:
    """``before`` at ``start`` of the file becomes ``after``; ``start`` counts characters.

    ``place`` is the block of a ``.sql`` file or the qualified name of a function, empty for what a module runs when it is imported.
    ``lines`` are where it is reached. ``is_condition`` says that it changes a WHERE, ON or HAVING. ``number`` tells equal changes of one
    place apart.
    """

    file: str
    place: str
    start: int
    before: str
    after: str
    lines: tuple[int, ...]
    is_condition: bool = False
    shown: str = ""
    number: int = 1

    @property
    def line(self) -> int:
        """Where to look, from 1."""
        return self.lines[0]

    @property
    def change(self) -> str:
        """What a reader is told."""
        return self.shown or f"{_short(self.before)} → {_short(self.after) or 'nothing'}"

    @property
    def name(self) -> str:
        """As ``--name`` and the explanations take it."""
        parts = Path(self.file).with_suffix("").parts[2:]
        where = "/".join(parts) + (f":{self.place}" if self.place else "")
        return f"{where}: {self.change}" + (f" ({self.number})" if self.number > 1 else "")

    def applied(self, text: str) -> str:
        """The file's text with the change. Raises ``ValueError`` if the text is not the one that the mutant was made from."""
        end = self.start + len(self.before)
        if text[self.start : end] != self.before:
            raise ValueError(f"{self.file} has changed: {self.before!r} is not at {self.start} any more")
        return text[: self.start] + self.after + text[end:]


def numbered(mutants: Iterable[Mutant]) -> list[Mutant]:
    """Number those that have one name. A change that is made twice over is left out."""
    seen: set[tuple[str, int, str, str]] = set()
    names: Counter[str] = Counter()
    different = []
    for one in mutants:
        key = (one.file, one.start, one.before, one.after)
        if key in seen or one.before == one.after:
            continue
        seen.add(key)
        names[one.name] += 1
        different.append(replace(one, number=names[one.name]))
    return different


def _short(text: str) -> str:
    plain = " ".join(text.split())
    return plain if len(plain) <= _LONGEST_CHANGE // 2 else f"{plain[: _LONGEST_CHANGE // 2 - 20]} … {plain[-17:]}"
