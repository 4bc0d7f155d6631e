"""What jobs wait for, behind a pooler that lends a connection for each transaction: nothing of it may rest on a session."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import pytest

from onward.clock import FakeClock
from onward.driver import Store
from onward.drivers import connect
from onward.testing.conformance import (  # noqa: F401 - collected here
    TestBreakerByHand,
    TestBreakerOpens,
    TestBreakerTries,
    TestClaim,
    TestConcurrencyOfAKey,
    TestJudge,
    TestLimitOfAQueue,
    TestPause,
    TestRateOfAKey,
    TestRecover,
    TestSweep,
    TestTakeLook,
    serial,
)
from tests.drivers.pooler import Pooler


class TestSerialOrder(serial.TestSerialOrder):
    """Without what this pooler cannot do: it reads no answer before it has passed on all of a request, and one of thousands is too long."""

    test_a_long_line_is_moved_aside_in_portions_and_hides_nobody = None  # type: ignore[assignment]


@pytest.fixture
def pooled(emptied_postgres: Callable[[str], str]) -> Iterator[str]:
    """The URL of a store behind a pooler that knows nothing of prepared statements."""
    url = emptied_postgres("postgres")
    with Pooler(urlunsplit(urlsplit(url)._replace(query="")), "transaction") as pooler:
        options = dict(parse_qsl(urlsplit(url).query)) | {"prepare": "off", "notify": "off"}
        yield urlunsplit(urlsplit(pooler.url)._replace(query=urlencode(options)))


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(pooled: str, clock: FakeClock) -> Iterator[Store]:
    store = connect(pooled, clock=clock, migrate=True)
    yield store
    store.close()


@pytest.fixture
def reopen(pooled: str, clock: FakeClock) -> Callable[[], Store]:
    return lambda: connect(pooled, clock=clock)
