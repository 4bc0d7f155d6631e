"""The duty that enqueues what the clock says: looked at tick by tick, with a clock that a test moves."""

import logging
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from onward.app import Onward
from onward.clock import FakeClock
from onward.definition import JobDefinition, define_job
from onward.drivers.memory import MemoryStore
from onward.errors import StoreBusy, StoreUnavailable, ValueRefused
from onward.inspection import JobFilter
from onward.moments import UNDECLARED_AFTER, PeriodicChange, PeriodicWritten
from onward.periodic import Periodic
from onward.registry import Registry
from onward.status import Status
from onward.worker.scheduler import AGAIN, LOOK_EVERY, Scheduler
from onward.worker.worker import Worker

MINUTE = timedelta(minutes=1)


def work() -> None:
    """Has nothing to do."""


report, other = define_job("report", work), define_job("other", work)


def scheduler(store: MemoryStore, *declared: Periodic, jobs: Iterable[JobDefinition[Any]] = (report,)) -> Scheduler:
    return Scheduler(store, Registry(jobs), declared, clock=store.clock, chance=Random(7))


def count(store: MemoryStore) -> int:
    return store.count(JobFilter())


def test_it_sleeps_until_the_next_moment(store: MemoryStore, clock: FakeClock) -> None:
    duty = scheduler(store, Periodic(report, every="4s"), Periodic(report, "@daily", name="nightly"))
    assert duty.tick() == 4
    clock.advance(4)
    assert duty.tick() == 4, "of the one that it fired"
    assert count(store) == 1
    clock.advance(3.5)
    assert duty.tick() == 0.5
    clock.advance(0.5)
    duty.tick()
    assert count(store) == 2


@pytest.mark.parametrize("declared", [(), (Periodic(report, "@daily"),)], ids=["none", "later"])
def test_it_looks_by_itself_for_what_was_made_at_run_time(store: MemoryStore, declared: tuple[Periodic, ...]) -> None:
    assert scheduler(store, *declared).tick() == LOOK_EVERY


def test_what_was_made_at_run_time_is_fired_by_who_knows_its_type(store: MemoryStore, clock: FakeClock) -> None:
    Onward(store=store, jobs=[report]).periodic.put(Periodic(report, every="1m"))
    strange, mine = scheduler(store, jobs=[other]), scheduler(store)
    clock.advance(MINUTE)
    strange.tick()
    assert count(store) == 0
    mine.tick()
    assert count(store) == 1


def test_what_two_processes_declare_is_fired_by_each(store: MemoryStore, clock: FakeClock) -> None:
    """Neither knows the other's."""
    first = scheduler(store, Periodic(report, every="1m"))
    second = scheduler(store, Periodic(other, every="1m"), jobs=[other])
    for duty in (first, second):
        duty.tick()
    clock.advance(MINUTE)
    first.tick()
    assert count(store) == 1
    second.tick()
    assert count(store) == 2


