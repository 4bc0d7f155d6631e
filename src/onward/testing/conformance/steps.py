"""The steps that the suite's tests are made of: enqueue one, claim one, bring a job to a status."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier, Event, Thread
from typing import Any, TypeVar

from onward.driver import Store
from onward.jobs import Job, NewJob
from onward.outcome import Cancelled, Completed, DeadLettered, Outcome, Released, Retried, Snoozed
from onward.status import Status, Verb
from onward.testing.factories import make_new_job
from onward.turn import Claim, Demand, Extension, Settlement, Turn

T = TypeVar("T")

LEASE = timedelta(seconds=60)
PAST_LEASE = timedelta(seconds=61)
OWNER = "host:1:one"
OTHER = "host:2:other"
TYPES = {"work": LEASE, "mail": LEASE}
SOON = timedelta(seconds=10)
NO_DELAY = timedelta(0)

OUTCOMES: dict[Verb, Outcome] = {
    Verb.COMPLETE: Completed(),
    Verb.RETRY: Retried(NO_DELAY, "boom"),
    Verb.DEAD_LETTER: DeadLettered("hopeless"),
    Verb.RELEASE: Released(),
    Verb.SNOOZE: Snoozed(NO_DELAY),
    Verb.CANCEL: Cancelled("not needed"),
}
FINAL_OUTCOMES = (Completed(), DeadLettered("hopeless"), Cancelled("not needed"))


def enqueue(store: Store, type: str = "work", payload: Any = None, **fields: Any) -> NewJob:
    """Enqueue one job by itself, and give what was asked for."""
    asked = make_new_job(type, payload, **fields)
    store.enqueue([asked])
    return asked


def demand(slots: int = 1, *, owner: str = OWNER, types: Iterable[str] = TYPES, **asks: Any) -> Demand:
    """What a worker with this many free slots asks for."""
    return Demand(lease_owner=owner, slots=slots, types=dict.fromkeys(types, LEASE), **asks)


def claim(store: Store, slots: int = 1, **wanted: Any) -> tuple[Claim, ...]:
    """Take a turn that only claims."""
    return store.turn(demand=demand(slots, **wanted)).claims


def claim_one(store: Store, **wanted: Any) -> Claim:
    """Claim the job that is due, and fail when none is."""
    (taken,) = claim(store, 1, **wanted)
    return taken


def claim_everything(store: Store, slots: int = 10, **wanted: Any) -> list[Claim]:
    """Take turns as a worker would, until nothing is due."""
    claims: list[Claim] = []
    for _ in range(1000):
        turn = store.turn(demand=demand(slots, **wanted))
        claims.extend(turn.claims)
        if not turn.claims and turn.next_due != NO_DELAY:
            return claims
    raise AssertionError("the store goes on saying that something is due, and gives nothing")


def start_alone(store: Store, taken: Claim) -> Claim:
    """Say, as a worker does, that the handler of this claim starts now and has its process to itself."""
    assert store.extend([Extension(taken, began_isolated=True)]).lost == frozenset()
    return taken


def settle(store: Store, taken: Claim, outcome: Outcome | None = None, **more: Any) -> Turn:
    """Take a turn that only settles this claim; by default it completes."""
    return store.turn([Settlement(claim=taken, outcome=Completed() if outcome is None else outcome, **more)])


def is_settled(turn: Turn) -> bool:
    """Say whether the one settlement of a turn was stored."""
    assert len(turn.settled) + len(turn.lost) == 1
    return bool(turn.settled)


def bring_to(store: Store, status: Status, **fields: Any) -> Claim:
    """Enqueue a job and take it to ``status`` by way of a claim. Gives that claim; only for ``in_progress`` it still runs."""
    enqueue(store, **fields)
    taken = claim_one(store)
    ending: dict[Status, Outcome | None] = {
        Status.QUEUED: Released(),
        Status.IN_PROGRESS: None,
        Status.RETRYING: Retried(NO_DELAY, "boom"),
        Status.COMPLETED: Completed(),
        Status.DEAD_LETTER: DeadLettered("hopeless"),
        Status.CANCELLED: Cancelled("not needed"),
    }
    outcome = ending[status]
    if outcome is not None:
        assert is_settled(settle(store, taken, outcome))
    assert store.get(taken.id).status is status
    return taken


def read(store: Store, one: Claim | NewJob | Job) -> Job:
    """Read the job of a claim, of a request, or one read before."""
    return store.get(one.id)


def at_once(count: int, act: Callable[[int], T]) -> list[T]:
    """Call ``act(0)`` to ``act(count - 1)`` in as many threads, all let go at the same moment."""
    start = Barrier(count)

    def run(number: int) -> T:
        start.wait(timeout=30)
        return act(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


def until_it_waits(thread: Thread) -> None:
    """Come back when a started thread has stood at the same place for a few looks, so that what follows finds it waiting there."""
    place, looks = None, 0
    for _ in range(30_000):
        frame = sys._current_frames().get(thread.ident or 0)
        found = None if frame is None else (frame.f_code, frame.f_lasti)
        looks = looks + 1 if found == place else 0
        if looks == 5 or not thread.is_alive():
            return
        place = found
        thread.join(0.001)


def is_woken(store: Store, act: Callable[[], object]) -> bool:
    """Wait for an hour in another thread, do what should end the wait, and say whether it ended by that.

    The store under test must not look by itself more often than that, or a wake that does not work would not be noticed.
    """
    ended: list[bool] = []

    def wait() -> None:
        for _ in range(10):  # until nothing is new to this thread
            store.turn(demand=demand())
            if not store.wait(timedelta(0)):
                break
        begins.set()
        ended.append(store.wait(timedelta(hours=1)))

    begins = Event()
    waiting = Thread(target=wait, daemon=True)
    waiting.start()
    begins.wait(timeout=30)
    until_it_waits(waiting)
    act()
    waiting.join(timeout=30)
    return ended == [True]
