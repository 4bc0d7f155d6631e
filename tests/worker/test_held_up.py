"""What somebody else's open transaction keeps from being stored waits by itself, and holds up nobody."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta

import pytest
from msgspec.structs import replace

from onward.admission import Constraint
from onward.clock import FakeClock
from onward.definition import define_job
from onward.drivers.memory import MemoryStore
from onward.events import Event
from onward.jobs import NewJob
from onward.rollups import Tally
from onward.status import Status
from onward.testing.factories import make_new_job
from onward.turn import Demand, Extended, Extension, Settlement, Swept, Turn
from onward.worker.worker import Worker
from tests.worker.conftest import Gate, work_off

MakeWorker = Callable[..., Worker]


class Held(MemoryStore):
    """A store in which the rows of ``blocked`` jobs belong to a transaction that does not end."""

    def __init__(self, *, clock: FakeClock) -> None:
        super().__init__(clock=clock)
        self.blocked: set[str] = set()
        self.sent: list[str] = []
        self.renewals: list[str] = []

    def turn(self, settlements: Sequence[Settlement] = (), demand: Demand | None = None, tally: Tally | None = None) -> Turn:
        self.sent += [one.claim.id for one in settlements]
        held = tuple(one for one in settlements if one.claim.id in self.blocked)
        turn = super().turn([one for one in settlements if one not in held], demand, tally)
        return replace(turn, held_up=held)

    def extend(self, extensions: Sequence[Extension]) -> Extended:
        self.renewals += [one.claim.id for one in extensions]
        held = [one for one in extensions if one.claim.id in self.blocked]
        extended = super().extend([one for one in extensions if one not in held])
        return replace(extended, held_up=frozenset(one.claim.id for one in held))


@pytest.fixture
def store(clock: FakeClock) -> Held:
    return Held(clock=clock)


def enqueue(store: MemoryStore, number: int) -> NewJob:
    asked = make_new_job("work", number)
    store.enqueue([asked])
    return asked


def test_an_outcome_that_is_held_up_is_sent_again_later_and_by_itself(
    make_worker: MakeWorker, store: Held, clock: FakeClock, events: list[Event]
) -> None:
    """Its neighbours are stored, new work is claimed, and the loop does not spin on it."""
    worker = make_worker(define_job("work", lambda number: number, payload=int))
    held, free = enqueue(store, 1), enqueue(store, 2)
    store.blocked.add(held.id)
    worker.producer.tick()
    while store.get(free.id).status is not Status.COMPLETED or held.id not in store.sent:
        worker.producer.rest(0.1)
        worker.producer.tick()
    assert worker.producer.has_unsettled
    assert 0 < worker.producer.tick() <= 0.1  # rests until it is time to try again
    tries = store.sent.count(held.id)
    more = enqueue(store, 3)
    clock.advance(0.05)
    while store.get(more.id).status is not Status.COMPLETED:
        worker.producer.rest(0.01)
        worker.producer.tick()
    assert store.sent.count(held.id) == tries
    for _ in range(3):
        clock.advance(5)
        worker.producer.tick()
    assert store.sent.count(held.id) == tries + 3
    store.blocked.clear()
    clock.advance(5)
    work_off(worker)
    assert store.get(held.id).status is Status.COMPLETED
    assert [event.event for event in events if event.job_id == held.id] == ["claimed", "completed"]


def test_a_lease_that_could_not_be_renewed_is_tried_again_at_the_next_look(make_worker: MakeWorker, store: Held, clock: FakeClock) -> None:
    """Nobody can take the job while its row is held; the moment after, somebody could."""
    gate = Gate()
    worker = make_worker(define_job("work", gate, lease="60s"))
    asked = enqueue(store, 1)
    worker.producer.tick()
    gate.wait()
    store.blocked.add(asked.id)
    clock.advance(30)
    worker.heartbeat.tick()
    clock.advance(1)
    worker.heartbeat.tick()
    assert store.renewals == [asked.id, asked.id]
    gate.contexts[0].check_lease()
    store.blocked.clear()
    clock.advance(1)
    worker.heartbeat.tick()
    lease = store.get(asked.id).lease_until
    assert lease is not None
    assert (lease - clock.now()).total_seconds() == 60
    clock.advance(1)
    worker.heartbeat.tick()
    assert len(store.renewals) == 3  # and then again only when it is due
    gate.open.set()
    work_off(worker)


def test_a_sweep_that_suspects_a_claim_soon_looks_again(make_worker: MakeWorker, clock: FakeClock) -> None:
    """It is patient with the worker of a row that was held, and the jobs of a dead one do not wait for the next sweep."""

    class Suspecting(MemoryStore):
        suspected = 1

        def sweep(
            self, types: Collection[str] = (), *, constraints: Mapping[str, Constraint] | None = None, patience: timedelta = timedelta(0)
        ) -> Swept:
            return replace(super().sweep(types, constraints=constraints), suspected=self.suspected if patience else 0)

    store = Suspecting(clock=clock)
    worker = make_worker(define_job("work", lambda number: number, payload=int), store=store)
    assert worker.sweeper.tick() == 3
    store.suspected = 0
    assert worker.sweeper.tick() == 30