def test_one_that_no_code_declares_any_more_is_kept_paused_and_reported(
    store: MemoryStore, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Not at once: the process that declares it may only be starting. It goes on when one does, with what was missed."""
    scheduler(store, Periodic(report, every="1m")).tick()
    left = scheduler(store)
    clock.advance(MINUTE)
    left.tick()
    clock.advance(UNDECLARED_AFTER - timedelta(seconds=1))
    left.tick()
    assert store.periodic(["report"]).rows[0].paused_at is None
    clock.advance(1)
    with caplog.at_level(logging.WARNING):
        left.tick()
        left.tick()
    (record,) = caplog.records
    assert record.getMessage() == (
        "periodic job report is due, and the code of no worker has it any more: it is paused; "
        "declare it again, or delete it with: onward periodic delete report"
    )
    row = store.periodic(["report"]).rows[0]
    assert (row.paused_by, row.paused_at, count(store)) == ("undeclared", clock.now(), 0)
    scheduler(store, Periodic(report, every="1m")).tick()
    assert count(store) == 1
    assert store.periodic(["report"]).rows[0].paused_at is None


def test_one_that_is_declared_in_time_is_not_paused(store: MemoryStore, clock: FakeClock) -> None:
    """Each look counts for itself: a moment that somebody fires is no longer waited for."""
    mine, left = scheduler(store, Periodic(report, every="1m")), scheduler(store)
    mine.tick()
    for _ in range(10):
        clock.advance(MINUTE)
        left.tick()
        mine.tick()
        left.tick()
    assert store.periodic(["report"]).rows[0].paused_at is None
    assert count(store) == 10


def test_what_is_missed_and_late_is_said(store: MemoryStore, clock: FakeClock, caplog: pytest.LogCaptureFixture) -> None:
    duty = scheduler(store, Periodic(report, every="1m"), Periodic(report, every="1h", name="hourly"))
    duty.tick()
    clock.advance(timedelta(hours=1, minutes=2))
    with caplog.at_level(logging.WARNING):
        duty.tick()
    assert sorted(record.getMessage() for record in caplog.records) == [
        "periodic job hourly: its moment of 2026-01-01 01:00:00+00:00 is 2m late",
        "periodic job report: moments that were missed since 2026-01-01 00:01:00+00:00 and get no job: 61 (catch_up='once')",
    ]


def test_a_moment_that_is_left_out_is_said(store: MemoryStore, clock: FakeClock, caplog: pytest.LogCaptureFixture) -> None:
    duty = scheduler(store, Periodic(report, every="1m", overlap="skip"))
    duty.tick()
    with caplog.at_level(logging.INFO):
        for _ in range(2):
            clock.advance(MINUTE)
            duty.tick()
    (record,) = caplog.records
    assert record.getMessage().startswith("periodic job report: a moment was left out, since job ")
    assert count(store) == 1


def test_a_clock_that_steps_back_stops_nothing_and_fires_nothing_twice(store: MemoryStore, clock: FakeClock) -> None:
    """Within a minute a job of every minute goes on, though the store has seen later moments."""
    duty = scheduler(store, Periodic(report, every="1m"))
    duty.tick()
    for _ in range(3):
        clock.advance(MINUTE)
        duty.tick()
    clock.step(timedelta(hours=-2))
    duty.tick()
    assert store.periodic(["report"]).rows[0].next_moment == clock.now() + MINUTE
    clock.advance(MINUTE)
    duty.tick()
    assert count(store) == 4
    clock.step(timedelta(hours=2))
    duty.tick()
    clock.advance(MINUTE)
    duty.tick()
    assert count(store) == 6, "the newest of two hours, which had never come, and the next"


def test_a_clock_that_went_back_while_nobody_looked(store: MemoryStore, clock: FakeClock) -> None:
    scheduler(store, Periodic(report, every="1m")).tick()
    clock.advance(timedelta(days=400))
    scheduler(store, Periodic(report, every="1m")).tick()
    clock.step(timedelta(days=-399))
    scheduler(store, Periodic(report, every="1m")).tick()
    assert store.periodic(["report"]).rows[0].next_moment == clock.now() + MINUTE


def test_a_row_that_cannot_be_read_is_told_of_once(store: MemoryStore, clock: FakeClock, caplog: pytest.LogCaptureFixture) -> None:
    class Damaged(MemoryStore):
        def due_periodic(self) -> Any:
            return replace(super().due_periodic(), unreadable=("broken",))

        def periodic(self, names: Any = None) -> Any:
            return replace(super().periodic(names), unreadable=("broken",))

    damaged = Damaged(clock=clock)
    duty = scheduler(damaged, Periodic(report, every="1m"), Periodic(report, every="1m", name="broken"))
    with caplog.at_level(logging.ERROR):
        duty.tick()
        clock.advance(MINUTE)
        duty.tick()
    assert [record.getMessage() for record in caplog.records] == [
        "periodic job broken cannot be read, so it is never due: correct its row, or delete it"
    ]
    assert count(damaged) == 1


def test_many_are_fired_in_portions(clock: FakeClock) -> None:
    """Other writers get between them."""

    class Counting(MemoryStore):
        def write_periodic(self, changes: Any) -> list[PeriodicWritten]:
            sizes.append(sum(max(len(one.jobs), 1) for one in changes))
            return super().write_periodic(changes)

    sizes: list[int] = []
    store = Counting(clock=clock)
    duty = scheduler(store, *(Periodic(report, every="1m", name=f"p{n}") for n in range(250)))
    duty.tick()
    clock.advance(MINUTE)
    duty.tick()
    assert sizes == [100, 100, 50, 100, 100, 50]
    assert count(store) == 250


def test_declaring_is_tried_again_when_others_are_quicker(clock: FakeClock) -> None:
    class Contended(MemoryStore):
        refusals = 3

        def write_periodic(self, changes: Any) -> list[PeriodicWritten]:
            changes = list(changes)
            if self.refusals:
                self.refusals -= 1
                return super().write_periodic(changes[1:])
            return super().write_periodic(changes)

    store = Contended(clock=clock)
    scheduler(store, Periodic(report, every="1m"), Periodic(report, every="1m", name="second")).tick()
    assert len(store.periodic().rows) == 2
    store = Contended(clock=clock)
    store.refusals = 1000
    duty = scheduler(store, Periodic(report, every="1m"))
    with pytest.raises(StoreBusy, match="could not be declared"):
        duty.tick()
    store.refusals = 0
    duty.tick()
    assert len(store.periodic().rows) == 1


def test_a_worker_that_drains_works_off_what_is_due(store: MemoryStore, clock: FakeClock, make_worker: Callable[..., Worker]) -> None:
    scheduler(store, Periodic(report, every="1m")).tick()
    clock.advance(MINUTE)
    make_worker(report, periodic=[Periodic(report, every="1m")], drain=True).run()
    (job,) = store.find(JobFilter())
    assert job.status is Status.COMPLETED


def test_a_change_that_lost_is_not_told_as_fired(store: MemoryStore, clock: FakeClock, caplog: pytest.LogCaptureFixture) -> None:
    class Slower(MemoryStore):
        def write_periodic(self, changes: list[PeriodicChange]) -> list[PeriodicWritten]:  # type: ignore[override]  # what is given here
            return []

    duty = scheduler(store, Periodic(report, every="1m"))
    duty.tick()
    clock.advance(timedelta(hours=1))
    slower = Slower(clock=clock)
    slower._tables = store._tables
    duty._store = slower
    with caplog.at_level(logging.INFO):
        duty.tick()
    assert caplog.records == []


def test_two_applications_that_look_at_the_same_instant_leave_each_other_alone(store: MemoryStore, clock: FakeClock) -> None:
    """Whoever looks first sees the other's due, minute after minute; each moment is waited for by itself."""
    first = scheduler(store, Periodic(report, every="1m"))
    second = scheduler(store, Periodic(other, every="1m"), jobs=[other])
    for duty in (first, second):
        duty.tick()
    for _ in range(20):
        clock.advance(MINUTE)
        second.tick()
        first.tick()
    assert [row.paused_at for row in store.periodic().rows] == [None, None]
    assert count(store) == 40


def test_who_was_away_for_long_takes_back_what_was_paused_or_deleted_meanwhile(store: MemoryStore, clock: FakeClock) -> None:
    """A process that was frozen, or whose row somebody deleted, has not started anew, and still declares it."""
    duty = scheduler(store, Periodic(report, every="1m"), Periodic(report, every="1m", name="second"))
    duty.tick()
    left = scheduler(store)
    clock.advance(MINUTE)
    left.tick()
    clock.advance(UNDECLARED_AFTER)
    left.tick()
    assert [row.paused_by for row in store.periodic().rows] == ["undeclared", "undeclared"]
    store.delete_periodic("second")
    duty.tick()
    assert [(row.name, row.paused_by) for row in store.periodic().rows] == [("report", None), ("second", None)]
    assert count(store) == 1


def test_what_newer_code_declares_is_left_as_it_is(store: MemoryStore, clock: FakeClock) -> None:
    """The last that started counts, also while the one before still runs, and when the clock is set back."""
    before = scheduler(store, Periodic(report, every="1m"))
    before.tick()
    scheduler(store, Periodic(report, every="2m", queue="low")).tick()
    for step in (UNDECLARED_AFTER, timedelta(seconds=-1)):
        clock.advance(UNDECLARED_AFTER)
        clock.step(step)
        before.tick()
        row = store.periodic(["report"]).rows[0]
        assert (row.rule.every, row.request.queue) == ("2m", "low")


def test_what_somebody_else_was_writing_is_looked_at_again_at_once(clock: FakeClock) -> None:
    """Not at the next look by itself, when the moment would count as missed."""

    class Contended(MemoryStore):
        is_held = False

        def write_periodic(self, changes: Any) -> list[PeriodicWritten]:
            return [] if self.is_held else super().write_periodic(changes)

    store = Contended(clock=clock)
    duty = scheduler(store, Periodic(report, "0 * * * *", catch_up="skip"))
    duty.tick()
    clock.advance(timedelta(hours=1))
    store.is_held = True
    assert duty.tick() == AGAIN
    store.is_held = False
    clock.advance(AGAIN)
    duty.tick()
    assert count(store) == 1


@pytest.mark.parametrize("poison", ["cannot be worked out", "cannot be stored"])
def test_a_poisoned_row_stops_only_itself(clock: FakeClock, poison: str, caplog: pytest.LogCaptureFixture) -> None:
    class Refusing(MemoryStore):
        def write_periodic(self, changes: Any) -> list[PeriodicWritten]:
            if any(job.priority == 1000 for one in changes for job in one.jobs):
                raise ValueRefused("a priority of 1000")
            return super().write_periodic(changes)

    store = Refusing(clock=clock)
    duty = scheduler(store, *(Periodic(report, every="1m", name=name) for name in ("a", "bad", "z")))
    duty.tick()
    row = store.periodic(["bad"]).rows[0]
    if poison == "cannot be stored":
        row = replace(row, request=replace(row.request, priority=1000))
    else:
        row = replace(row, next_moment=datetime(1, 1, 1, tzinfo=UTC))
    store._tables.put_periodic(row)
    for _ in range(3):
        clock.advance(MINUTE)
        duty.tick()
    assert count(store) == 6
    assert [record.getMessage() for record in caplog.records] == [
        "periodic job bad cannot be read, so it is never due: correct its row, or delete it"
    ]


def test_code_that_takes_the_place_of_what_was_made_at_run_time_says_so_once(
    store: MemoryStore, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    """What a person set up is gone then, and the person is not there to see it."""
    Onward(store=store, jobs=[report]).periodic.put(Periodic(report, every="1m", name="mine"))
    for _ in range(2):
        scheduler(store, Periodic(report, "@daily", name="mine")).tick()
    (said,) = [record.getMessage() for record in caplog.records]
    assert said == (
        "periodic job mine was made at run time (Every 1m), and the code declares one of that name, which takes its place: "
        "At 00:00 every day, in UTC"
    )
    assert store.periodic(["mine"]).rows[0].is_declared


def test_moments_of_a_rule_that_is_another_one_now_are_counted_and_said(
    store: MemoryStore, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    scheduler(store, Periodic(report, "0 2 * * *", catch_up="all")).tick()
    clock.advance(timedelta(days=3))
    scheduler(store, Periodic(report, "5 2 * * *", catch_up="all")).tick()
    assert store.periodic(["report"]).rows[0].skipped == 3
    assert [record.getMessage() for record in caplog.records] == [
        "periodic job report: its rule is another one; moments that were due by the old one: 3"
    ]


def test_a_store_that_is_away_is_no_poisoned_row(clock: FakeClock, caplog: pytest.LogCaptureFixture) -> None:
    """Its error goes to the loop, which waits and tries again; the row is not given up for it."""

    class Away(MemoryStore):
        is_away = False

        def write_periodic(self, changes: Any) -> list[PeriodicWritten]:
            if self.is_away:
                raise StoreUnavailable("the server is away")
            return super().write_periodic(changes)

    store = Away(clock=clock)
    duty = scheduler(store, Periodic(report, every="1m"))
    duty.tick()
    clock.advance(MINUTE)
    store.is_away = True
    with pytest.raises(StoreUnavailable):
        duty.tick()
    store.is_away = False
    duty.tick()
    assert (count(store), caplog.records) == (1, [])
