"""The five fields of a cron expression: what each may hold, and which value of an expression cannot be."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from cronsim import CronSim, CronSimError
from msgspec import Struct

from onward.spelling import shown

ANY_DAY = datetime(2000, 1, 1)  # noqa: DTZ001 - local time, of no zone yet


class Field(Struct, frozen=True):
    """One of the five."""

    name: str
    most: int
    """How many values it has, and the longest step that leads to a second one, or round to the first."""
    allowed: str


FIELDS = (
    Field("minute", 60, "0 to 59"),
    Field("hour", 24, "0 to 23"),
    Field("day of month", 31, "1 to 31, L for the last day, or LW for the last day from Monday to Friday"),
    Field("month", 12, "1 to 12, or jan to dec"),
    Field("day of week", 7, "0 to 7, where 0 and 7 are Sunday, or sun to sat; mon#2 is the second Monday, and 1L the last"),
)


def find_fault(text: str) -> str | None:
    """What is wrong with a field of an expression, as the end of a sentence: which field, which value, what is allowed. None for nothing.

    Says nothing of days that no month has, which are wrong only together.
    """
    for number, value in enumerate(text.split()):
        for term in value.split(","):
            if fault := _fault_of_term(number, term):
                return fault
    return None


def _fault_of_term(number: int, term: str) -> str | None:
    field = FIELDS[number]
    base, slash, step = term.partition("/")
    if slash and not (step.isascii() and step.isdigit() and 1 <= int(step) <= field.most):
        return f"{shown(step)} is no step of its {field.name}, which is 1 to {field.most}"
    if _is_possible(number, term):
        return None
    low, dash, high = base.partition("-")
    if dash and _is_possible(number, low) and _is_possible(number, high):
        return f"the range {shown(base)} of its {field.name} must not end before it begins"
    parts = (low, high) if dash else (base,)
    wrong = next((part for part in parts if part and not _is_possible(number, part)), term)
    return f"{shown(wrong)} is no {field.name}, which is {field.allowed}"


def _is_possible(number: int, value: str) -> bool:
    """Whether a field may be this, where all others may be anything."""
    try:
        CronSim(" ".join(_beside(number, value)), ANY_DAY)
    except CronSimError:
        return False
    return True


def _beside(number: int, value: str) -> Iterator[str]:
    for other in range(len(FIELDS)):
        yield (value or "?") if other == number else "*"
