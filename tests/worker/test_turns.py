"""The claiming thread: what a worker takes, runs and gives back, one turn at a time."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from onward.clock import FakeClock
from onward.context import JobContext
from onward.definition import define_job
from onward.drivers.memory import MemoryStore
from onward.errors import OutcomeUnknown, StoreUnavailable, ValueRefused
from onward.events import Event, Events
from onward.jobs import NewJob
from onward.outcome import Completed, Snooze
from onward.retry import RetryPolicy
from onward.rollups import Tally
from onward.status import Status
from onward.testing.factories import make_new_job
from onward.turn import BLOCKED_PER_TURN, Demand, Extension, Settlement, Turn
from onward.worker.worker import Worker
from tests.worker.conftest import PATIENCE, Gate, work_off

MakeWorker = Callable[..., Worker]


def test_sync_and_async_jobs_are_run_and_reported(make_worker: MakeWorker, store: MemoryStore, events: list[Event]) -> None:
    """Both colours share slots and events."""

    async def wave(payload: int) -> int:
        await asyncio.sleep(0)
        return payload

    definitions = define_job("sync", lambda payload: payload, payload=int), define_job("async", wave)
    asked = [definition.new_job(number) for definition in definitions for number in range(50)]
    store.enqueue(asked)
    work_off(make_worker(*definitions, concurrency=4))
    assert {store.get(job.id).status for job in asked} == {Status.COMPLETED}
    assert [sum(event.event == name for event in events) for name in ("claimed", "completed")] == [100, 100]
    assert all(event.duration_ms is not None and event.worker_id for event in events if event.event == "completed")


def test_no_more_handlers_run_at_once_than_there_are_slots(make_worker: MakeWorker, store: MemoryStore) -> None:
    """One number for all kinds: an operator sizes connection pools by it."""
    lock, counts = threading.Lock(), {"now": 0, "most": 0}

    def count(by: int) -> None:
        with lock:
            counts["now"] += by
            counts["most"] = max(counts["most"], counts["now"])

    def sync(payload: int) -> None:
        count(1)
        count(-1)

    async def slow(payload: int) -> None:
        count(1)
        await asyncio.sleep(0)
        count(-1)

    definitions = define_job("sync", sync), define_job("async", slow)
    store.enqueue([definition.new_job(number) for number in range(200) for definition in definitions])
    work_off(make_worker(*definitions, concurrency=3))
    assert 1 <= counts["most"] <= 3


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), RecursionError(), asyncio.CancelledError(), ValueError("x")])
def test_no_error_of_a_handler_stops_the_worker(make_worker: MakeWorker, store: MemoryStore, error: BaseException) -> None:
    """The next job runs on the same slot, in a thread as on the loop."""

    def fail(payload: int) -> None:
        raise error

    async def fail_async(payload: int) -> None:
        raise error

    policy = RetryPolicy(max_attempts=1)
    definitions = [define_job("fail", fail, retry=policy), define_job("fail-async", fail_async, retry=policy)]
    fine = define_job("fine", lambda payload: payload, payload=int)
    failing = [definition.new_job(1) for definition in definitions]
    (after,) = [fine.new_job(1)]
    store.enqueue([*failing, after])
    work_off(make_worker(*definitions, fine, concurrency=1))
    assert [store.get(job.id).status for job in failing] == [Status.DEAD_LETTER] * 2
    assert store.get(after.id).status is Status.COMPLETED


def test_a_job_that_always_snoozes_ends_after_a_thousand(make_worker: MakeWorker, store: MemoryStore) -> None:
    """With no delay it would else keep a slot busy for ever; its tries are of no help, since a snooze gives them back."""
    runs = 0

    def later(payload: int) -> Snooze:
        nonlocal runs
        runs += 1
        return Snooze(0)

    definition = define_job("later", later, retry=RetryPolicy(max_attempts=1))
    (asked,) = [definition.new_job(1)]
    store.enqueue([asked])
    work_off(make_worker(definition))
    job = store.get(asked.id)
    assert (runs, job.snoozes, job.status) == (1001, 1000, Status.DEAD_LETTER)
    assert job.error == "snoozed 1,000 times: it is not making progress"


def test_a_subtask_that_exits_does_not_stop_its_neighbours(make_worker: MakeWorker, store: MemoryStore) -> None:
    """SystemExit in a task of the handler's own ends asyncio's loop; ours goes on."""

    async def spawn(payload: int) -> None:
        async def leave() -> None:
            raise SystemExit(3)

        task = asyncio.create_task(leave())
        await asyncio.wait([task])

    async def fine(payload: int) -> None: ...

    definitions = define_job("spawn", spawn), define_job("fine", fine)
    asked = [definitions[0].new_job(1), *[definitions[1].new_job(number) for number in range(5)]]
    store.enqueue(asked)
    work_off(make_worker(*definitions, concurrency=2))
    assert {store.get(job.id).status for job in asked[1:]} == {Status.COMPLETED}


def test_a_bad_payload_is_dead_lettered_and_kept_as_it_was(make_worker: MakeWorker, store: MemoryStore) -> None:
    """The stored bytes are all there is to find out what went wrong."""
    bad = make_new_job("work", {"not": "an int"})
    store.enqueue([bad])
    work_off(make_worker(define_job("work", lambda payload: None, payload=int)))
    job = store.get(bad.id)
    assert (job.status, job.attempts, job.payload) == (Status.DEAD_LETTER, 1, bad.payload)


def test_a_type_that_nobody_here_knows_is_left_alone(make_worker: MakeWorker, store: MemoryStore) -> None:
    """Another application shares the table."""
    other = make_new_job("elsewhere", 1)
    store.enqueue([other])
    work_off(make_worker(define_job("work", lambda payload: None, payload=int)))
    job = store.get(other.id)
    assert (job.status, job.attempts, job.blocked_by) == (Status.QUEUED, 0, "type")


def test_jobs_of_a_type_that_nobody_here_knows_are_told_once(
    make_worker: MakeWorker, store: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    """A renamed job leaves its rows behind; without a word they would wait for ever."""
    store.enqueue([make_new_job("renamed", number) for number in range(3)])
    worker = make_worker(define_job("work", lambda payload: None, payload=int), drain=True)
    worker.run()

    def told() -> list[str]:
        return [record.getMessage() for record in caplog.records if record.name == "onward.worker" and record.levelno == logging.WARNING]

    expected = [
        (
            "no job of this application is called 'renamed', and of that type 3 wait: load the module that defines it, "
            "or give the job that replaces it this name as an alias"
        )
    ]
    assert told() == expected
    store.enqueue([make_new_job("elsewhere", 1)])
    for _ in range(25):
        worker.sweeper.tick()
    assert told() == expected


def test_a_drain_says_which_of_very_many_it_leaves_behind(
    make_worker: MakeWorker, store: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    """A look while they are being set aside finds the newest of them waiting as before."""
    store.enqueue([make_new_job("renamed", number) for number in range(2 * BLOCKED_PER_TURN)])
    make_worker(define_job("work", lambda payload: None, payload=int), drain=True).run()
    assert any(f"called 'renamed', and of that type {2 * BLOCKED_PER_TURN} wait" in record.getMessage() for record in caplog.records)


def test_a_drain_begins_with_what_dead_workers_held(
    make_worker: MakeWorker, store: MemoryStore, clock: FakeClock, events: list[Event]
) -> None:
    """It is due, and a worker that ends by itself has told everything that became of it."""
    work = define_job("work", lambda payload: None, payload=int)
    innocent, guilty = work.new_job(1), work.new_job(2, priority=1)
    store.enqueue([innocent, replace(guilty, max_attempts=1)])
    claims = store.turn(demand=Demand(lease_owner="gone:1:x", slots=2, types={"work": timedelta(seconds=60)})).claims
    store.extend([Extension(claims[0], began_isolated=True)])
    clock.advance(61)
    make_worker(work, drain=True).run()
    assert [(event.event, event.job_id) for event in events] == [
        ("reclaimed", innocent.id),
        ("dead_lettered", guilty.id),
        ("claimed", innocent.id),
        ("completed", innocent.id),
    ]


def test_only_the_queues_that_are_served_are_asked(make_worker: MakeWorker, store: MemoryStore) -> None:
    """A worker of one lane must not take from another."""
    work = define_job("work", lambda payload: None, payload=int)
    mine, other = work.new_job(1, queue="mail"), work.new_job(2)
    store.enqueue([mine, other])
    work_off(make_worker(work, queues=["mail"]))
    assert [store.get(one.id).status for one in (mine, other)] == [Status.COMPLETED, Status.QUEUED]


def test_max_jobs_ends_the_worker_after_exactly_that_many(make_worker: MakeWorker, store: MemoryStore) -> None:
    """Recycling a worker must not take work that it will not do."""
    work = define_job("work", lambda payload: None, payload=int)
    store.enqueue([work.new_job(number) for number in range(20)])
    worker = make_worker(work, max_jobs=7, concurrency=4)
    assert worker.run() == 0
    assert worker.ran_out
    assert [store.get(job.id).status for job in store.held(worker.lease_owner)] == []
    assert len(store.enqueued_jobs) == 13


def test_drain_runs_what_is_due_and_ends(make_worker: MakeWorker, store: MemoryStore) -> None:
    """For cron lines and tests: what is due later is left."""
    work = define_job("work", lambda payload: None, payload=int)
    store.enqueue([*[work.new_job(number) for number in range(100)], work.new_job(7, delay="1h")])
    assert make_worker(work, drain=True).run() == 0
    assert (len(store.enqueued_jobs), len(store.scheduled_jobs)) == (0, 1)


# -- a store that fails ----------------------------------------------------------------------------------------------


class Faulty(MemoryStore):
    """Raises what is put into ``faults`` instead of, or (``after``) behind, the next turns."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock=clock)
        self.faults: list[Exception] = []
        self.after = False
        self.refusal: Exception = ValueRefused("not storable")
        self.refuses: Callable[[Settlement], bool] = lambda settlement: False

    def turn(self, settlements: Sequence[Settlement] = (), demand: Demand | None = None, tally: Tally | None = None) -> Turn:
        if any(self.refuses(one) for one in settlements):
            raise self.refusal
        if self.faults and not self.after:
            raise self.faults.pop(0)
        turn = super().turn(settlements, demand, tally)
        if self.faults:
            raise self.faults.pop(0)
        return turn


