"""A job that is somebody else's and a job that never was look the same, to every verb and in every status."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from onward.app import Onward
from onward.definition import define_job
from onward.driver import Store
from onward.errors import JobNotFound, OnwardError
from onward.ids import new_id
from onward.inspection import JobFilter
from onward.outcome import Completed, DeadLettered, Outcome
from onward.status import Status
from onward.testing.conformance.steps import claim, settle
from onward.testing.factories import make_new_job
from tests.lines_run import lines_run

VERBS = ("get", "cancel", "retry", "run_now", "delete")
ENDS: dict[Status, Outcome | None] = {
    Status.QUEUED: None,
    Status.IN_PROGRESS: None,
    Status.COMPLETED: Completed('"secret"'),
    Status.DEAD_LETTER: DeadLettered("secret"),
}


def foreign_job(store: Store, status: Status) -> str:
    """A job of alice's in this status, for others to ask of."""
    new = make_new_job(owner="alice", key="k", payload="secret")
    store.enqueue([new])
    if status is not Status.QUEUED:
        (taken,) = claim(store)
        if (outcome := ENDS[status]) is not None:
            settle(store, taken, outcome)
    return new.id


def answer(ask: Callable[..., Any], job_id: str, owner: str) -> tuple[type, str]:
    with pytest.raises(OnwardError) as refused:
        ask(job_id, owner=owner)
    return type(refused.value), str(refused.value).replace(job_id, "ID")


@pytest.mark.parametrize("status", ENDS)
@pytest.mark.parametrize("owner", ["bob", "", "alice ", "ALICE", "%", "alice\0", "\ud800"])
def test_a_foreign_job_is_as_missing_as_one_that_never_was(store: Store, status: Status, owner: str) -> None:
    """A difference would tell who has which jobs, one guess at a time."""
    theirs = foreign_job(store, status)
    before = store.get(theirs)
    app = Onward(store=store)
    for ask in (*(getattr(store, verb) for verb in VERBS), *(getattr(app, verb) for verb in VERBS), app.history):
        assert answer(ask, theirs, owner) == answer(ask, new_id(), owner)
        assert answer(ask, theirs, owner)[0] is JobNotFound
    if owner.strip():
        assert answer(app.get_owned_job_or_not_found, theirs, owner) == answer(app.get_owned_job_or_not_found, new_id(), owner)
    assert store.find(JobFilter(owner=owner)) == []
    assert store.find(JobFilter(owner=owner, ids=(theirs,))) == []
    assert store.count(JobFilter(owner=owner, key="k")) == 0
    assert store.find_active(["work"], "k", owner=owner) is None
    assert store.get(theirs) == before


def test_a_key_of_somebody_else_is_free(store: Store) -> None:
    """Neither who holds it nor that it is held is told."""
    theirs = foreign_job(store, Status.QUEUED)
    (mine,) = store.enqueue([make_new_job(owner="bob", key="k", on_duplicate="raise")])
    assert mine.is_new
    assert mine.id != theirs


def test_an_id_of_somebody_else_tells_nothing_but_that_it_is_taken(store: Store) -> None:
    """An id is 80 random bits, which nobody guesses; who has seen one learns nothing of its job."""
    theirs = foreign_job(store, Status.DEAD_LETTER)
    with pytest.raises(OnwardError) as refused:
        store.enqueue([make_new_job(id=theirs, owner="bob")])
    for told in ("alice", "secret", "dead", "'k'"):
        assert told not in str(refused.value)


@pytest.mark.parametrize("name", ["memory", "sqlite"])
@pytest.mark.parametrize("verb", VERBS)
def test_the_way_to_the_answer_is_the_same(make_store: Callable[[str], Store], name: str, verb: str) -> None:
    """The same steps of ours, so that a clock tells no more than the words do."""
    store = make_store(name)
    theirs, missing = foreign_job(store, Status.DEAD_LETTER), new_id()
    ask = getattr(store, verb)
    for job_id in (theirs, missing):  # what is loaded at the first use is loaded
        answer(ask, job_id, "bob")
    # The fewest of some: a lock that is not free at once is tried for again.
    steps = {job_id: min(lines_run(partial(_try, ask, job_id)) for _ in range(7)) for job_id in (theirs, missing)}
    assert abs(steps[theirs] - steps[missing]) <= 3, steps


def test_a_way_that_differs_is_seen() -> None:
    """A difference of a loop must not pass as none."""
    assert lines_run(lambda: sum(int(number) for number in range(5))) > lines_run(lambda: sum(int(number) for number in range(1))) + 3


def _try(ask: Callable[..., Any], job_id: str) -> None:
    try:
        ask(job_id, owner="bob")
    except OnwardError:
        return


def test_the_owner_of_a_question_cannot_be_left_out_by_mistake(store: Store) -> None:
    """An empty or missing user must not see everybody's jobs."""
    app = Onward(store=store, jobs=[define_job("work", lambda: None)])
    theirs = foreign_job(store, Status.QUEUED)
    for owner in ("", " ", None, 0, False):
        with pytest.raises(OnwardError):
            app.get_owned_job_or_not_found(theirs, owner)  # type: ignore[arg-type]
