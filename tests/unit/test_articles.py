"""Messages that name what they were given read as English, whatever its name begins with."""

from __future__ import annotations

from enum import Enum
from typing import Any

import pytest

from onward import Onward, define_job
from onward.application import load_application
from onward.clock import FakeClock
from onward.drivers.borrowed import find_bridge
from onward.drivers.memory import MemoryStore
from onward.drivers.postgres.within import BRIDGES
from onward.errors import ApplicationNotFound, InvalidDefinition, InvalidPayload, InvalidSetting, NoTransaction
from onward.settings import Settings
from onward.spelling import with_article


class Engine:
    """What somebody passes in place of a connection."""


@pytest.mark.parametrize(
    ("noun", "said"),
    [("int", "an int"), ("Engine", "an Engine"), ("list", "a list"), ("asyncpg.Pool", "an asyncpg.Pool"), ("UUID", "a UUID")],
)
def test_the_article_goes_with_the_noun(noun: str, said: str) -> None:
    """The first letter decides, and a u is spoken as in use: it begins UUID and User."""
    assert with_article(noun) == said


class Ink(Enum):
    """What comes back as text."""

    RED = "red"


RED: Any = Ink.RED


def use(payload: Any) -> None: ...


def call_with(**given: Any) -> None:
    Onward("memory://", **given)


@pytest.mark.parametrize(
    ("ask", "error", "words"),
    [
        (lambda: MemoryStore(clock=FakeClock()).within(Engine()), NoTransaction, "cannot join an Engine"),
        (lambda: find_bridge(type("Engine", (), {"__module__": "engines"})(), BRIDGES, "sync"), NoTransaction, "given an engines.Engine"),
        (lambda: define_job("print", use, payload=str, aliases=["a b"]), InvalidDefinition, "^an alias is"),
        (lambda: define_job("print", use, payload=Any).new_job(RED), InvalidPayload, "an Ink would come back"),
        (lambda: Settings({"url": 5}), InvalidSetting, "must be text, not an int"),
        (lambda: call_with(jobs=5), InvalidDefinition, "not an int"),
        (lambda: call_with(subscribers=[5]), InvalidDefinition, "not an int"),
        (lambda: load_application(f"{__name__}:NUMBER"), ApplicationNotFound, "is an int"),
    ],
    ids=["memory", "borrowed", "name", "payload", "setting", "jobs", "subscribers", "application"],
)
def test_each_message_has_the_right_article(ask: Any, error: type[Exception], words: str) -> None:
    """One place that says "a int" is enough to make a reader doubt the rest."""
    with pytest.raises(error, match=words):
        ask()


NUMBER = 5
