"""Values made out of bytes, so that one that sees the code can steer them: the same bytes are the same value."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, TypeVar

from tests.fuzz.target import as_text

T = TypeVar("T")
DEEPEST = 80
_ODD = (None, True, False, 10**299, 10**300, -(10**301), 2**63, 2**64, 10**4400, float("nan"), float("inf"), -0.0, 5e-324)


class Taker:
    """Takes one thing after another from the front; at the end there are zeros for ever."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def is_at_end(self) -> bool:
        return self._at >= len(self._data)

    def number(self, below: int = 256) -> int:
        """A number from 0 up to ``below``, at most 65,536."""
        width = 1 if below <= 256 else 2
        return int.from_bytes(self._take(width).ljust(width, b"\0"), "big") % below

    def choice(self, of: Sequence[T]) -> T:
        return of[self.number(len(of))]

    def text(self, longest: int = 64) -> str:
        return as_text(self._take(self.number(longest + 1)))

    def integer(self) -> int:
        return int.from_bytes(self._take(self.number(12)), "big", signed=True)

    def value(self, depth: int = 0) -> Any:
        """Any value that could be meant as JSON, or is near it."""
        kind = self.number(9)
        if depth > DEEPEST or self.is_at_end:
            kind %= 5
        match kind:
            case 0:
                return self.choice(_ODD)
            case 1:
                return self.integer()
            case 2:
                return struct.unpack(">d", self._take(8).ljust(8, b"\0"))[0]
            case 3 | 4:
                return self.text()
            case 5:
                return [self.value(depth + 1) for _ in range(self.number(4))]
            case 6:
                return {self.text(8): self.value(depth + 1) for _ in range(self.number(4))}
            case 7:
                return self._nested(depth)
            case _:
                return (self.value(depth + 1), self.text())

    def rest(self) -> bytes:
        return self._take(len(self._data))

    def _nested(self, depth: int) -> Any:
        levels = self.number(DEEPEST)
        value = self.value(depth + levels)
        for level in range(levels):
            value = [value] if level % 2 else {"a": value}
        return value

    def _take(self, count: int) -> bytes:
        taken = self._data[self._at : self._at + count]
        self._at += count
        return taken
