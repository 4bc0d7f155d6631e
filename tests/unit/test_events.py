from __future__ import annotations

import logging

import pytest

from onward.events import Event, Events

QUEUED = Event(event="queued", job_id="1", job_type="t")


def test_every_subscriber_gets_every_event_in_order() -> None:
    """Logs, metrics and the application's hooks are all just subscribers."""
    first: list[Event] = []
    second: list[Event] = []
    events = Events([first.append])
    events.subscribe(second.append)
    events.emit(QUEUED)
    assert first == second == [QUEUED]


def test_a_failing_subscriber_is_logged_and_stops_nobody(caplog: pytest.LogCaptureFixture) -> None:
    """Telemetry must never cost a job."""
    seen: list[Event] = []

    def fail(event: Event) -> None:
        raise RuntimeError("metrics are down")

    events = Events([fail, seen.append])
    with caplog.at_level(logging.ERROR, logger="onward"):
        events.emit(QUEUED)
    assert seen == [QUEUED]
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "metrics are down" in caplog.text


def test_it_is_known_whether_anybody_listens() -> None:
    """Building an event for nobody costs time in the hot path."""
    events = Events()
    assert not events.has_subscribers
    events.subscribe(lambda event: None)
    assert events.has_subscribers


def test_an_event_carries_no_payload() -> None:
    """A payload may be secret, and logs are kept."""
    assert not {"payload", "result"} & set(Event.__struct_fields__)
