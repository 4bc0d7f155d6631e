"""Periodic jobs: a moment has one job, however many look, and what is written and its jobs are one commit."""

from __future__ import annotations

from datetime import timedelta
from random import Random

import pytest
from msgspec.structs import replace

from onward.clock import FakeClock
from onward.definition import define_job
from onward.driver import Store
from onward.errors import OnwardError
from onward.inspection import JobFilter
from onward.jobs import Job
from onward.moments import adopt, declare, fire, pause, resume, run_now
from onward.outcome import Completed
from onward.periodic import Periodic, PeriodicJob
from onward.testing.conformance.steps import claim_one, is_woken, settle

MINUTE = timedelta(minutes=1)


def _work(payload: dict[str, int]) -> None:
    """Never called."""


report = define_job("report", _work)
keyed = define_job("keyed", _work, key="payload")


def _declare(store: Store, *declared: Periodic) -> None:
    look = store.periodic()
    changes = [declare(one, None, look.now) for one in declared]
    assert len(store.write_periodic([one for one in changes if one is not None])) == len(declared)


def _fire(store: Store) -> list[str]:
    """What a worker does when it looks. Gives the ids of the new jobs."""
    look = store.due_periodic()
    return [job_id for one in store.write_periodic([fire(row, look.now, Random(7)) for row in look.rows]) for job_id in one.job_ids]


def _row(store: Store, name: str = "report") -> PeriodicJob:
    (row,) = store.periodic([name]).rows
    return row


def _jobs(store: Store) -> list[Job]:
    return store.find(JobFilter())


class TestPeriodic:
    """What is stored of it, and who sees it."""

    def test_it_comes_back_as_it_was_written(self, store: Store, clock: FakeClock) -> None:
        """Every field, also after a change."""
        periodic = Periodic(
            report,
            "30 2 * * mon",
            timezone="Europe/Paris",
            payload={"größe": 7},
            name="nightly",
            catch_up="all",
            most_catch_up=9,
            jitter="90s",
            queue="low",
            priority=-5,
            key="k",
            scope="36h",
            owner="anna",
            expires="2h",
            metadata={"a": [1]},
        )
        change = declare(periodic, None, clock.now())
        assert change is not None
        assert store.periodic().rows == ()
        (written,) = store.write_periodic([change])
        assert (written.name, written.job_ids, written.overlapped) == ("nightly", (), False)
        assert store.periodic().rows == (replace(change.row, version=1),)
        clock.advance(60)
        full = replace(
            change.row,
            version=1,
            is_declared=False,
            next_moment=clock.now() + MINUTE,
            paused_at=clock.now(),
            paused_by="undeclared",
            last_moment=clock.now() - MINUTE,
            last_job_id="x",
            skipped=2**40,
            updated_at=clock.now(),
        )
        assert store.write_periodic([replace(change, row=full)])
        assert store.periodic(["nightly", "other"]).rows == (replace(full, version=2),)
        assert store.periodic([]).rows == ()

    def test_due_ones_are_told_the_longest_overdue_first(self, store: Store, clock: FakeClock) -> None:
        """And when the next of the others is due: then the scheduler looks again."""
        _declare(
            store,
            Periodic(report, every="1h", payload={}),
            *(Periodic(report, every=f"{n}m", payload={}, name=f"every-{n}") for n in (3, 2)),
        )
        assert (store.due_periodic().rows, store.due_periodic().next_moment) == ((), clock.now() + 2 * MINUTE)
        clock.advance(3 * MINUTE)
        look = store.due_periodic()
        assert [row.name for row in look.rows] == ["every-2", "every-3"]
        assert (look.now, look.next_moment) == (clock.now(), clock.now() + 57 * MINUTE)

    def test_without_any_there_is_nothing_to_wait_for(self, store: Store, clock: FakeClock) -> None:
        """The look says so."""
        look = store.due_periodic()
        assert (look.now, look.rows, look.next_moment, look.unreadable) == (clock.now(), (), None, ())

    def test_a_paused_one_is_not_due(self, store: Store, clock: FakeClock) -> None:
        """Nor waited for; a resume goes on with the next moment."""
        _declare(store, Periodic(report, every="1m", payload={}))
        change = pause(_row(store), clock.now(), "person")
        assert change is not None
        assert store.write_periodic([change])
        clock.advance(10 * MINUTE)
        assert (store.due_periodic().rows, store.due_periodic().next_moment) == ((), None)
        change = resume(_row(store), clock.now())
        assert change is not None
        assert store.write_periodic([change])
        assert (store.due_periodic().rows, store.due_periodic().next_moment) == ((), clock.now() + MINUTE)

    def test_a_deleted_one_is_gone_and_its_jobs_stay(self, store: Store, clock: FakeClock) -> None:
        """Who has read it before cannot bring it back."""
        _declare(store, Periodic(report, every="1m", payload={}))
        clock.advance(MINUTE)
        assert len(_fire(store)) == 1
        row = _row(store)
        assert store.delete_periodic("report")
        assert not store.delete_periodic("report")
        assert store.write_periodic([fire(row, clock.now() + MINUTE, Random(7))]) == []
        assert (store.periodic().rows, len(_jobs(store))) == ((), 1)

    def test_it_outlives_the_process(self, store: Store, clock: FakeClock, request: pytest.FixtureRequest) -> None:
        """Whoever starts anew goes on with the moment that was next."""
        if not store.capabilities.survives_process:
            pytest.skip("the store ends with its process")
        _declare(store, Periodic(report, every="1m", payload={}))
        other: Store = request.getfixturevalue("reopen")()
        clock.advance(MINUTE)
        assert len(_fire(other)) == 1
        assert _fire(store) == []


