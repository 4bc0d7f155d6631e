"""What other queues got wrong about breakers, limits and order, and a worker of ours must not.

| what went wrong elsewhere | what shows that it does not here |
|---|---|
| a job that waits for its retry kept all others of its key waiting | ``test_a_retry_that_is_not_due_holds_no_place`` |
| rows of dead workers counted against a limit for ever | ``test_a_dead_worker_holds_no_place``; with real kills in ``tests.acceptance`` |
| a worker took a job that it has no code for | ``test_a_job_without_code_takes_no_place_and_is_no_probe`` |
| all that had waited for a provider came back at once, or all retries fell together | ``test_what_has_waited_comes_back_at_a_pace``, |
| | ``test_retries_do_not_fall_together`` |
| a breaker took errors of callers, cancels and lost leases for outages | ``test_only_failures_of_the_provider_open_a_breaker`` |
| the order of a line rested on ids alone, which clocks and bursts disturb | ``test_a_line_is_ordered_by_what_was_asked_for`` |
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from onward.breaker import Breaker, Failure
from onward.clock import FakeClock
from onward.context import JobContext
from onward.definition import define_job
from onward.drivers.memory import MemoryStore
from onward.errors import PermanentJobError, TransientJobError
from onward.ids import new_id
from onward.inspection import JobFilter
from onward.limit import Limit
from onward.outcome import Cancel, Snooze
from onward.retry import RetryPolicy
from onward.status import Status
from onward.testing.factories import make_new_job
from onward.turn import Demand
from onward.worker.worker import Worker
from tests.worker.conftest import work_off

MANY = 500
LEASE = timedelta(seconds=60)
Make = Callable[..., Worker]


def statuses(store: MemoryStore) -> Counter[Status]:
    return Counter(job.status for job in store.find(JobFilter(), limit=10 * MANY))


def test_a_retry_that_is_not_due_holds_no_place(store: MemoryStore, make_worker: Make) -> None:
    """Only those that run do."""

    def once(number: int) -> None:
        if number == 1:
            raise ConnectionError("away")

    later = RetryPolicy(backoff="fixed", base="10m", jitter=0)
    job = define_job("once", once, retry=later, concurrency_key="k", limit=Limit(concurrency=1))
    asked = [job.new_job(number) for number in (1, 2)]
    store.enqueue(asked)
    work_off(make_worker(job, concurrency=4))
    assert [store.get(one.id).status for one in asked] == [Status.RETRYING, Status.COMPLETED]


def test_a_dead_worker_holds_no_place(store: MemoryStore, make_worker: Make, clock: FakeClock) -> None:
    """Its runs are free again with their leases, and a new worker has both places."""
    job = define_job("note", lambda: None, lease="60s", concurrency_key="k", limit=Limit(concurrency=2))
    store.enqueue([job.new_job(None) for _ in range(4)])
    dead = Demand(lease_owner="host:1:dead", slots=4, types={"note": LEASE}, constraints={"note": job.constraints.constraint})
    assert len(store.turn(demand=dead).claims) == 2
    worker = make_worker(job, concurrency=4)
    work_off(worker)
    assert statuses(store) == {Status.IN_PROGRESS: 2, Status.QUEUED: 2}
    clock.advance(61)
    store.sweep()
    work_off(worker)
    assert statuses(store) == {Status.COMPLETED: 4}


def test_a_job_without_code_takes_no_place_and_is_no_probe(store: MemoryStore, make_worker: Make, clock: FakeClock) -> None:
    """It is set aside before it is asked about."""
    job = define_job("known", lambda: None, breaker=Breaker("s3"), concurrency_key="k", limit=Limit(concurrency=1), serial_key="line")
    shared = {"breaker": "s3", "concurrency_key": "k"}
    strange = make_new_job("strange", priority=9, **shared)
    store.open_breaker("s3", timedelta(minutes=1))
    clock.advance(60)
    store.enqueue([strange])
    store.enqueue([job.new_job(None)])
    work_off(make_worker(job))
    assert (store.get(strange.id).blocked_by, store.get(strange.id).fence) == ("type", 0)
    assert statuses(store) == {Status.QUEUED: 1, Status.COMPLETED: 1}
    assert store.breakers()[0].state.status == "closed"


def test_what_has_waited_comes_back_at_a_pace(store: MemoryStore, make_worker: Make, clock: FakeClock) -> None:
    """A provider that has just come back is not knocked down by all that has waited for it."""
    job = define_job("call", lambda: None, breaker=Breaker("s3", pace="100/s"))
    store.open_breaker("s3", timedelta(minutes=30))
    store.enqueue([job.new_job(None) for _ in range(MANY)])
    worker = make_worker(job, concurrency=8)
    work_off(worker)
    assert statuses(store) == {Status.QUEUED: MANY}
    store.reset_breaker("s3")
    counts = []
    for _ in range(5):
        work_off(worker)
        counts.append(statuses(store)[Status.COMPLETED])
        clock.advance(1)
    assert counts == [100, 200, 300, 400, 500]


def test_retries_do_not_fall_together(store: MemoryStore, make_worker: Make, clock: FakeClock) -> None:
    """Those that failed in one moment are due over the whole window of the jitter."""

    def away() -> None:
        raise ConnectionError("away")

    job = define_job("away", away, retry=RetryPolicy(base="10s"))
    store.enqueue([job.new_job(None) for _ in range(MANY)])
    work_off(make_worker(job, concurrency=8))
    waits = [(one.scheduled_at - clock.now()).total_seconds() for one in store.find(JobFilter(), limit=MANY)]
    assert len(waits) == MANY
    (_, most), *_ = Counter(int(one * 10) for one in waits).most_common(1)
    assert most / MANY <= 0.07, "in a tenth of a second"
    assert 0 < min(waits) < max(waits) <= 15


def test_only_failures_of_the_provider_open_a_breaker(store: MemoryStore, make_worker: Make, clock: FakeClock) -> None:
    """Payloads that cannot be read, permanent errors, cancels, snoozes and lost leases say nothing of it, however many."""
    endings: dict[str, Any] = {
        "permanent": PermanentJobError("no such user"),
        "cancel": Cancel("not needed"),
        "snooze": Snooze("1h"),
        "away": ConnectionError("away"),
    }

    def call(what: str, ctx: JobContext) -> Any:
        ending = endings[what]
        if isinstance(ending, Exception):
            raise ending
        return ending

    job = define_job("call", call, lease="60s", breaker=Breaker("s3", threshold=5, pause="30m"))
    wishes = [what for what in ("permanent", "cancel", "snooze") for _ in range(MANY // 5)]
    store.enqueue([job.new_job(what) for what in wishes])
    store.enqueue([make_new_job("call", {"not": "text"}, breaker="s3") for _ in range(MANY // 5)])
    worker = make_worker(job, concurrency=8)
    work_off(worker)
    store.enqueue([job.new_job("away") for _ in range(5)])
    lost = Demand(lease_owner="host:1:dead", slots=5, types={"call": LEASE})
    assert len(store.turn(demand=lost).claims) == 5
    clock.advance(61)
    assert len(store.sweep().requeued) == 5
    assert all((one.state.status, one.state.failures) == ("closed", 0) for one in store.breakers())
    work_off(worker)
    (known,) = store.breakers()
    assert (known.state.status, known.state.failures) == ("open", 5)


ERRORS: dict[str, BaseException] = {
    "transient": TransientJobError("away"),
    "unknown": ValueError("who knows"),
    "permanent": PermanentJobError("no such user"),
    "none of these": SystemExit(3),
}


@pytest.mark.parametrize("counts", ["transient", "unknown", "permanent"])
@pytest.mark.parametrize("kind", ERRORS)
def test_what_counts_says_counts_and_nothing_else(store: MemoryStore, make_worker: Make, kind: str, counts: Failure) -> None:
    """A handler that wants the program to end says nothing of its provider, whatever counts."""

    def call() -> None:
        raise ERRORS[kind]

    job = define_job("call", call, retry=RetryPolicy(max_attempts=1), breaker=Breaker("s3", threshold=1, counts=(counts,)))
    store.enqueue([job.new_job(None)])
    work_off(make_worker(job))
    assert [one.state.status for one in store.breakers()] == (["open"] if kind == counts else [])


@pytest.mark.parametrize("counts", ["timeout", "transient"])
def test_a_run_over_its_time_limit_counts_as_that(store: MemoryStore, make_worker: Make, counts: Failure) -> None:
    """Whatever its handler raises as it is ended."""

    async def call() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            raise TransientJobError("away") from None

    policy = RetryPolicy(max_attempts=1)
    job = define_job("call", call, retry=policy, timeout="50ms", breaker=Breaker("s3", threshold=1, counts=(counts,)))
    store.enqueue([job.new_job(None)])
    work_off(make_worker(job))
    assert [one.state.status for one in store.breakers()] == (["open"] if counts == "timeout" else [])


@pytest.mark.parametrize("first", ["due", "priority"])
def test_a_line_is_ordered_by_what_was_asked_for(store: MemoryStore, make_worker: Make, clock: FakeClock, first: str) -> None:
    """Ids made out of order, by a clock that stepped or by two processes, turn nothing round."""
    order: list[int] = []
    job = define_job("note", order.append, payload=int, serial_key="k")
    ids = [new_id() for _ in range(4)]
    for number, id_ in enumerate(reversed(ids)):
        options = {"at": clock.now() + timedelta(seconds=number)} if first == "due" else {"priority": 9 - number}
        store.enqueue([job.new_job(number, id=id_, **options)])
    clock.advance(10)
    work_off(make_worker(job, concurrency=4))
    assert order == [0, 1, 2, 3]


def test_an_opening_and_its_end_are_logged_once(store: MemoryStore, make_worker: Make, caplog: pytest.LogCaptureFixture) -> None:
    """By whichever worker looks first."""
    caplog.set_level("INFO", logger="onward.worker")
    store.open_breaker("s3", timedelta(minutes=30))
    (alert,) = store.alerts()
    workers = [make_worker(define_job("note", lambda: None)) for _ in range(2)]

    def told() -> list[str]:
        for worker in workers:
            worker.lookout.tick()
        lines = [record.getMessage() for record in caplog.records if alert.id in record.getMessage()]
        caplog.clear()
        return lines

    assert told() == [f"alert {alert.id} (breaker_open): the breaker s3 was opened by hand: its jobs wait"]
    store.reset_breaker("s3")
    assert told() == [f"alert {alert.id} (breaker_open) is over: the breaker s3 was opened by hand: its jobs wait"]
    assert told() == []
