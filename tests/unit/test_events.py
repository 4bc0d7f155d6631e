from __future__ import annotations

import logging
from collections.abc import Sequence

import pytest

from onward.events import Event, Events, correlation_id

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


class Batches:
    """As the log takes them: many lines are one write."""

    def __init__(self) -> None:
        self.taken: list[Sequence[Event]] = []

    def __call__(self, event: Event) -> None:
        raise AssertionError("it was to be given them together")

    def together(self, events: Sequence[Event]) -> None:
        self.taken.append(events)
        if len(self.taken) > 1:
            raise RuntimeError("the disk is full")


def test_a_subscriber_that_takes_events_together_is_given_all_of_a_turn_at_once(caplog: pytest.LogCaptureFixture) -> None:
    """A thousand jobs that end together are not a thousand writes; what it raises is logged by the first of them."""
    batches, seen = Batches(), list[Event]()
    events = Events([batches, seen.append])
    events.emit_all([QUEUED, QUEUED])
    assert batches.taken == [[QUEUED, QUEUED]]
    with caplog.at_level(logging.ERROR, logger="onward"):
        events.emit(QUEUED)
    assert "a subscriber failed on queued of job 1" in caplog.text
    assert seen == [QUEUED] * 3


@pytest.mark.parametrize(
    ("metadata", "shared"),
    [
        ('{"correlation_id":"order-7"}', "order-7"),
        ('{"correlation_id":7}', "7"),
        ('{"correlation_id":""}', "the-job"),
        ('{"tags":["correlation_id"]}', "the-job"),
        ("{}", "the-job"),
        ('{"correlation_id":', "the-job"),
        ('["correlation_id"]', "the-job"),
    ],
    ids=range(7),
)
def test_a_job_is_followed_by_the_id_in_its_metadata_or_by_its_own(metadata: str, shared: str) -> None:
    """A person who looks for an order finds all that it led to; damaged metadata never costs the log line."""
    assert correlation_id(metadata, "the-job") == shared


def test_it_is_known_whether_anybody_listens() -> None:
    """Building an event for nobody costs time in the hot path."""
    events = Events()
    assert not events.has_subscribers
    events.subscribe(lambda event: None)
    assert events.has_subscribers


def test_an_event_carries_no_payload() -> None:
    """A payload may be secret, and logs are kept."""
    assert not {"payload", "result"} & set(Event.__struct_fields__)