@pytest.fixture
def store(clock: FakeClock) -> Faulty:
    return Faulty(clock)


def test_an_outcome_survives_a_failing_store(make_worker: MakeWorker, store: Faulty) -> None:
    """The work is done; it must not be done again because the store was away at its end."""
    gate = Gate()
    work = define_job("work", gate, payload=int)
    job = work.new_job(1)
    store.enqueue([job])
    worker = make_worker(work)
    worker.producer.tick()
    gate.wait()
    store.faults = [StoreUnavailable("disk full")] * 3
    gate.open.set()
    worker.producer.rest(PATIENCE)
    for _ in range(3):
        with pytest.raises(StoreUnavailable):
            worker.producer.tick()
    work_off(worker)
    assert store.get(job.id).status is Status.COMPLETED
    assert gate.starts == 1


def test_claims_of_an_unknown_commit_are_run_once(make_worker: MakeWorker, store: Faulty) -> None:
    """The commit held, its answer was lost: without a look the jobs would wait for their leases to run out."""
    gate = Gate()
    gate.open.set()
    work = define_job("work", gate, payload=int)
    jobs = [work.new_job(number) for number in range(5)]
    store.enqueue(jobs)
    store.after, store.faults = True, [OutcomeUnknown("commit")]
    worker = make_worker(work)
    with pytest.raises(OutcomeUnknown):
        worker.producer.tick()
    assert len(store.held(worker.lease_owner)) == 5
    work_off(worker)
    assert {store.get(job.id).status for job in jobs} == {Status.COMPLETED}
    assert gate.starts == 5


