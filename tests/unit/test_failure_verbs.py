"""``app.failures``: groups of dead letters, retried and purged together."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from onward import FailureGroupNotFound, InvalidDefinition, Onward, define_job
from onward.bulk import BulkResult
from onward.inspection import JobFilter
from onward.retry import RetryPolicy
from onward.status import Status
from onward.testing import drain


def look_up(number: int) -> None:
    if number < 10:
        raise LookupError(f"no user {number}")
    raise ValueError(f"user {number} is too new")


def break_down(number: int) -> None:
    raise LookupError(f"no user {number}")


finding = define_job("find", look_up, payload=int, queue="people", retry=RetryPolicy(1))
breaking = define_job("break", break_down, payload=int, retry=RetryPolicy(1), aliases=("brake",))


@pytest.fixture
def app() -> Onward:
    """Five dead letters of three causes."""
    app = Onward("memory://", jobs=[finding, breaking])
    app.enqueue_many([finding.new_job(number) for number in (1, 2, 30, 3)])
    app.enqueue(breaking, 4)
    drain(app)
    return app


def causes(app: Onward) -> list[tuple[str, str, int]]:
    return sorted((one.type, one.message, one.count) for one in app.failures.groups())


def test_jobs_are_grouped_by_what_they_died_of(app: Onward) -> None:
    """The largest group first; the same error of another type is another cause."""
    assert causes(app) == [("break", "no user <n>", 1), ("find", "no user <n>", 3), ("find", "user <n> is too new", 1)]
    first, *_ = app.failures.groups()
    assert (first.count, first.exception, first.queues, first.is_capped) == (3, "LookupError", ("people",), False)
    assert first.where == "unit/test_failure_verbs.py:look_up"
    assert [job.payload for job in app.failures.jobs(first.id)] == ["3", "2", "1"]
    assert [job.payload for job in app.failures.jobs(first.id, limit=1)] == ["3"]
    assert [one.type for one in app.failures.groups(definition=breaking)] == ["break"]
    assert len(app.failures.groups(queue="people")) == 2
    assert app.failures.groups(queue="nowhere") == []


def test_a_group_is_retried_and_no_other(app: Onward) -> None:
    """Its jobs keep their history, lose their error, and get all their tries; the record names the group and who it was."""
    first, *_ = app.failures.groups()
    told: list[BulkResult] = []
    result = app.failures.retry(first.id, pace="100000/s", on_progress=told.append, actor="ada")
    assert (result.verb, result.matched, result.done, result.refused) == ("retry", 3, 3, 0)
    assert told[-1].done == 3
    retried = app.find(status="queued")
    assert [(job.payload, job.error, job.attempts) for job in retried] == [("3", None, 0), ("2", None, 0), ("1", None, 0)]
    assert [len(app.history(job.id)) for job in retried] == [1, 1, 1]
    assert causes(app) == [("break", "no user <n>", 1), ("find", "user <n> is too new", 1)]
    (action,) = app.actions()
    assert (action.verb, action.actor, action.matched, action.done, action.id) == ("retry", "ada", 3, 3, result.action_id)
    assert json.loads(action.filter) == {"statuses": ["dead_letter"], "types": ["find"], "group": first.id}


def test_a_group_is_purged_with_its_history(app: Onward) -> None:
    first, *_ = app.failures.groups()
    gone = app.failures.jobs(first.id)
    assert app.failures.purge(first.id, dry_run=True) == BulkResult(verb="delete", matched=3)
    assert app.failures.purge(f" {first.id.upper()} ").done == 3
    assert app.store.count(JobFilter(ids=tuple(job.id for job in gone))) == 0
    assert len(app.failures.groups()) == 2


def test_those_are_meant_that_were_in_it_at_the_beginning(app: Onward) -> None:
    """What dies meanwhile waits for the next time; what a person has dealt with meanwhile is left as it is."""
    first, *_ = app.failures.groups()
    newest, _, oldest = app.failures.jobs(first.id)

    def meddle(result: BulkResult) -> None:
        if result.done == 1:
            app.retry(oldest.id)
            app.cancel(oldest.id)
            app.enqueue(finding, 5)
            drain(app)

    result = app.failures.retry(first.id, pace="10/s", on_progress=meddle)
    assert (result.matched, result.done, list(result.reasons)) == (3, 2, [oldest.id])
    assert app.get(oldest.id).status is Status.CANCELLED
    again, *_ = app.failures.groups()
    assert again.id == first.id
    assert [job.payload for job in app.failures.jobs(first.id)] == ["5", newest.payload]


def test_one_stops_it_and_goes_on_later(app: Onward) -> None:
    first, *_ = app.failures.groups()
    stopped = app.failures.retry(first.id, pace="10/s", on_progress=lambda result: False)
    assert (stopped.done, stopped.was_stopped) == (1, True)
    assert app.failures.retry(first.id).done == 2
    with pytest.raises(FailureGroupNotFound):
        app.failures.retry(first.id)


def test_a_group_that_is_none_names_the_nearest(app: Onward) -> None:
    """A slip in ten digits is easily made."""
    first, *_ = app.failures.groups()
    with pytest.raises(FailureGroupNotFound, match=f"there is no group of failures .*: did you mean '{first.id}'"):
        app.failures.jobs(first.id[:-2] + "zz")
    with pytest.raises(FailureGroupNotFound, match="'onward failures list' shows those that there are"):
        app.failures.purge("?" * 1000)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"group_id": 5}, "a group of failures is known by its id"),
        ({"definition": "find"}, "definition= is what define_job"),
        ({"queue": ""}, "queue"),
        ({"pace": "5"}, "pace= is a rate"),
        ({"actor": "a\nb"}, "actor= is who does it"),
    ],
)
def test_what_makes_no_sense_changes_nothing(app: Onward, wrong: dict[str, Any], said: str) -> None:
    first, *_ = app.failures.groups()
    with pytest.raises(InvalidDefinition, match=said):
        app.failures.retry(**({"group_id": first.id} | wrong))
    assert app.find(status="queued") == []
    assert app.actions() == []


def test_each_verb_has_a_twin_for_an_event_loop(app: Onward) -> None:
    async def use() -> None:
        first, second, third = await app.failures.agroups()
        assert len(await app.failures.ajobs(first.id)) == 3
        assert (await app.failures.aretry(first.id)).done == 3
        assert (await app.failures.apurge(second.id)).done == 1
        assert [one.id for one in await app.failures.agroups()] == [third.id]

    asyncio.run(use())
