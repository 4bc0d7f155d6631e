"""``app.breakers`` and ``app.limits``: what is asked and what is answered, and what is refused before the store is."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from onward.app import Onward
from onward.breaker import BreakerState
from onward.clock import FakeClock
from onward.errors import InvalidDefinition, InvalidTime
from onward.inspection import KnownBreaker
from onward.limit import Limit


@pytest.fixture
def app() -> Iterator[Onward]:
    with Onward("memory://", clock=FakeClock()) as app:
        yield app


def verbs(app: Onward) -> list[tuple[str, str]]:
    return [(one.verb, one.actor) for one in app.actions()]


def test_a_breaker_that_nobody_has_heard_of_is_closed(app: Onward) -> None:
    """Whoever asks for one of a job that never failed gets an answer, and nothing is stored by asking."""
    assert app.breakers.get("s3") == KnownBreaker(state=BreakerState(key="s3"))
    assert app.breakers.list() == []


def test_a_breaker_is_opened_and_reset_by_hand(app: Onward) -> None:
    """The provider has said that it will be away: nobody has to wait for the failures."""
    now = app.store.clock.now()
    opened = app.breakers.open("s3", "2h", actor="ada")
    assert (opened.status, opened.opened_at, opened.retry_at) == ("open", now, now + timedelta(hours=2))
    assert app.breakers.list() == [app.breakers.get("s3")]
    assert app.breakers.get("s3").alert_id is not None
    assert app.breakers.reset("s3", actor="bob").status == "closed"
    assert app.breakers.get("s3").alert_id is None
    assert verbs(app) == [("reset_breaker", "bob"), ("open_breaker", "ada")]


def test_a_breaker_is_opened_for_half_an_hour_unless_somebody_says_otherwise(app: Onward) -> None:
    """As one that opens by itself."""
    assert app.breakers.open("s3").pause == timedelta(minutes=30)


@pytest.mark.parametrize(
    ("key", "pause", "error", "why"),
    [
        ("", "1h", InvalidDefinition, "a key is text of 1 to 255"),
        ("s3", "0s", InvalidTime, "'0s' is too short: a breaker stays open for 1ms or longer"),
        ("s3", "soon", InvalidTime, "'soon' is not a duration"),
    ],
)
def test_a_breaker_is_not_opened_for_what_makes_no_sense(app: Onward, key: str, pause: str, error: type[Exception], why: str) -> None:
    """Nothing is stored then."""
    with pytest.raises(error, match=why):
        app.breakers.open(key, pause)
    assert app.breakers.list() == []


def test_a_limit_is_set_listed_and_cleared(app: Onward) -> None:
    """Of a queue and of a key, each by its own name."""
    app.limits.set(Limit(rate="10/s"), key="shop:7", actor="ada")
    state = app.limits.set(Limit(concurrency=5), queue="mail", actor="ada")
    assert (state.kind, state.name, state.is_by_hand) == ("queue", "mail", True)
    assert [(one.state.kind, one.state.name) for one in app.limits.list()] == [("queue", "mail"), ("key", "shop:7")]
    assert not app.limits.clear(key="mail"), "a key of the same name is another thing"
    assert app.limits.clear(queue="mail", actor="bob")
    assert app.limits.clear(key="shop:7")
    assert app.limits.list() == []
    assert verbs(app)[:1] + verbs(app)[-2:] == [("clear_limit", ""), ("set_limit", "ada"), ("set_limit", "ada")]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({}, "queue= or key=, one of them"),
        ({"queue": "mail", "key": "k"}, "queue= or key=, one of them"),
        ({"queue": "no queue"}, "a queue is 1 to 100 letters"),
        ({"key": ""}, "a key is text of 1 to 255"),
        ({"queue": "mail", "actor": "a\nb"}, "actor= is who does it"),
    ],
)
def test_a_limit_of_nothing_in_particular_is_refused(app: Onward, given: dict[str, Any], why: str) -> None:
    """Both to set one and to clear it."""
    with pytest.raises(InvalidDefinition, match=why):
        app.limits.set(Limit(concurrency=1), **given)
    with pytest.raises(InvalidDefinition, match=why):
        app.limits.clear(**given)
    assert app.limits.list() == []


def test_a_limit_is_a_limit(app: Onward) -> None:
    """A bare number does not say of what."""
    with pytest.raises(InvalidDefinition, match=r"set takes a Limit, such as Limit\(concurrency=5\), not 5"):
        app.limits.set(5, queue="mail")  # type: ignore[arg-type]


def test_each_verb_can_be_awaited(app: Onward) -> None:
    """A web handler must not hold up its loop."""

    async def all_of_them() -> None:
        await app.breakers.aopen("s3", "1h")
        assert (await app.breakers.aget("s3")).state.status == "open"
        assert len(await app.breakers.alist()) == 1
        await app.breakers.areset("s3")
        await app.limits.aset(Limit(concurrency=1), queue="mail")
        assert len(await app.limits.alist()) == 1
        assert await app.limits.aclear(queue="mail")

    asyncio.run(all_of_them())


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ([Limit(concurrency=1)], "takes a limit for each queue, such as"),
        (5, "takes a limit for each queue, such as"),
        ({"mail": 5}, r"takes a Limit for queue 'mail', such as Limit\(concurrency=5\), not 5"),
        ({"mail": Limit(concurrency=1), "sms": "10/s"}, "takes a Limit for queue 'sms', such as .*, not '10/s'"),
        ({"no queue": Limit(concurrency=1)}, "a queue is 1 to 100 letters"),
    ],
)
def test_limits_of_an_application_name_queues(given: Any, why: str) -> None:
    """Where it is made, in one line."""
    with pytest.raises(InvalidDefinition, match=why):
        Onward("memory://", limits=given)


def test_an_application_without_limits_declares_none() -> None:
    assert Onward("memory://").queue_limits == {}
    assert Onward("memory://", limits={"mail": Limit(concurrency=1)}).queue_limits == {"mail": Limit(concurrency=1)}
