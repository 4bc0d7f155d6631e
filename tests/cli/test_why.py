"""The sentence that says why a job is not running."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from onward.breaker import BreakerState
from onward.cli.why import NOBODY, Others, explain, look_at_others
from onward.clock import FakeClock
from onward.drivers.memory import MemoryStore
from onward.inspection import KnownLimit
from onward.jobs import Job
from onward.limit import Limit, LimitKind, LimitState
from onward.outcome import DeadLettered
from onward.presence import KnownWorker, Presence
from onward.status import Status
from onward.testing.conformance.steps import claim_one, enqueue, settle

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
OTHER = "01JE0000000000000000000007"
LATER, EARLIER = NOW + timedelta(minutes=5), NOW - timedelta(minutes=5)


def make_job(**fields: Any) -> Job:
    """A job in any state."""
    defaults: dict[str, Any] = {
        "id": "01JE0000000000000000000000",
        "type": "mail",
        "queue": "post",
        "priority": 0,
        "status": Status.QUEUED,
        "payload": "null",
        "payload_hash": "",
        "scheduled_at": EARLIER,
        "max_attempts": 3,
        "created_at": EARLIER,
        "updated_at": EARLIER,
    }
    return Job(**{**defaults, **fields})


def behind(**state: Any) -> Others:
    """A breaker that opened five minutes ago."""
    return Others(breaker=BreakerState(key="s 3", opened_at=EARLIER, **state))


def limited(kind: LimitKind, limit: Limit, running: int, spent_until: datetime | None = None) -> KnownLimit:
    """A limit under which so many run."""
    return KnownLimit(state=LimitState(kind=kind, name="c", limit=limit, spent_until=spent_until), running=running)


def ahead(status: Status) -> Others:
    """One that stands before it in its line."""
    return Others(ahead=make_job(id=OTHER, status=status))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, "been due for 5m (since 2026-03-01 11:55:00Z): no worker that serves queue 'post'"),
        ({"scheduled_at": LATER}, "is due in 5m (2026-03-01 12:05:00Z)"),
        ({"scheduled_at": LATER, "status": Status.RETRYING}, "after its last failure, in 5m"),
        ({"expires_at": EARLIER}, "expired 5m ago"),
        ({"blocked_by": "type"}, "knew the type 'mail'"),
        ({"paused_at": EARLIER}, "queue 'post' is paused since 2026-03-01 11:55:00Z (5m ago): 'onward queues resume post' lets it start."),
        ({"paused_at": EARLIER, "scheduled_at": LATER}, "is due in 5m"),
        ({"blocked_by": "breaker", "breaker": "stripe"}, "the breaker 'stripe', behind which it waits, is closed: the next sweep"),
        (
            {"blocked_by": "breaker", "breaker": "s 3", "others": behind(status="open", retry_at=LATER)},
            "open since 2026-03-01 11:55:00Z (5m ago), tried again at 2026-03-01 12:05:00Z (in 5m): 'onward breakers reset 's 3'' lets",
        ),
        ({"blocked_by": "breaker", "breaker": "s 3", "others": behind(status="open")}, "tried again with the next of its jobs: 'onward"),
        (
            {"blocked_by": "breaker", "breaker": "s 3", "others": behind(status="half_open", probe_id=OTHER)},
            f"(5m ago), being tried now by job {OTHER}: 'onward breakers reset",
        ),
        (
            {"blocked_by": "breaker", "breaker": "s 3", "others": behind(status="closed")},
            "is closed again: those that waited behind it go on",
        ),
        ({"blocked_by": "limit", "concurrency_key": "c"}, "there is room again under the limit of 'c'"),
        (
            {"blocked_by": "limit", "concurrency_key": "c", "others": Others(limit=limited("key", Limit(concurrency=3), 3))},
            "but the limit of its concurrency key 'c' is reached: 3 of 3 run.",
        ),
        (
            {
                "blocked_by": "limit",
                "concurrency_key": "c",
                "others": Others(limit=limited("key", Limit(rate="1/m"), 0, spent_until=LATER)),
            },
            "is reached: its rate of 1/m lets one begin at 2026-03-01 12:01:00Z (in 1m).",
        ),
        (
            {"blocked_by": "limit", "concurrency_key": "c", "others": Others(limit=limited("key", Limit(rate="10/s", burst=1), 0, LATER))},
            "its rate of 10/s lets one begin in a moment.",
        ),
        (
            {"blocked_by": "limit", "concurrency_key": "c", "others": Others(limit=limited("key", Limit(concurrency=3), 2))},
            "there is room again under the limit of 'c'",
        ),
        ({"others": Others(queue_limit=limited("queue", Limit(concurrency=5), 5))}, "but queue 'post' is at its limit: 5 of 5 run."),
        ({"others": Others(queue_limit=limited("queue", Limit(concurrency=5), 4))}, "been due for 5m"),
        ({"blocked_by": "serial", "serial_key": "s"}, "nobody stands before it any more with the serial key 's'"),
        (
            {"blocked_by": "serial", "serial_key": "s", "others": ahead(Status.IN_PROGRESS)},
            f"but job {OTHER} stands before it with the serial key 's' and is in progress: 'onward jobs show {OTHER}' tells of that one.",
        ),
        ({"blocked_by": "serial", "serial_key": "s", "others": ahead(Status.RETRYING)}, "and is retrying"),
        (
            {"blocked_by": "serial", "serial_key": "s", "others": ahead(Status.DEAD_LETTER)},
            f"is a dead letter: 'onward jobs retry {OTHER}' or 'onward jobs delete {OTHER}' lets it go on.",
        ),
        (
            {"status": Status.IN_PROGRESS, "lease_owner": "h:1:x", "lease_until": LATER},
            "h:1:x holds the lease until 2026-03-01 12:05:00Z (in 5m)",
        ),
        (
            {"status": Status.IN_PROGRESS, "lease_owner": "h", "lease_until": LATER, "cancel_requested_at": EARLIER},
            "asked to stop 5m ago",
        ),
        ({"status": Status.IN_PROGRESS, "lease_owner": "h:1:x", "lease_until": EARLIER}, "The lease of h:1:x ran out 5m ago"),
        ({"status": Status.DEAD_LETTER}, "'onward jobs retry 01JE0000000000000000000000'"),
        ({"status": Status.CANCELLED}, "was cancelled"),
        ({"status": Status.CANCELLED, "error": "expired"}, "was not run before it expired"),
        ({"status": Status.COMPLETED}, "is done"),
        ({"status": Status.COMPLETED, "key_held_by": "01JE0000000000000000000009"}, "is done"),
        (
            {"status": Status.DEAD_LETTER, "idempotency_key": "k", "key_held_by": "01JE0000000000000000000009"},
            "a retry is refused while job 01JE0000000000000000000009 holds its key 'k': 'onward jobs show 01JE0000000000000000000009'",
        ),
        ({"status": Status.CANCELLED, "idempotency_key": "k", "key_held_by": "01JE0000000000000000000009"}, "a retry is refused while"),
        ({"status": Status.DEAD_LETTER, "key_held_by": "01JE0000000000000000000000"}, "'onward jobs retry 01JE0000000000000000000000'"),
    ],
)
def test_every_state_has_its_reason(fields: dict[str, Any], expected: str) -> None:
    """Why a job does not run is the first question of everyone who ever had a queue."""
    beside = {name: fields.get(name) for name in ("paused_at", "key_held_by", "others") if name in fields}
    job = make_job(**{name: value for name, value in fields.items() if name not in beside})
    assert expected in explain(job, NOW, **beside)


@pytest.mark.parametrize("status", list(Status))
def test_no_state_is_without_a_sentence(status: Status) -> None:
    """A new status must not fall through."""
    assert explain(make_job(status=status), NOW).endswith(".")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(NOW)


@pytest.fixture
def store(clock: FakeClock) -> MemoryStore:
    return MemoryStore(clock=clock)


def queued(store: MemoryStore, **fields: Any) -> Job:
    """One that is due, as it is stored."""
    return store.get(enqueue(store, **fields).id)


def test_whom_a_job_waits_for_is_asked_by_the_reason_that_is_stored(store: MemoryStore) -> None:
    """Each of a store in which all three would have an answer."""
    shared = {"breaker": "s3", "concurrency_key": "c", "serial_key": "s"}
    first, job = queued(store, **shared), queued(store, **shared)
    store.open_breaker("s3", timedelta(minutes=5))
    store.set_limit("key", "c", Limit(concurrency=1))
    store.set_limit("queue", "default", Limit(concurrency=1))

    def asked(**fields: Any) -> Others:
        return look_at_others(store, replace(job, **fields), NOW)

    assert asked(blocked_by="breaker") == Others(breaker=store.breakers()[0].state)
    assert asked(blocked_by="limit") == Others(limit=store.limits(keys=["c"])[0])
    assert asked(blocked_by="serial") == Others(ahead=first)
    assert asked() == Others(queue_limit=store.limits(["default"])[0], workers=(), before=1)
    assert asked(blocked_by="type") == Others(workers=())


def test_those_that_could_run_it_are_asked_for_and_only_living_ones_count(store: MemoryStore, clock: FakeClock) -> None:
    """And whether those serve its queue and know its type."""
    queued(store, priority=1)
    job = queued(store)

    def why(**said: Any) -> str:
        store.withdraw("w")
        if said:
            store.announce(Presence(lease_owner="w", name="w", **said))
        return explain(job, clock.now(), others=look_at_others(store, job, clock.now()))

    assert why().endswith("no worker is running. 'onward worker' starts one.")
    assert why(queues=("slow",), types=("work",)).endswith("serves queue 'default'. 'onward workers' tells what each of them serves.")
    assert "no running worker that serves queue 'default' knows the type 'work'" in why(types=("other",))
    assert why(types=("work",)).endswith("it is behind 1 other in queue 'default', and is taken when they have been.")
    claim_one(store)
    assert why(types=("work",)).endswith("it is the next of queue 'default', and a worker takes it when a slot is free.")
    store.announce(Presence(lease_owner="w", name="w", types=("work",)))
    clock.advance(181)
    assert "no worker is running" in explain(job, clock.now(), others=look_at_others(store, job, clock.now()))


def test_how_many_are_before_it_has_a_bound() -> None:
    """Nobody counts a million."""
    workers = (KnownWorker(lease_owner="w", name="w", types=("mail",), started_at=NOW, seen_at=NOW),)
    assert "behind 10,000+ others in queue 'post'" in explain(make_job(), NOW, others=Others(workers=workers, before=10_000))
    assert "behind 2 others in queue 'post'" in explain(make_job(), NOW, others=Others(workers=workers, before=2))


def test_one_of_an_unknown_type_whose_worker_has_come_is_let_go_on() -> None:
    """By itself: nothing need be done."""
    workers = (KnownWorker(lease_owner="w", name="w", types=("mail",), started_at=NOW, seen_at=NOW),)
    said = explain(make_job(blocked_by="type"), NOW, others=Others(workers=workers))
    assert said.endswith("a worker that knows its type 'mail' is running by now: its next sweep lets it go on.")


@pytest.mark.parametrize("fields", [{"status": Status.COMPLETED}, {"status": Status.IN_PROGRESS}, {"scheduled_at": LATER}], ids=str)
def test_a_store_is_not_asked_for_a_job_that_is_not_due(fields: dict[str, Any]) -> None:
    """Another reason comes first, and a look at limits counts rows."""
    nothing_to_ask: Any = None
    assert look_at_others(nothing_to_ask, make_job(blocked_by="breaker", breaker="s3", **fields), NOW) == NOBODY


def test_a_dead_letter_is_in_the_way_only_where_the_code_says_so(store: MemoryStore) -> None:
    """Where it is not known what the code says, it is the likely reason."""
    dead = queued(store, serial_key="s")
    settle(store, claim_one(store), DeadLettered("hopeless"))
    job = replace(queued(store, serial_key="s"), blocked_by="serial")
    assert look_at_others(store, job, NOW) == Others(ahead=store.get(dead.id))
    assert look_at_others(store, job, NOW, goes_on_behind_dead_letter=True) == NOBODY
