"""One verb for many jobs: each gets what the verb alone would have done, and none disturbs its neighbours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import pytest
from msgspec.structs import replace

from onward.clock import FakeClock
from onward.driver import Store
from onward.errors import OnwardError
from onward.ids import new_id
from onward.inspection import Acted, BulkVerb, JobFilter
from onward.jobs import Job
from onward.status import Status
from onward.testing.conformance.steps import SOON, bring_to, claim, claim_one, enqueue, is_woken, read

VERBS: tuple[BulkVerb, ...] = get_args(BulkVerb)


def alone(store: Store, verb: BulkVerb) -> Callable[[str], Any]:
    """The store's verb for one job."""
    by_verb: dict[BulkVerb, Callable[[str], Any]] = {
        "cancel": store.cancel,
        "retry": store.retry,
        "run_now": store.run_now,
        "delete": store.delete,
    }
    return by_verb[verb]


def shown(store: Store, job_id: str) -> Job | None:
    """The job as it is, if it is there, but for its name and its queue."""
    found = store.find(JobFilter(ids=(job_id,)))
    return replace(found[0], id="", queue="") if found else None


@pytest.mark.parametrize("verb", VERBS)
class TestActAsAlone:
    """Over every status."""

    @pytest.mark.parametrize("status", list(Status))
    def test_each_gets_what_the_verb_alone_would_do(self, store: Store, clock: FakeClock, verb: BulkVerb, status: Status) -> None:
        """The same row, or the same refusal in the same words."""
        one = bring_to(store, status, queue="aside")
        store.pause("aside")  # so that it is not taken for the other
        other = bring_to(store, status, queue="other")
        clock.advance(1)
        try:
            alone(store, verb)(one.id)
            refusal = None
        except OnwardError as error:
            refusal = str(error).replace(one.id, other.id)
        acted = store.act(verb, [other.id])
        assert acted == (Acted((other.id,)) if refusal is None else Acted(refused={other.id: refusal}))
        assert shown(store, one.id) == shown(store, other.id)

    def test_one_that_has_another_status_by_now_is_left_alone(self, store: Store, verb: BulkVerb) -> None:
        """It was listed, and somebody was quicker: what was meant for a job that waits is not done to one that runs."""
        meant, by_now = {
            "cancel": (Status.QUEUED, Status.IN_PROGRESS),
            "retry": (Status.DEAD_LETTER, Status.CANCELLED),
            "run_now": (Status.QUEUED, Status.RETRYING),
            "delete": (Status.COMPLETED, Status.QUEUED),
        }[verb]
        other = bring_to(store, by_now, queue="aside")
        store.pause("aside")  # so that it is not taken for the other
        one = bring_to(store, meant)
        before = read(store, other)
        acted = store.act(verb, [other.id, one.id], [meant])
        assert (acted.done, list(acted.refused)) == ((one.id,), [other.id])
        assert read(store, other) == before

    def test_one_that_is_gone_is_told(self, store: Store, verb: BulkVerb) -> None:
        """Between the list and the deed somebody may have pruned it."""
        there = bring_to(store, Status.DEAD_LETTER if verb in ("retry", "delete") else Status.QUEUED)
        missing = new_id()
        acted = store.act(verb, [missing, there.id])
        assert acted.done == (there.id,)
        assert acted.refused.keys() == {missing}
        assert f"there is no job {missing}" in acted.refused[missing]


class TestAct:
    """What the verbs do to keys, neighbours and workers."""

    def test_a_refused_one_keeps_its_key_and_its_neighbours_end(self, store: Store) -> None:
        """A running job is not deleted, and nobody may start it a second time meanwhile."""
        enqueue(store, key="running")
        running = claim_one(store)
        waiting = enqueue(store, key="waiting")
        acted = store.act("delete", [running.id, waiting.id])
        assert (acted.done, list(acted.refused)) == ((waiting.id,), [running.id])
        assert not store.enqueue([replace(enqueue(store), key="running", id=new_id())])[0].is_new
        assert store.find_active(["work"], "waiting", owner="") is None

    def test_cancelled_and_deleted_jobs_give_up_their_keys(self, store: Store) -> None:
        """Whoever asks for the same work gets it."""
        jobs = [enqueue(store, key=f"k{number}") for number in range(4)]
        store.act("cancel", [job.id for job in jobs[:2]])
        store.act("delete", [job.id for job in jobs[2:]])
        assert all(store.enqueue([replace(job, id=new_id())])[0].is_new for job in jobs)

    def test_a_retry_whose_key_another_job_holds_is_refused_by_name(self, store: Store) -> None:
        """Else two jobs with one key would run. The others are retried."""
        held = bring_to(store, Status.CANCELLED, key="k")
        free = bring_to(store, Status.CANCELLED, key="free")
        holder = enqueue(store, key="k")
        acted = store.act("retry", [held.id, free.id])
        assert acted.done == (free.id,)
        assert holder.id in acted.refused[held.id]
        assert read(store, held).status is Status.CANCELLED

    def test_two_cancelled_jobs_of_one_key_do_not_both_come_back(self, store: Store) -> None:
        """The first that is retried holds it then."""
        first, second = (bring_to(store, Status.CANCELLED, key="k") for _ in range(2))
        acted = store.act("retry", [first.id, second.id])
        assert (acted.done, list(acted.refused)) == ((first.id,), [second.id])

    def test_running_jobs_are_asked_to_stop(self, store: Store, clock: FakeClock) -> None:
        """As a single cancel asks them."""
        for _ in range(3):
            enqueue(store)
        running = claim(store, 3)
        assert store.act("cancel", [one.id for one in running]).done == tuple(one.id for one in running)
        assert store.cancel_requested(running[0].job.lease_owner or "") == {one.id for one in running}

    @pytest.mark.parametrize("verb", ["retry", "run_now"])
    def test_what_is_due_now_wakes_a_worker(self, store: Store, verb: BulkVerb) -> None:
        """It would sleep through it else."""
        job_id = bring_to(store, Status.CANCELLED).id if verb == "retry" else enqueue(store, delay=SOON).id
        assert is_woken(store, lambda: store.act(verb, [job_id]))

    def test_nothing_to_do_is_nothing_done(self, store: Store) -> None:
        """An empty portion is no mistake."""
        assert store.act("cancel", []) == Acted()
