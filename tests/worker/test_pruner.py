"""A worker deletes what is over in small portions, and leaves the store to the others in between."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from onward import Kept, Onward, Retention, define_job
from onward.clock import FakeClock
from onward.drivers.memory import MemoryStore
from onward.errors import InvalidDefinition, StoreBusy
from onward.inspection import JobFilter
from onward.jobs import NewJob
from onward.outcome import Completed
from onward.portions import HOLD, HOLD_OF_ONE_WRITER, LONGEST_REST, REST
from onward.pruning import PAGE, Due, Gone, Keeping
from onward.testing.conformance.steps import claim, settle
from onward.testing.factories import make_new_job
from onward.worker.pruner import FEWEST_GONE, LOOK_AGAIN_AFTER, Pruner

INTERVAL = 600.0
DAY = timedelta(days=1)
SHORT = Retention(completed="1h", types={"kept": Kept(completed=None)})


class Watch:
    """A monotonic clock that only a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class SlowStore(MemoryStore):
    """One whose deletions take their time, by a clock of the test's."""

    def __init__(self, watch: Watch, clock: FakeClock) -> None:
        super().__init__(clock=clock)
        self.watch = watch
        self.a_job_takes = 2.0**-15
        self.portions: list[int] = []
        self.looks = 0
        self.is_busy = False

    def finished(self, look: Any) -> Any:
        self.looks += 1
        return super().finished(look)

    def delete_finished(self, due: Due, *, relaxed: bool = False) -> Gone:
        if self.is_busy:
            raise StoreBusy("somebody holds the lock")
        assert relaxed, "nobody is told that they are gone, so nobody need wait for the disk"
        self.portions.append(len(due.ids))
        return Gone(super().delete_finished(due).count, self.a_job_takes * len(due.ids))


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(clock: FakeClock) -> SlowStore:
    return SlowStore(Watch(), clock)


def finish(store: Any, *jobs: NewJob) -> None:
    store.enqueue(list(jobs))
    for one in claim(store, len(jobs), types=tuple({job.type for job in jobs})):
        settle(store, one, Completed())


def pruner(store: SlowStore, retention: Retention = SHORT) -> Pruner:
    return Pruner(store, Keeping(retention), interval=INTERVAL, monotonic=store.watch)


def one_round(of: Pruner) -> list[float]:
    """The pauses until the round is over."""
    pauses: list[float] = []
    while not pauses or pauses[-1] != INTERVAL:
        pauses.append(of.tick())
    return pauses


def test_a_round_deletes_all_that_is_due_in_portions_that_take_a_moment(store: SlowStore, clock: FakeClock) -> None:
    """The first is small, and they grow until they take as long as others may wait; behind each, the store is theirs for twice as long."""
    finish(store, *(make_new_job() for _ in range(900)))
    clock.advance(3600)
    pauses = one_round(pruner(store))
    assert store.count(JobFilter()) == 0
    assert store.portions[0] == FEWEST_GONE
    assert sum(store.portions) == 900
    assert max(store.portions) == int(HOLD / store.a_job_takes)
    assert max(pauses[:-1]) == pytest.approx(REST * max(store.portions) * store.a_job_takes)
    assert pauses.count(INTERVAL) == 1


