"""One verb for all jobs that match: which may be meant, what is told, and where it stops."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any, get_args

import pytest

from onward import InvalidDefinition, Onward, StoreBusy, define_job
from onward.bulk import PAGE, BulkResult, check_bulk
from onward.inspection import MEANT_FOR, BulkVerb, JobFilter
from onward.portions import FEWEST, MOST, portion_behind
from onward.status import Status

note = define_job("note", lambda: None, queue="notes")
other = define_job("other", lambda: None)


@pytest.fixture
def app() -> Onward:
    return Onward("memory://", jobs=[note, other])


@pytest.mark.parametrize("verb", get_args(BulkVerb))
@pytest.mark.parametrize("status", list(Status))
def test_a_status_is_meant_or_refused(verb: BulkVerb, status: Status) -> None:
    """Each verb has its statuses; one that it can never be meant for is a mistake, and not silently nothing."""
    where = JobFilter(statuses=(status,))
    if status in MEANT_FOR[verb]:
        assert check_bulk(verb, where) == where
    else:
        with pytest.raises(InvalidDefinition, match=f"is not for jobs that are {status.value}, only for"):
            check_bulk(verb, where)


@pytest.mark.parametrize(
    ("verb", "statuses"),
    [
        ("cancel", "queued in_progress retrying"),
        ("retry", "dead_letter cancelled"),
        ("run_now", "queued retrying"),
        ("delete", "queued retrying completed dead_letter cancelled"),
    ],
)
def test_without_a_status_those_are_meant_that_it_is_for(verb: BulkVerb, statuses: str) -> None:
    found = check_bulk(verb, JobFilter(queues=("a",)))
    assert found == JobFilter(queues=("a",), statuses=tuple(Status(one) for one in statuses.split()))


def test_nothing_named_is_nothing_meant() -> None:
    """Whoever means every job says so by its status."""
    with pytest.raises(InvalidDefinition, match="say which jobs to run now: a status, a definition, a queue, a key or an owner"):
        check_bulk("run_now", JobFilter())


def test_a_verb_that_is_none_names_the_nearest() -> None:
    wrong: Any = "canel"
    with pytest.raises(InvalidDefinition, match=r"'canel' is no verb for many jobs.*'cancel'"):
        check_bulk(wrong, JobFilter(queues=("a",)))


def test_all_that_match_are_meant_and_no_others(app: Onward) -> None:
    """Over several portions, and not those of another queue."""
    app.enqueue_many([note.new_job(None) for _ in range(2 * PAGE + 1)])
    left = app.enqueue(other)
    told: list[BulkResult] = []
    result = app.bulk("cancel", queue="notes", on_progress=told.append)
    assert (result.matched, result.done, result.refused, result.was_stopped) == (201, 201, 0, False)
    done = [one.done for one in told]
    assert done == sorted(set(done))
    assert (done[0], done[-1]) == (FEWEST, 201)
    assert [job.id for job in app.find(status="queued", limit=1000)] == [left.id]
    assert app.bulk("cancel", queue="notes").matched == 0


def test_jobs_are_found_and_cancelled_by_their_key(app: Onward) -> None:
    """Of every owner and type that uses it, unless these are named; and the key is free then."""
    meant = [app.enqueue(note, key="k"), app.enqueue(note, key="k", owner="ada"), app.enqueue(other, key="k")]
    left = app.enqueue(note, key="K")
    assert [job.id for job in app.find(key="k")] == [one.id for one in reversed(meant)]
    assert [job.id for job in app.find(key="k", definition=note, owner="")] == [meant[0].id]
    assert [job.id for job in asyncio.run(app.afind(key="k", owner="ada"))] == [meant[1].id]
    assert app.bulk("cancel", key="k", owner="ada").done == 1
    result = app.bulk("cancel", key="k")
    assert (result.matched, result.done, result.refused) == (2, 2, 0)
    assert {one.refresh().status for one in meant} == {Status.CANCELLED}
    assert left.refresh().status is Status.QUEUED
    assert app.enqueue(note, key="k").is_new


@pytest.mark.parametrize("wrong", ["", "x" * 256, "a\nb", 5])
def test_what_can_be_no_key_finds_nothing_silently(app: Onward, wrong: Any) -> None:
    """A misread variable must not look like a key that nobody uses; least of all may it mean every job."""
    for ask in (lambda: app.find(key=wrong), lambda: app.bulk("cancel", key=wrong), lambda: app.find_active_job(note, wrong)):
        with pytest.raises(InvalidDefinition, match="a key is text of 1 to 255 printable characters"):
            ask()


def test_a_dry_run_counts_and_changes_nothing(app: Onward) -> None:
    app.enqueue_many([note.new_job(None) for _ in range(3)])
    assert app.bulk("delete", definition=note, dry_run=True) == BulkResult(verb="delete", matched=3)
    assert len(app.find(definition=note)) == 3


def test_it_can_be_stopped_and_repeated(app: Onward) -> None:
    """What was done stays done; the same call goes on with the rest."""
    app.enqueue_many([note.new_job(None) for _ in range(2 * PAGE + 1)])
    stopped = app.bulk("cancel", queue="notes", on_progress=lambda result: False)
    assert (stopped.matched, stopped.done, stopped.was_stopped) == (201, FEWEST, True)
    again = app.bulk("cancel", queue="notes", on_progress=lambda result: None)
    assert (again.matched, again.done, again.was_stopped) == (201 - FEWEST, 201 - FEWEST, False)


def test_what_is_enqueued_meanwhile_is_not_meant(app: Onward) -> None:
    """Else a producer that never rests would keep it from ending."""
    app.enqueue_many([note.new_job(None) for _ in range(2 * PAGE)])
    newer: list[str] = []
    result = app.bulk("cancel", queue="notes", on_progress=lambda _: newer.append(app.enqueue(note).id))
    assert (result.matched, result.done) == (200, 200)
    assert len(newer) > 2
    assert sorted(job.id for job in app.find(status="queued", limit=1000)) == newer


def test_those_that_are_refused_are_counted_with_their_reasons(app: Onward) -> None:
    """A key that a live job holds keeps only its own job from being retried."""
    keyed = [app.enqueue(note, key="k") for _ in range(1)] + [app.enqueue(note) for _ in range(2)]
    app.bulk("cancel", queue="notes")
    holder = app.enqueue(note, key="k")
    result = app.bulk("retry", queue="notes")
    assert (result.matched, result.done, result.refused) == (3, 2, 1)
    assert list(result.reasons) == [keyed[0].id]
    assert holder.id in result.reasons[keyed[0].id]


def test_the_reasons_that_are_kept_are_bounded(app: Onward) -> None:
    """A hundred tell what is wrong; a million would fill the memory."""
    for number in range(PAGE + 20):
        app.cancel(app.enqueue(note, key=f"k{number}"))
        app.enqueue(note, key=f"k{number}")
    result = app.bulk("retry", status="cancelled")
    assert (result.refused, len(result.reasons)) == (120, 100)


def test_what_was_done_is_on_record(app: Onward, caplog: pytest.LogCaptureFixture) -> None:
    """Who, what, for which, how many; and a line of the log says the same."""
    app.enqueue_many([note.new_job(None) for _ in range(PAGE + 1)])
    with caplog.at_level("INFO", "onward.actions"):
        result = app.bulk("cancel", queue="notes", actor="ada")
    (action,) = app.actions()
    assert (action.id, action.actor, action.verb) == (result.action_id, "ada", "cancel")
    assert json.loads(action.filter) == {"statuses": ["queued", "in_progress", "retrying"], "queues": ["notes"]}
    assert (action.matched, action.done, action.refused, action.was_stopped) == (101, 101, 0, False)
    assert action.finished_at is not None
    (line,) = caplog.messages
    assert line == f"cancel by ada, jobs with {action.filter}: 101 of 101 done, 0 refused (action {action.id})"


def test_looking_leaves_no_record(app: Onward) -> None:
    """Nor does what matched nothing: it has done nothing, and there may be thousands of such."""
    app.enqueue(note)
    assert app.bulk("cancel", queue="notes", dry_run=True).action_id is None
    assert app.bulk("cancel", queue="other").action_id is None
    assert app.actions() == []


def test_one_that_was_stopped_says_how_far_it_came(app: Onward, caplog: pytest.LogCaptureFixture) -> None:
    app.enqueue_many([note.new_job(None) for _ in range(2 * PAGE)])
    with caplog.at_level("INFO", "onward.actions"):
        app.bulk("cancel", queue="notes", on_progress=lambda _: False)
    (action,) = app.actions()
    assert (action.matched, action.done, action.was_stopped, action.finished_at is None) == (200, FEWEST, True, False)
    assert "by somebody, " in caplog.messages[0]
    assert f": {FEWEST} of 200 done, 0 refused, stopped (action " in caplog.messages[0]


def test_one_that_an_error_ended_says_how_far_it_came(app: Onward) -> None:
    """Of the caller's own, or Ctrl-C."""
    app.enqueue_many([note.new_job(None) for _ in range(2 * PAGE)])

    def interrupt(result: BulkResult) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        app.bulk("cancel", queue="notes", on_progress=interrupt)
    (action,) = app.actions()
    assert (action.done, action.was_stopped) == (FEWEST, True)