def test_outcomes_of_an_unknown_commit_count_once(make_worker: MakeWorker, store: Faulty, events: list[Event]) -> None:
    """The same settlements are sent again, and reported once."""
    work = define_job("work", lambda payload: None, payload=int)
    job = work.new_job(1)
    store.enqueue([job])
    worker = make_worker(work)
    worker.producer.tick()
    store.after, store.faults = True, [OutcomeUnknown("commit")]
    while store.faults:
        worker.producer.rest(0.1)
        try:
            worker.producer.tick()
        except OutcomeUnknown:
            break
    work_off(worker)
    assert store.get(job.id).status is Status.COMPLETED
    assert [event.event for event in events].count("completed") == 1


@pytest.mark.parametrize("refusal", [ValueRefused("not storable"), ValueError("a defect of the driver")])
def test_an_outcome_that_cannot_be_stored_spares_its_batch(make_worker: MakeWorker, store: Faulty, refusal: Exception) -> None:
    """One bad result must not hold up the others, nor run its own work again."""
    store.refusal = refusal
    work = define_job("work", lambda payload: payload, payload=int)
    jobs = [work.new_job(number) for number in range(6)]
    store.enqueue(jobs)
    store.refuses = lambda one: isinstance(one.outcome, Completed) and one.outcome.result == "3"
    work_off(make_worker(work))
    assert {store.get(job.id).status for job in jobs} == {Status.COMPLETED}
    assert "could not be stored" in (store.get(jobs[3].id).error or "")
    assert all(store.get(job.id).error is None for job in jobs if job is not jobs[3])