def test_where_one_writer_keeps_all_others_waiting_the_portions_are_smaller(
    store: SlowStore, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers wait for it twice for each job."""
    monkeypatch.setattr(type(store), "capabilities", msgspec.structs.replace(store.capabilities, has_one_writer=True))
    store.a_job_takes = 2.0**-18
    finish(store, *(make_new_job() for _ in range(900)))
    clock.advance(3600)
    one_round(pruner(store))
    assert max(store.portions) == int(HOLD_OF_ONE_WRITER / store.a_job_takes)


def test_a_slow_disk_gets_the_fewest_and_the_rest_is_bounded(store: SlowStore, clock: FakeClock) -> None:
    store.a_job_takes = 1.0
    finish(store, *(make_new_job() for _ in range(4 * FEWEST_GONE)))
    clock.advance(3600)
    pauses = one_round(pruner(store))
    assert store.portions == [FEWEST_GONE] * 4
    assert max(pauses[:-1]) == LONGEST_REST


def test_what_is_kept_is_not_looked_at_in_every_round(store: SlowStore, clock: FakeClock) -> None:
    """Only what has become old enough since; and once a day all of it, for what somebody held when it was due."""
    finish(store, *(make_new_job("kept") for _ in range(2 * PAGE)))
    clock.advance(3600)
    finish(store, make_new_job())
    clock.advance(3600)
    made = pruner(store)
    looks = []
    for pause in (0.0, 0.0, LOOK_AGAIN_AFTER + 1, 0.0):
        store.watch.now += pause
        store.looks = 0
        one_round(made)
        looks.append(store.looks)
    assert looks[1] == looks[3]
    assert looks[0] == looks[2] > looks[1]
    assert store.count(JobFilter()) == 2 * PAGE


def test_a_round_that_fails_begins_again(store: SlowStore, clock: FakeClock) -> None:
    """At once, as far as the pruner is concerned: the loop backs off."""
    finish(store, *(make_new_job() for _ in range(20)))
    clock.advance(3600)
    made = pruner(store)
    store.is_busy = True
    with pytest.raises(StoreBusy):
        one_round(made)
    store.is_busy = False
    one_round(made)
    assert store.count(JobFilter()) == 0


def test_a_pruner_leaves_to_another_what_that_one_is_at(store: SlowStore, clock: FakeClock) -> None:
    """Both looked at the same page; the second goes on behind it instead of asking for each of its jobs."""
    finish(store, *(make_new_job() for _ in range(200)))
    clock.advance(3600)
    first, second = pruner(store), pruner(store)
    for one in (first, second):
        one.tick()  # each has looked
    one_round(first)
    store.portions.clear()
    one_round(second)
    assert store.portions == [FEWEST_GONE]


def test_more_than_fits_into_one_commit_is_tidied_up_within_one_round(store: SlowStore, clock: FakeClock) -> None:
    """Keys outlive their jobs, and there may be one for each."""
    for name in "abc":
        store.begin_action(_action(name))
    clock.advance(100 * DAY.total_seconds())
    monkey = pruner(store)
    tidied: list[int] = []
    real = store.tidy

    def tidy(retention: Retention, *, limit: int = 1000) -> bool:
        tidied.append(limit)
        return real(retention, limit=1)

    store.tidy = tidy  # type: ignore[method-assign]
    one_round(monkey)
    assert len(tidied) == 4
    assert store.actions() == []


def _action(actor: str) -> Any:
    from onward.actions import new_action

    return new_action("cancel", JobFilter(queues=("default",)), actor=actor, matched=1)


# -- a worker's ------------------------------------------------------------------------------------------------------


def nothing() -> None:
    """Does nothing."""


MAIL = define_job("mail", nothing, aliases=["post"], queue="letters")
PLAIN = define_job("plain", nothing)


@pytest.fixture
def app(clock: FakeClock) -> Iterator[Onward]:
    retention = Retention(completed="2d", types={"mail": Kept(completed="1d")})
    with closing(Onward("memory://", jobs=[MAIL, PLAIN], retention=retention, clock=clock)) as app:
        yield app


def test_a_worker_prunes_by_the_names_that_its_application_knows(app: Onward, clock: FakeClock) -> None:
    """An alias is the same job; what another application stores is kept for longer than its own."""
    finish(app.store, *(make_new_job(name) for name in ("mail", "post", "plain", "theirs")))
    left = []
    for days in (1, 1, 87, 1):
        clock.advance(days * DAY.total_seconds())
        one_round(app.worker().pruner)
        left.append({job.type for job in app.store.find(JobFilter())})
    assert left == [{"plain", "theirs"}, {"theirs"}, {"theirs"}, set()]


def test_a_slip_in_a_retention_ends_a_worker_before_it_begins(clock: FakeClock) -> None:
    app = Onward("memory://", jobs=[MAIL], retention=Retention(types={"mial": Kept(completed=None)}), clock=clock)
    with pytest.raises(InvalidDefinition, match="no job is called 'mial': did you mean 'mail'"):
        app.worker()


def test_a_queue_of_a_retention_that_nobody_declares_is_warned_of(clock: FakeClock, caplog: pytest.LogCaptureFixture) -> None:
    """An enqueue may name it."""
    app = Onward("memory://", jobs=[MAIL], retention=Retention(queues={"leters": Kept(completed=None)}), clock=clock)
    with caplog.at_level(logging.WARNING, "onward.worker"):
        app.worker(drain=True).run()
    assert "no job of this application is declared for queue 'leters': did you mean 'letters'?" in caplog.text
