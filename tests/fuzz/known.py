"""Faults that are known and not mended yet: each with an input that shows it, so that it cannot stay here once it is mended."""

from __future__ import annotations

import traceback
from dataclasses import dataclass

from tests.fuzz.target import Finding


@dataclass(frozen=True)
class Known:
    """A fault that ``target`` finds with ``data``: ``error`` is raised and says ``says``, and ``place`` is a function it comes through."""

    target: str
    place: str
    error: str
    data: bytes
    fault: str
    says: str = ""


KNOWN: tuple[Known, ...] = ()


def recognise(finding: Finding) -> Known | None:
    """The known fault that a finding shows, if it is one."""
    places, error = places_of(finding.error), finding.error
    for one in KNOWN:
        if (one.target, one.error) == (finding.target, type(error).__name__) and one.place in places and one.says in str(error):
            return one
    return None


def places_of(error: BaseException) -> set[str]:
    """The functions that an error came through."""
    return {frame.name for frame in traceback.extract_tb(error.__traceback__)}