@pytest.mark.parametrize("value", [0.5, float("nan"), -1, 2**70, "many"])
def test_counts_that_cannot_be_stored_are_left_out(make_worker: MakeWorker, store: Faulty, value: Any) -> None:
    """Set past ``ctx.record``, they cost themselves, and neither the outcome nor the neighbours'."""

    def handler(payload: int, ctx: JobContext) -> int:
        if payload == 3:
            ctx.processed = value
        else:
            ctx.record(processed=payload)
        return payload

    work = define_job("work", handler, history="all")
    jobs = [work.new_job(number) for number in range(6)]
    store.enqueue(jobs)
    work_off(make_worker(work))
    after = [store.get(job.id) for job in jobs]
    assert [(job.status, job.result, job.error) for job in after] == [(Status.COMPLETED, str(number), None) for number in range(6)]
    assert [store.history(job.id)[-1].processed for job in jobs] == [0, 1, 2, 0, 4, 5]


def test_a_progress_that_cannot_be_stored_is_left_out(make_worker: MakeWorker, store: Faulty) -> None:
    """The result is worth more than the last word on the way to it."""

    def handler(payload: int, ctx: JobContext) -> int:
        ctx.progress({"done": payload})
        ctx.record(processed=payload)
        return payload

    work = define_job("work", handler)
    job = work.new_job(7)
    store.enqueue([job])
    store.refuses = lambda one: one.progress is not None
    work_off(make_worker(work))
    after = store.get(job.id)
    assert (after.status, after.result, after.progress) == (Status.COMPLETED, "7", None)


@pytest.mark.parametrize("is_async", [False, True])
def test_a_run_that_cannot_be_concluded_costs_no_slot(make_worker: MakeWorker, store: Faulty, is_async: bool) -> None:
    """Whatever a handler does to its context, its slot comes free and its job is set aside for a person."""

    def spoil(payload: int, ctx: JobContext) -> None:
        if payload == 0:
            ctx.children = 7  # type: ignore[assignment]

    async def spoil_async(payload: int, ctx: JobContext) -> None:
        spoil(payload, ctx)

    work = define_job("work", spoil_async if is_async else spoil)
    bad, good = work.new_job(0), work.new_job(1)
    store.enqueue([bad, good])
    work_off(make_worker(work, concurrency=1))
    assert (store.get(bad.id).status, store.get(bad.id).error) == (Status.DEAD_LETTER, "the run could not be concluded")
    assert store.get(good.id).status is Status.COMPLETED


def test_a_completion_that_is_never_storable_ends_dead_lettered(make_worker: MakeWorker, store: Faulty) -> None:
    """A person must look, rather than the job be run for ever."""
    work = define_job("work", lambda payload: payload, payload=int)
    job = work.new_job(1)
    store.enqueue([job])
    store.refuses = lambda one: isinstance(one.outcome, Completed)
    work_off(make_worker(work))
    assert store.get(job.id).status is Status.DEAD_LETTER


def test_a_row_that_is_deleted_while_it_runs_costs_one_warning(
    make_worker: MakeWorker, store: Faulty, caplog: pytest.LogCaptureFixture
) -> None:
    """An administrator may do that; the worker says so and goes on."""
    gate = Gate()
    work = define_job("work", gate, payload=int)
    gone, next_one = work.new_job(1), work.new_job(2)
    store.enqueue([gone])
    worker = make_worker(work, concurrency=1)
    worker.producer.tick()
    gate.wait()
    store.recover(worker.lease_owner, [])
    store.delete(gone.id)
    store.enqueue([next_one])
    gate.open.set()
    with caplog.at_level(logging.WARNING):
        work_off(worker)
    assert store.get(next_one.id).status is Status.COMPLETED
    assert [record.levelname for record in caplog.records] == ["WARNING"]


# -- jobs that run alone ---------------------------------------------------------------------------------------------


def test_an_isolated_job_runs_with_no_neighbour(make_worker: MakeWorker, store: Faulty) -> None:
    """It may kill its process; who ran beside it would die with it."""
    lock, inside, beside = threading.Lock(), [0], []

    def enter(by: int, watches: bool = False) -> None:
        with lock:
            inside[0] += by
            if watches:
                beside.append(inside[0])

    def plain(payload: int) -> None:
        enter(1)
        enter(-1)

    def suspect(payload: int, ctx: JobContext) -> None:
        enter(1, watches=True)
        ctx.wait_for_stop(0.01)
        enter(-1, watches=True)

    definitions = define_job("plain", plain), define_job("suspect", suspect, isolated=True)
    jobs = [definitions[number % 5 == 0].new_job(number) for number in range(60)]
    store.enqueue(jobs)
    work_off(make_worker(*definitions, concurrency=8))
    assert {store.get(job.id).status for job in jobs} == {Status.COMPLETED}
    assert beside == [1, 0] * 12


