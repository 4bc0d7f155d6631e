"""Prometheus text: what a scraper reads, bounded, and never going back."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest

from onward.errors import InvalidDefinition
from onward.metrics import Backlog, Metrics, Total
from onward.presence import KnownWorker
from onward.rollups import bucket_of
from onward.telemetry.prometheus import ALL, BOUNDS, prometheus_text

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
NOTHING = Metrics(at=NOW, window=timedelta(hours=1))


def total(type_: str = "a", count: int = 1, *, outcome: str = "completed", since: str = "2026-03-01T11:00", ran: float = 0.2) -> Total:
    times = {bucket_of(ran): count}
    return Total(queue="q", type=type_, outcome=outcome, since=since, count=count, waited=times, ran=times)


def worker(ago: timedelta) -> KnownWorker:
    return KnownWorker(lease_owner=str(ago), name="w", started_at=NOW - ago, seen_at=NOW - ago)


def samples(text: str) -> dict[str, float]:
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}


def test_every_metric_says_what_it_is() -> None:
    lines = prometheus_text(NOTHING, []).splitlines()
    said = [line.split()[2] for line in lines if line.startswith("#")]
    assert said == [metric.name for metric in ALL for _ in range(2)]


def test_what_waits_and_runs_is_a_gauge_each() -> None:
    old = NOW - timedelta(seconds=90)
    backlog = Backlog(queue="q", type="a", due=3, blocked={"serial": 2}, in_progress=4, dead_letters=5, oldest_due_at=old)
    dead, alive = worker(timedelta(hours=1)), worker(timedelta(seconds=30))
    look = Metrics(at=NOW, window=timedelta(hours=1), backlog=(backlog,), workers=(dead, alive))
    found = samples(prometheus_text(look, []))
    assert found == {
        "onward_workers": 1,
        'onward_jobs_due{queue="q",type="a"}': 3,
        'onward_jobs_blocked{queue="q",type="a",blocked_by="serial"}': 2,
        'onward_jobs_in_progress{queue="q",type="a"}': 4,
        'onward_jobs_dead_letter{queue="q",type="a"}': 5,
        'onward_oldest_due_seconds{queue="q",type="a"}': 90,
    }


def test_what_has_ended_is_a_counter_and_two_histograms() -> None:
    found = samples(prometheus_text(NOTHING, [total(count=3), total(outcome="retried", count=1, ran=20.0)]))
    assert found['onward_runs_total{queue="q",type="a",outcome="completed"}'] == 3
    assert found['onward_runs_total{queue="q",type="a",outcome="retried"}'] == 1
    within = [found[f'onward_run_seconds_bucket{{queue="q",type="a",le="{bound:g}"}}'] for bound in BOUNDS]
    assert within == [0] * 5 + [3] * 6 + [4] * 5
    assert found['onward_run_seconds_bucket{queue="q",type="a",le="+Inf"}'] == found['onward_run_seconds_count{queue="q",type="a"}'] == 4
    assert found['onward_run_seconds_sum{queue="q",type="a"}'] == pytest.approx(20.6, rel=0.05)


def test_labels_are_escaped() -> None:
    assert r'{queue="q",type="a\"b\\c\nd",outcome="completed"} 1' in prometheus_text(NOTHING, [total('a"b\\c\nd')])


def test_made_up_types_cost_no_more_than_a_bound() -> None:
    many = [total(f"type{number:03}", since="2026-03-01T11:30") for number in range(500)]
    waiting = tuple(Backlog(queue="q", type=f"new{number}", due=1) for number in range(500))
    text = prometheus_text(Metrics(at=NOW, window=timedelta(hours=1), backlog=waiting), [total("first"), *many], most_lanes=20)
    lanes = set(re.findall(r'type="(?:[^"]*)"', text))
    assert len(lanes) == 21
    assert 'type="first"' in lanes
    found = samples(text)
    assert found['onward_runs_total{queue="other",type="other",outcome="completed"}'] == 481
    assert found['onward_jobs_due{queue="other",type="other"}'] == 500


def test_no_counter_goes_back_when_a_type_comes_later() -> None:
    """Not even that of all others together: who was there first stays itself."""
    first = [total("b", 5), total("c", 7, since="2026-03-01T11:01"), total("d", 9, since="2026-03-01T11:02")]
    before = samples(prometheus_text(NOTHING, first, most_lanes=2))
    after = samples(prometheus_text(NOTHING, [total("a", 100, since="2026-03-01T12:00"), *first], most_lanes=2))
    assert before.keys() == after.keys()
    assert all(after[name] >= value for name, value in before.items())


def test_an_application_shows_names_of_its_own() -> None:
    text = prometheus_text(NOTHING, [total()], names={"onward_runs_total": "sync_jobs_total"})
    assert 'sync_jobs_total{queue="q",type="a",outcome="completed"} 1' in text
    assert "onward_runs_total" not in text


@pytest.mark.parametrize(
    ("names", "why"),
    [
        ({"onward_job_due": "x"}, "'onward_job_due' is none: did you mean 'onward_jobs_due'"),
        ({"onward_jobs_due": "no name"}, "'no name' can be no name in Prometheus"),
        ({"onward_jobs_due": "onward_runs_total"}, "two of them would be called onward_runs_total"),
        ({"onward_jobs_due": 5}, "5 can be no name"),
    ],
)
def test_names_that_make_no_sense_are_refused(names: dict[str, str], why: str) -> None:
    with pytest.raises(InvalidDefinition, match=why):
        prometheus_text(NOTHING, [], names=names)