class TestMomentsFired:
    """The job of a moment."""

    def test_it_is_due_at_its_moment_and_says_of_which_it_is(self, store: Store, clock: FakeClock) -> None:
        """A late scheduler changes nothing of it: it is claimed as if it had waited."""
        _declare(store, Periodic(report, every="1m", payload={"n": 1}, metadata={"tag": "x"}))
        moment = clock.now() + MINUTE
        clock.advance(90)
        (job_id,) = _fire(store)
        job = claim_one(store, types=("report",)).job
        assert (job.id, job.scheduled_at, job.payload) == (job_id, moment, '{"n":1}')
        written = moment.isoformat().replace("+00:00", "Z")
        assert job.metadata == f'{{"moment":"{written}","periodic":"report","tag":"x"}}'
        row = _row(store)
        assert (row.last_moment, row.last_job_id, row.next_moment) == (moment, job_id, moment + MINUTE)

    def test_a_job_that_cannot_be_stored_leaves_its_moment_due(self, store: Store, clock: FakeClock) -> None:
        """They are one commit: either both are there, or neither is."""
        _declare(store, Periodic(report, every="1m", payload={}))
        clock.advance(MINUTE)
        row = _row(store)
        change = fire(row, clock.now(), Random(7))
        broken = replace(change, jobs=(replace(change.jobs[0], queue="\ud800"),))
        try:
            store.write_periodic([broken])
        except OnwardError:
            assert (_row(store), _jobs(store)) == (row, [])
        else:  # a store that takes any text
            assert (_row(store).next_moment, len(_jobs(store))) == (clock.now() + MINUTE, 1)

    def test_one_may_be_made_and_another_changed_at_once(self, store: Store, clock: FakeClock) -> None:
        """As a start of a worker does it."""
        _declare(store, Periodic(report, every="1m", payload={}))
        made = declare(Periodic(report, every="1m", payload={}, name="made"), None, clock.now())
        paused = pause(_row(store), clock.now(), "person")
        assert made is not None
        assert paused is not None
        assert {one.name for one in store.write_periodic([made, paused])} == {"made", "report"}
        assert [(row.name, row.paused_by, row.version) for row in store.periodic().rows] == [("made", None, 1), ("report", "person", 2)]
        assert store.write_periodic([made, paused]) == []

    def test_of_many_who_saw_it_due_one_is_quicker(self, store: Store, clock: FakeClock) -> None:
        """The others change nothing, and their jobs are not stored."""
        _declare(store, Periodic(report, every="1m", payload={}))
        clock.advance(MINUTE)
        looks = [store.due_periodic() for _ in range(4)]
        written = [store.write_periodic([fire(row, look.now, Random(n)) for row in look.rows]) for n, look in enumerate(looks)]
        assert [len(one) for one in written] == [1, 0, 0, 0]
        assert len(_jobs(store)) == 1

    def test_a_clock_that_steps_back_fires_no_moment_twice(self, store: Store, clock: FakeClock) -> None:
        """The moments come again and have their jobs; those that never came are fired."""
        _declare(store, Periodic(report, every="1m", payload={}))
        for _ in range(3):
            clock.advance(MINUTE)
            assert len(_fire(store)) == 1
        clock.step(-5 * MINUTE)
        change = adopt(_row(store), clock.now())
        assert change is not None
        assert store.write_periodic([change])
        fired = []
        for _ in range(8):
            clock.advance(MINUTE)
            fired.append(len(_fire(store)))
        assert fired == [1, 1, 0, 0, 0, 1, 1, 1]

    def test_the_moments_of_one_change_are_stored_together(self, store: Store, clock: FakeClock) -> None:
        """All that were missed, where each is wanted."""
        _declare(store, Periodic(report, every="1m", payload={}, catch_up="all", most_catch_up=3))
        began = clock.now()
        clock.advance(10 * MINUTE)
        assert len(_fire(store)) == 3
        assert sorted(job.scheduled_at for job in _jobs(store)) == [began + n * MINUTE for n in (8, 9, 10)]
        assert _row(store).skipped == 7

    def test_a_moment_is_left_out_while_the_last_job_lives(self, store: Store, clock: FakeClock) -> None:
        """Until it has ended, however it did."""
        _declare(store, Periodic(report, every="1m", payload={}, overlap="skip"))
        clock.advance(MINUTE)
        (first,) = _fire(store)
        clock.advance(MINUTE)
        look = store.due_periodic()
        (written,) = store.write_periodic([fire(row, look.now, Random(7)) for row in look.rows])
        assert (written.overlapped, written.job_ids) == (True, ())
        row = _row(store)
        assert (row.last_job_id, row.skipped, row.next_moment) == (first, 1, clock.now() + MINUTE)
        settle(store, claim_one(store, types=("report",)), Completed())
        clock.advance(MINUTE)
        assert len(_fire(store)) == 1

    def test_a_job_whose_key_is_held_is_no_new_one(self, store: Store, clock: FakeClock) -> None:
        """The holder stands for it, also for whoever asks whether the last one still runs."""
        (held,) = store.enqueue([keyed.new_job({"n": 1})])
        _declare(store, Periodic(keyed, every="1m", payload={"n": 1}, overlap="skip"))
        clock.advance(MINUTE)
        (written,) = store.write_periodic([fire(row, clock.now(), Random(7)) for row in store.due_periodic().rows])
        assert (written.job_ids, written.stands_for) == ((), (held.id,))
        assert _row(store, "keyed").last_job_id == held.id
        clock.advance(MINUTE)
        assert _fire(store) == []
        assert (_row(store, "keyed").skipped, len(_jobs(store))) == (1, 1)

    def test_one_more_by_hand_changes_no_moment(self, store: Store, clock: FakeClock) -> None:
        """It is due at once."""
        _declare(store, Periodic(report, every="1h", payload={}))
        before = _row(store)
        job = report.new_job({})
        (written,) = store.write_periodic([run_now(before, job.id, clock.now())])
        assert written.job_ids == (job.id,)
        assert claim_one(store, types=("report",)).id == job.id
        assert (_row(store).next_moment, _row(store).last_job_id) == (before.next_moment, None)

    def test_a_fired_job_wakes_a_worker(self, store: Store, clock: FakeClock) -> None:
        """The scheduler may be in another process than who is free."""
        _declare(store, Periodic(report, every="1m", payload={}))
        clock.advance(MINUTE)
        assert is_woken(store, lambda: _fire(store))
