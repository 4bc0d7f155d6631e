"""A job and the caller's data: one commit, or neither."""

from __future__ import annotations

from datetime import timedelta

import pytest

from onward.driver import Store
from onward.errors import DuplicateJob, JobNotFound, LeaseLost, NoTransaction
from onward.inspection import JobFilter
from onward.outcome import Completed
from onward.status import Status
from onward.testing.factories import make_new_job
from onward.turn import Claim, Demand, Settlement
from tests.drivers.borrowed.callers import Caller
from tests.drivers.borrowed.conftest import OTHER_FORMS_ON_POSTGRES, OTHER_FORMS_ON_SQLITE, Database

SELL = "INSERT INTO sales VALUES (1)"


def claim(store: Store) -> list[Claim]:
    return list(store.turn(demand=Demand(lease_owner="host:1:one", slots=10, types={"work": timedelta(seconds=60)})).claims)


def sales(store: Store) -> int:
    with store.transaction() as connection:
        (count,) = connection.execute("SELECT count(*) FROM sales").fetchone()
    return int(count)


def test_what_commits_runs(store: Store, caller: Caller) -> None:
    """The job is there when the data is, and not a moment before."""
    caller.begin()
    caller.run(SELL)
    (accepted,) = caller.enqueue(store, make_new_job())
    assert accepted.is_new
    assert store.count(JobFilter()) == 0
    caller.commit()
    assert [one.id for one in claim(store)] == [accepted.id]
    assert sales(store) == 1


def test_a_job_alone_makes_a_transaction_of_the_callers(store: Store, caller: Caller) -> None:
    """Where the library begins by itself, it must know of the transaction that the job began: else its commit would do nothing."""
    caller.begin()
    (accepted,) = caller.enqueue(store, make_new_job())
    assert store.count(JobFilter()) == 0
    caller.commit()
    assert store.get(accepted.id).status is Status.QUEUED


def test_what_rolls_back_was_never_there(store: Store, caller: Caller) -> None:
    """It is not seen, it does not run, and its key is free."""
    caller.begin()
    caller.run(SELL)
    caller.enqueue(store, make_new_job(key="k"))
    caller.rollback()
    assert claim(store) == []
    assert store.count(JobFilter()) == 0
    assert sales(store) == 0
    assert store.enqueue([make_new_job(key="k")])[0].is_new


def test_a_job_goes_with_the_callers_savepoint(store: Store, caller: Caller) -> None:
    """What the caller undoes up to a savepoint takes its jobs along; what was before stays."""
    caller.begin()
    kept = make_new_job(key="before")
    caller.enqueue(store, kept)
    caller.savepoint()
    caller.enqueue(store, make_new_job(key="inside"))
    caller.undo_savepoint()
    caller.run(SELL)
    caller.commit()
    assert [job.id for job in store.find(JobFilter())] == [kept.id]
    assert sales(store) == 1


def test_a_refusal_is_undone_alone(store: Store, caller: Caller) -> None:
    """The caller may catch it and commit the rest; no key of the refused request stays taken."""
    store.enqueue([make_new_job(key="held")])
    caller.begin()
    caller.run(SELL)
    with pytest.raises(DuplicateJob):
        caller.enqueue(store, make_new_job(key="a"), make_new_job(key="held", on_duplicate="raise"))
    caller.enqueue(store, make_new_job(key="b"))
    caller.commit()
    assert sales(store) == 1
    assert store.count(JobFilter()) == 2
    assert store.enqueue([make_new_job(key="a")])[0].is_new


def test_many_jobs_and_a_repeated_one(store: Store, caller: Caller) -> None:
    """Statements for many rows, and the answer to an id that is there already."""
    jobs = [make_new_job() for _ in range(20)]
    caller.begin()
    assert all(one.is_new for one in caller.enqueue(store, *jobs))
    assert [one.is_new for one in caller.enqueue(store, jobs[3], make_new_job())] == [False, True]
    caller.commit()
    assert store.count(JobFilter()) == 21


def test_every_verb_is_part_of_the_transaction(store: Store, caller: Caller) -> None:
    """Read, cancelled and queued again before anybody else has seen the job."""
    asked = make_new_job(key="k", expires=timedelta(days=1), payload='{"a": "100 %, it\'s :here"}')
    caller.begin()
    caller.enqueue(store, asked)
    found = caller.verb(store, "get", asked.id)
    assert (found.type, found.payload) == ("work", asked.payload)
    assert caller.verb(store, "cancel", asked.id).status is Status.CANCELLED
    assert caller.verb(store, "retry", asked.id).status is Status.QUEUED
    with pytest.raises(JobNotFound):
        caller.verb(store, "get", make_new_job().id)
    caller.commit()
    assert store.get(asked.id).status is Status.QUEUED


def test_the_fence_holds(store: Store, caller: Caller) -> None:
    """A worker that lost its lease can neither confirm nor complete."""
    store.enqueue([make_new_job()])
    (claimed,) = claim(store)
    caller.begin()
    caller.verb(store, "confirm", claimed)
    caller.run(SELL)
    caller.verb(store, "settle", Settlement(claim=claimed, outcome=Completed("1")))
    caller.commit()
    assert (store.get(claimed.id).status, sales(store)) == (Status.COMPLETED, 1)


def test_a_lost_lease_changes_nothing(store: Store, caller: Caller) -> None:
    """Both proofs fail, and what the caller wrote besides is still its own to commit."""
    store.enqueue([make_new_job()])
    (claimed,) = claim(store)
    store.recover("host:1:one", {claimed.id})
    caller.begin()
    with pytest.raises(LeaseLost):
        caller.verb(store, "confirm", claimed)
    with pytest.raises(LeaseLost):
        caller.verb(store, "settle", Settlement(claim=claimed, outcome=Completed("1")))
    caller.run(SELL)
    caller.commit()
    assert (store.get(claimed.id).status, sales(store)) == (Status.QUEUED, 1)


def test_the_callers_library_goes_on_as_before(store: Store, caller: Caller) -> None:
    """Nothing of ours stays open behind an operation: no cursor, no savepoint, no setting."""
    for number in range(3):
        caller.begin()
        caller.run(SELL)
        caller.enqueue(store, make_new_job())
        caller.run(SELL)
        if number == 1:
            caller.rollback()
        else:
            caller.commit()
    assert (sales(store), store.count(JobFilter())) == (4, 2)


def test_a_connection_that_commits_by_itself_is_refused(database: Database, kind: type[Caller]) -> None:
    """It would commit the job at once, whatever became of the caller's data."""
    caller = database.autocommit_caller(kind)
    with pytest.raises(NoTransaction, match="commits every statement by itself"):
        caller.enqueue(database.store, make_new_job())
    assert database.store.count(JobFilter()) == 0


@pytest.mark.parametrize("kind", [*OTHER_FORMS_ON_SQLITE, *OTHER_FORMS_ON_POSTGRES], indirect=True)
def test_other_forms_of_the_same_libraries_carry_jobs(store: Store, caller: Caller) -> None:
    """Whatever an application has at hand: the proxy or what is behind it, a session or the one of its thread."""
    caller.begin()
    caller.run(SELL)
    caller.enqueue(store, make_new_job())
    caller.rollback()
    caller.begin()
    caller.run(SELL)
    caller.enqueue(store, make_new_job())
    caller.commit()
    assert (sales(store), store.count(JobFilter())) == (1, 1)
