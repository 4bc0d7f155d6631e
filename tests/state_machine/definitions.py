"""The jobs of the applications over the stores. No handler is ever called: the machine says how each run ended."""

from __future__ import annotations

from dataclasses import dataclass

from onward.definition import define_job


@dataclass
class Number:
    value: int


def _never(payload: Number) -> None:
    raise AssertionError("the machine settles claims itself")


WORK = define_job("work", _never)
MAIL = define_job("mail", _never, queue="slow", expires="40s", key="payload")
DEFINITIONS = (WORK, MAIL)
