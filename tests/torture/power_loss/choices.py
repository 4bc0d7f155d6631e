"""Which of what was pending is there when the power comes back."""

from __future__ import annotations

import random

from tests.torture.power_loss.disk import Choice, Truncation, Write

KINDS = ("nothing kept", "all kept", "some kept", "torn")


def choose(kind: str, seed: str) -> Choice:
    """The choice of one of ``KINDS``; the same for the same seed."""
    if kind == "nothing kept":
        return Choice()
    if kind == "all kept":
        return AllKept()
    return SomeKept(random.Random(seed)) if kind == "some kept" else Torn(random.Random(seed))


class AllKept(Choice):
    """As if the power had not been lost, but for what was only in memory."""

    def keep(self, change: Write | Truncation, content: bytearray) -> None:
        change.apply(content)

    def how_many(self, pending: int) -> int:
        return pending


class SomeKept(Choice):
    """Each with the same chance, which is another one each time: few, half, or nearly all."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.share = chance.choice((0.1, 0.5, 0.5, 0.9))

    def is_kept(self) -> bool:
        return self.chance.random() < self.share

    def keep(self, change: Write | Truncation, content: bytearray) -> None:
        if self.is_kept():
            change.apply(content)

    def how_many(self, pending: int) -> int:
        return self.chance.randint(0, pending)


class Torn(SomeKept):
    """The same for each sector."""

    def keep(self, change: Write | Truncation, content: bytearray) -> None:
        change.apply_sectors(content, self.is_kept)
