"""``drain``: run what is due as a worker would, through JSON and the store's own turns, in the calling thread."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING

from onward.app import Onward
from onward.clock import FakeClock
from onward.definition import Duration
from onward.durations import parse_duration
from onward.errors import OnwardError
from onward.outcome import Outcome
from onward.steps import drive, drive_awaited
from onward.turn import Claim, Demand, Settlement, Turn

if TYPE_CHECKING:
    from onward.worker.executor import Executor
    from onward.worker.reports import Reports

LEASE_OWNER = "test:1:drain"


class Drained:
    """What a drain did."""

    def __init__(self) -> None:
        self.settlements: list[Settlement] = []
        """In the order in which the runs ended."""
        self.lost: list[Settlement] = []
        """Runs whose claim was taken away while they ran; the store kept nothing of them."""
        self.expired: list[str] = []
        """Ids of jobs that were too late to run."""

    @property
    def counts(self) -> dict[str, int]:
        """How many runs ended in which way: ``{"completed": 2, "retried": 1}``."""
        return dict(Counter(outcome.name for outcome in self.outcomes))

    @property
    def outcomes(self) -> list[Outcome]:
        """How each run ended."""
        return [settlement.outcome for settlement in self.settlements]

    def __len__(self) -> int:
        return len(self.settlements)

    def __repr__(self) -> str:
        return f"<Drained {self.counts}>"


def drain(app: Onward, *, queues: Iterable[str] = (), ahead: Duration | None = None, at_most: int = 10_000) -> Drained:
    """Run every job that is due, and what those enqueue, until nothing is; say how each run ended.

    Payloads go through JSON, and every ending through the store, so what works here works in a worker. A retry waits for its
    back-off: move the clock and drain again, or give ``ahead="1h"`` to move the application's ``FakeClock`` from one due job to the next
    for at most that long. Raises ``AssertionError`` after ``at_most`` runs: a job that enqueues itself would never end.
    """
    _refuse_running_loop()
    executor, reports = _prepare(app)
    return drive(executor.run, _rounds(app, reports, tuple(queues), ahead, at_most))


async def adrain(app: Onward, *, queues: Iterable[str] = (), ahead: Duration | None = None, at_most: int = 10_000) -> Drained:
    """``drain`` for a test that runs on an event loop; async handlers run on that loop."""
    executor, reports = _prepare(app)
    return await drive_awaited(executor.run_async, _rounds(app, reports, tuple(queues), ahead, at_most))


def _rounds(
    app: Onward, reports: Reports, queues: tuple[str, ...], ahead: Duration | None, at_most: int
) -> Generator[Claim, Settlement, Drained]:
    """Yield each claim, take back how it ended, and settle that in the turn that claims the next one."""
    drained = Drained()
    types = app.definitions.leases()
    constraints = app.definitions.constraints()
    demand = Demand(lease_owner=LEASE_OWNER, slots=1, types=types, queues=queues, constraints=constraints, unblocks=True)
    left = None if ahead is None else parse_duration(ahead)
    if app.queue_limits:
        app.store.declare_limits(app.queue_limits)
    swept = app.store.sweep(types, constraints=constraints)
    reports.swept(swept)
    drained.expired.extend(job.id for job in swept.expired)
    ended: tuple[Settlement, ...] = ()
    while True:
        turn = app.store.turn(ended, demand)
        _record(drained, reports, turn)
        ended = ()
        if turn.claims:
            if len(drained) >= at_most:
                raise AssertionError(
                    f"still not empty after {at_most:,} runs: does a job enqueue itself? Last was {turn.claims[0].job.type}"
                )
            reports.claimed(turn.claims[:1])
            ended = ((yield turn.claims[0]),)
        elif turn.leaves_blocked and turn.expired:
            continue
        elif turn.next_due is None:
            return drained
        elif turn.next_due:
            if left is None or turn.next_due > left:
                return drained
            left -= turn.next_due
            _move_clock(app, turn.next_due)


def _record(drained: Drained, reports: Reports, turn: Turn) -> None:
    reports.settled((settlement, None) for settlement in turn.settled)
    for settlement in turn.lost:
        reports.lease_lost(settlement.claim, None)
    reports.expired(turn.expired)
    drained.settlements.extend(turn.settled)
    drained.lost.extend(turn.lost)
    drained.expired.extend(job.id for job in turn.expired)


def _move_clock(app: Onward, by: timedelta) -> None:
    clock = app.store.clock
    if not isinstance(clock, FakeClock):
        raise OnwardError("ahead= moves a FakeClock, and this application has another clock: make it with Onward(..., clock=FakeClock())")
    clock.advance(by)


def _prepare(app: Onward) -> tuple[Executor, Reports]:
    from onward.worker.executor import Executor
    from onward.worker.reports import Reports
    from onward.worker.transactions import StoreTransactions

    executor = Executor(
        app.definitions,
        app.services,
        clock=app.store.clock,
        chance=Random(0),
        transactions=StoreTransactions(app.store, app.definitions),
        worker_id=LEASE_OWNER,
    )
    return executor, Reports(app.events, LEASE_OWNER, app.store)


def _refuse_running_loop() -> None:
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise OnwardError("drain() cannot run async handlers inside a running event loop: use 'await adrain(app)' there")