# -- cancel ----------------------------------------------------------------------------------------------------------


def test_a_cancelled_async_job_ends_cancelled(make_worker: MakeWorker, store: Faulty) -> None:
    """A person asked; the heartbeat learns of it and the task is cancelled."""
    begun = threading.Event()

    async def forever(payload: int) -> None:
        begun.set()
        await asyncio.Event().wait()

    work = define_job("work", forever)
    job = work.new_job(1)
    store.enqueue([job])
    worker = make_worker(work)
    worker.producer.tick()
    assert begun.wait(PATIENCE)
    store.cancel(job.id)
    store.clock.advance(timedelta(seconds=2))  # type: ignore[attr-defined]
    worker.heartbeat.tick()
    work_off(worker)
    assert store.get(job.id).status is Status.CANCELLED


def test_a_cancelled_job_that_completes_anyway_is_completed(make_worker: MakeWorker, store: Faulty) -> None:
    """What was done is done; a thread is asked to stop and cannot be made to."""
    gate = Gate()
    work = define_job("work", gate, payload=int)
    job = work.new_job(1)
    store.enqueue([job])
    worker = make_worker(work)
    worker.producer.tick()
    gate.wait()
    store.cancel(job.id)
    store.clock.advance(timedelta(seconds=2))  # type: ignore[attr-defined]
    worker.heartbeat.tick()
    assert gate.contexts[0].should_stop
    gate.open.set()
    work_off(worker)
    assert store.get(job.id).status is Status.COMPLETED


def test_options_that_make_no_sense_are_refused(make_worker: MakeWorker) -> None:
    """At the start, not as a worker that never takes a job."""
    from onward.errors import InvalidDefinition, InvalidTime

    with pytest.raises(InvalidDefinition, match="concurrency"):
        make_worker(concurrency=0)
    with pytest.raises(InvalidDefinition, match="max_jobs"):
        make_worker(max_jobs=0)
    with pytest.raises(InvalidTime):
        make_worker(poll="often")


def test_an_isolated_job_starts_only_when_what_ended_before_it_is_stored(make_worker: MakeWorker, store: MemoryStore) -> None:
    """If it kills its process, a neighbour whose outcome is not stored yet would lose its claim for it."""
    started: list[tuple[int, str]] = []
    asked: list[NewJob] = []

    def suspect(payload: int) -> None:
        before = [store.get(job.id).status.value for job in asked[:payload]]
        started.append((payload, ",".join(before)))

    definition = define_job("suspect", suspect, isolated=True)
    asked += [definition.new_job(number) for number in range(3)]
    store.enqueue(asked)
    work_off(make_worker(definition, concurrency=4))
    assert started == [(0, ""), (1, "completed"), (2, "completed,completed")]


def test_a_failed_try_is_logged_also_where_nobody_listens_to_events(
    make_worker: MakeWorker, store: MemoryStore, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    """A handler with a misspelt name would else fail in silence: the first program of a newcomer. What is secret stays so."""

    def fails(payload: int) -> None:
        raise RuntimeError("no luck with password=hunter22")

    work = define_job("work", fails, payload=int, retry=RetryPolicy(max_attempts=2, backoff="fixed", base="5s", jitter=0))
    job = work.new_job(1)
    store.enqueue([job])
    worker = make_worker(work, events=Events())
    work_off(worker)
    clock.advance(5)
    work_off(worker)
    told = [(record.levelname, record.getMessage()) for record in caplog.records if job.id in record.getMessage()]
    reason = "RuntimeError: no luck with password=[redacted]"
    assert told == [
        ("WARNING", f"job {job.id} (work) failed at try 1 of 2, the next one comes in 5s: {reason}"),
        ("ERROR", f"job {job.id} (work) is dead-lettered after 2 tries: {reason}"),
    ]


def test_the_first_ctrl_c_is_heard_from_the_very_beginning(make_worker: MakeWorker, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may fall between the starts of two threads; the worker winds down as at any other moment."""
    worker = make_worker(define_job("work", lambda payload: None, payload=int))

    def interrupt() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(worker.watching[-1], "start", interrupt)
    assert worker.run() == 0
    assert worker.finished.is_set()