def test_a_store_that_fails_at_the_end_takes_nothing_back(
    app: Onward, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What was done is done: the caller is told of that, and the log of the rest."""

    def fail(*_: object, **__: object) -> None:
        raise StoreBusy("somebody is in the way")

    app.enqueue(note)
    monkeypatch.setattr(app.store, "end_action", fail)
    assert app.bulk("cancel", queue="notes").done == 1
    assert "could not be ended: somebody is in the way" in caplog.messages[0]
    assert [(one.done, one.finished_at) for one in app.actions()] == [(1, None)]


ACTS: dict[str, Callable[[Onward, Any], Any]] = {
    "bulk": lambda app, actor: app.bulk("cancel", queue="notes", actor=actor),
    "pause": lambda app, actor: app.pause("notes", actor=actor),
    "resume": lambda app, actor: app.resume("notes", actor=actor),
}


@pytest.mark.parametrize("actor", ["a\nb", None])
@pytest.mark.parametrize("act", ACTS.values(), ids=list(ACTS))
def test_what_is_no_actor_changes_nothing(app: Onward, act: Callable[[Onward, Any], Any], actor: Any) -> None:
    """It is looked at before anything is."""
    job = app.enqueue(note)
    with pytest.raises(InvalidDefinition, match="actor= is who does it"):
        act(app, actor)
    assert (job.refresh().status, app.queues()[0].paused_at, app.actions()) == ("queued", None, [])


def test_actions_are_asked_for_in_pages(app: Onward) -> None:
    """What cannot be a page is said."""
    for _ in range(3):
        app.pause("notes", actor="ada")
    first = app.actions(limit=2)
    assert len(first) == 2
    assert len(app.actions(before=first[-1].id)) == 1
    wrong: Any = True
    for given in ({"limit": 0}, {"limit": wrong}, {"before": "x"}):
        with pytest.raises(InvalidDefinition, match=r"limit= is a whole number|before= is the id of an action, 26 characters"):
            app.actions(**given)


@pytest.mark.parametrize(
    ("count", "took", "then"),
    [(10, 0.0005, 10), (10, 0.00025, 15), (10, 0.001, 5), (10, 0.1, FEWEST), (100, 0.00001, MOST), (10, 0.0, 15), (5, 0.0004, 6)],
)
def test_a_portion_is_as_large_as_fits_into_the_time_of_a_commit(count: int, took: float, then: int) -> None:
    """On a slow disk the others wait for fewer jobs."""
    assert portion_behind(count, took, 0.0005) == then


class Time:
    """As much of ``time`` as a bulk verb needs. Sleeping is what moves it, and a commit takes none."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept.append(seconds)


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    time = Time()
    monkeypatch.setattr("onward.bulk.time", time)
    return time


@pytest.mark.parametrize(
    ("pace", "seconds", "most_at_once"),
    [("10/s", 20, 1), ("1/30s", 6000, 1), ("100/s", 1.91, 10), ("100000/s", 0, 100)],
)
def test_a_pace_is_kept(app: Onward, time: Time, pace: str, seconds: float, most_at_once: int) -> None:
    """From the first to the last, in portions that come so fast as the pace says, and no faster."""
    app.enqueue_many([note.new_job(None) for _ in range(201)])
    told: list[BulkResult] = []
    began = time.now
    result = app.bulk("cancel", queue="notes", pace=pace, on_progress=told.append)
    assert (result.done, result.was_stopped) == (201, False)
    assert time.now - began == pytest.approx(seconds, abs=0.001)
    done = [0, *(one.done for one in told)]
    assert max(b - a for a, b in pairwise(done)) <= most_at_once


def test_what_a_slow_store_costs_is_not_caught_up_on(app: Onward, time: Time) -> None:
    """A burst after a pause is what a pace is to prevent."""
    app.enqueue_many([note.new_job(None) for _ in range(6)])
    moments: list[float] = []

    def hold_up(result: BulkResult) -> None:
        moments.append(time.now)
        time.now += 100 if result.done == 2 else 0

    app.bulk("cancel", queue="notes", pace="10/s", on_progress=hold_up)
    assert [round(b - a, 3) for a, b in pairwise(moments)] == [0.1, 100, 0.1, 0.1, 0.1]


def test_an_interrupt_while_it_waits_ends_the_record(app: Onward, time: Time, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C comes while it sleeps, nearly always."""
    app.enqueue_many([note.new_job(None) for _ in range(6)])

    def interrupt(seconds: float) -> None:
        if seconds > 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", interrupt)
    with pytest.raises(KeyboardInterrupt):
        app.bulk("cancel", queue="notes", pace="1/m")
    (action,) = app.actions()
    assert (action.matched, action.done, action.was_stopped) == (6, 1, True)


@pytest.mark.parametrize("wrong", ["10", "0/s", 10.0, "", "fast"])
def test_what_is_no_pace_is_said_at_once(app: Onward, wrong: Any) -> None:
    app.enqueue(note)
    with pytest.raises(InvalidDefinition, match=r"pace= is a rate such as '10/s'"):
        app.bulk("cancel", queue="notes", pace=wrong)
    assert app.find(status="queued")
