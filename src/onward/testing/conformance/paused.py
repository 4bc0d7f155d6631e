"""A paused queue: nothing of it starts, nothing of it is lost, and nobody waits for it by looking again and again."""

from __future__ import annotations

from datetime import timedelta

import pytest

from onward.clock import FakeClock
from onward.driver import Store
from onward.inspection import Queue
from onward.outcome import Completed, Retried
from onward.status import Status
from onward.testing.conformance.steps import NO_DELAY, SOON, claim, claim_one, demand, enqueue, is_settled, is_woken, read, settle

QUEUES = [(), ("mail",), ("mail", "other")]


class TestPause:
    """From its commit on, whoever asks."""

    @pytest.mark.parametrize("queues", QUEUES, ids=["every queue", "this queue", "some queues"])
    def test_no_job_of_a_paused_queue_is_claimed(self, store: Store, queues: tuple[str, ...]) -> None:
        """However many there are, and whatever their priority; nor is one said to be due, which would make the worker ask again."""
        for priority in (0, 50):
            enqueue(store, queue="mail", priority=priority)
        assert store.pause("mail")
        turn = store.turn(demand=demand(5, queues=queues))
        assert (turn.claims, turn.next_due, turn.blocked) == ((), None, 0)

    def test_the_jobs_of_other_queues_go_on(self, store: Store) -> None:
        """In their order, past those that are held back."""
        store.pause("mail")
        for number, queue in enumerate(("mail", "other", "mail", "default")):
            enqueue(store, queue=queue, priority=10 - number)
        assert [one.job.queue for one in claim(store, 5)] == ["other", "default"]

    def test_what_is_due_later_elsewhere_is_still_told(self, store: Store) -> None:
        """A paused job that is due sooner does not hide it."""
        store.pause("mail")
        enqueue(store, queue="mail")
        enqueue(store, queue="other", delay=SOON)
        assert store.turn(demand=demand()).next_due == SOON

    def test_resuming_lets_them_start_in_their_order(self, store: Store, clock: FakeClock) -> None:
        """As if nothing had been: their moments stay what they were."""
        store.pause("mail")
        jobs = [enqueue(store, queue="mail", priority=priority) for priority in (0, 5, 0)]
        clock.advance(60)
        assert store.resume("mail")
        assert [one.id for one in claim(store, 5)] == [jobs[1].id, jobs[0].id, jobs[2].id]

    def test_a_running_job_finishes_and_another_try_waits(self, store: Store) -> None:
        """The pause is for starting: what runs may end, and its retry is a start."""
        for _ in range(2):
            enqueue(store, queue="mail")
        done, failed = claim(store, 2)
        store.pause("mail")
        assert is_settled(settle(store, done, Completed()))
        assert is_settled(settle(store, failed, Retried(NO_DELAY, "boom")))
        assert read(store, done).status is Status.COMPLETED
        assert read(store, failed).status is Status.RETRYING
        assert claim(store, 5) == ()
        store.resume("mail")
        assert claim_one(store).id == failed.id

    def test_a_job_is_accepted_and_may_expire_meanwhile(self, store: Store, clock: FakeClock) -> None:
        """An expiry is a promise to whoever set it; a pause does not change it."""
        store.pause("mail")
        job = enqueue(store, queue="mail", expires=SOON)
        clock.advance(60)
        store.sweep()
        assert (read(store, job).status, read(store, job).error) == (Status.CANCELLED, "expired")

    def test_pausing_twice_is_pausing_once(self, store: Store, clock: FakeClock) -> None:
        """Since when it is paused stays true, and one resume is enough."""
        began = clock.now()
        assert store.pause("mail")
        clock.advance(60)
        assert not store.pause("mail")
        assert store.queues() == [Queue(name="mail", paused_at=began)]
        assert store.paused() == {"mail": began}
        assert [store.resume("mail"), store.resume("mail")] == [True, False]
        assert (store.queues(), store.paused()) == ([], {})

    def test_resuming_a_queue_leaves_the_others_paused(self, store: Store) -> None:
        """Each has its own reason."""
        for queue in ("mail", "other"):
            store.pause(queue)
            enqueue(store, queue=queue)
        assert store.resume("mail")
        assert [one.job.queue for one in claim(store, 5)] == ["mail"]
        assert list(store.paused()) == ["other"]

    def test_resuming_wakes_a_worker(self, store: Store) -> None:
        """It sleeps until something may be due, and with the resume it is."""
        store.pause("mail")
        enqueue(store, queue="mail")
        assert claim(store) == ()
        assert is_woken(store, lambda: store.resume("mail"))


class TestQueues:
    """What a person sees of them."""

    def test_each_is_listed_with_what_waits_and_what_runs(self, store: Store, clock: FakeClock) -> None:
        """What has ended is in no queue any more; one that is paused and empty is listed, since somebody has to remember it."""
        for _ in range(3):
            enqueue(store, queue="mail")
        enqueue(store, queue="mail", delay=timedelta(hours=1))
        enqueue(store, queue="done")
        settle(store, claim_one(store, queues=("done",)), Completed())
        settle(store, claim_one(store, queues=("mail",)), Retried(SOON, "boom"))
        claim_one(store, queues=("mail",))
        store.pause("empty")
        assert store.queues() == [Queue(name="empty", paused_at=clock.now()), Queue(name="mail", waiting=3, in_progress=1)]

    def test_jobs_that_nobody_can_run_yet_wait_too(self, store: Store) -> None:
        """They are not done with."""
        enqueue(store, type="unheard-of", queue="mail")
        assert claim(store) == ()
        assert store.queues() == [Queue(name="mail", waiting=1)]

    def test_a_pause_outlives_the_process(self, store: Store, request: pytest.FixtureRequest) -> None:
        """Whoever starts anew finds it."""
        if not store.capabilities.survives_process:
            pytest.skip("the store ends with its process")
        enqueue(store, queue="mail")
        store.pause("mail")
        other: Store = request.getfixturevalue("reopen")()
        assert claim(other) == ()
        assert other.resume("mail")
        assert len(claim(store)) == 1
