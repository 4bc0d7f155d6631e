"""What a claim costs on Postgres must not depend on what cannot run."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from onward.clock import FakeClock
from onward.drivers import connect
from onward.drivers.postgres import claim
from onward.drivers.postgres.driver import PostgresStore
from onward.drivers.postgres.statement_text import LOCKS_OF_KIND, StatementText
from onward.drivers.postgres.url import read_url
from onward.drivers.sql.found import Found
from onward.drivers.sql.placeholders import pyformat
from onward.drivers.sql.rows import write_instant
from onward.drivers.sql.statements import as_json
from onward.inspection import JobFilter
from onward.status import Status
from onward.testing.factories import make_new_job
from onward.turn import BLOCKED_PER_TURN, Demand

MANY = 20_000
PATIENCE = 30.0
DUE = 16
DEMAND = Demand(lease_owner="host:1:one", slots=DUE, types={"work": timedelta(seconds=60)})
SEED = """
INSERT INTO {table} (id, type, queue, priority, status, payload, payload_hash, scheduled_at, max_attempts, created_at, updated_at,
    finished_at, blocked_by)
SELECT %(label)s || lpad(i::text, 21, '0'), %(type)s, %(queue)s, %(priority)s, %(status)s, 'null', 'x', %(scheduled_at)s, 3,
    '2025-01-01Z', '2025-01-01Z', %(finished_at)s, %(blocked_by)s
FROM generate_series(1, %(many)s) AS i
"""


@pytest.fixture
def connection(store: PostgresStore, postgres_database: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(read_url(postgres_database)[0], autocommit=True) as connection:
        yield connection


def seed(connection: psycopg.Connection[Any], store: PostgresStore, label: str, **columns: object) -> None:
    asked = {"type": "work", "queue": "default", "priority": 0, "status": "queued", "scheduled_at": "2025-06-01Z"}
    rest = {"label": label, "many": MANY, "finished_at": None, "blocked_by": None}
    connection.execute(SEED.format(table=f'"{store.schema}".jobs'), asked | rest | columns)


def buffers_of_a_claim(connection: psycopg.Connection[Any], store: PostgresStore, demand: Demand = DEMAND) -> int:
    """Count the pages that a claim touches, found in memory or not, and undo it.

    The least of some runs: the first also reads the catalogs, and what others do on the server in this moment may add to any.
    """
    counts = []
    for _ in range(4):
        _clean(connection, store)
        counts.append(_touched(connection, store, demand))
    return min(counts)


def _clean(connection: psycopg.Connection[Any], store: PostgresStore) -> None:
    """Until every page is known to be visible to all: a session that begins anywhere on the server in this moment keeps some from it."""
    until = time.monotonic() + PATIENCE
    while True:
        # Where few rows are dead, a vacuum leaves them to the next one unless it is told to look into the indexes.
        connection.execute(f'VACUUM (ANALYZE, INDEX_CLEANUP ON) "{store.schema}".jobs')
        size = f"SELECT relpages, relallvisible FROM pg_class WHERE oid = '\"{store.schema}\".jobs'::regclass"
        pages, visible = connection.execute(size).fetchone() or (0, 0)
        if pages == visible:
            return
        assert time.monotonic() < until, f"only {visible} of {pages} pages are visible to all"
        time.sleep(0.05)


def crowd(connection: psycopg.Connection[Any], store: PostgresStore, queue: str) -> None:
    """Twenty thousand rows each that are not due, have ended, have a type that nobody knows, or wait for others."""
    seed(connection, store, "00000", queue=queue, priority=50, scheduled_at="2099-01-01Z")
    seed(connection, store, "00001", queue=queue, priority=100, status="completed", finished_at="2025-06-01Z")
    seed(connection, store, "00002", queue=queue, type="unknown", blocked_by="type")
    for label, reason in (("00003", "breaker"), ("00004", "limit"), ("00005", "serial")):
        seed(connection, store, label, queue=queue, priority=100, blocked_by=reason)


@pytest.mark.parametrize("queues", [("default",), ()], ids=["one queue", "every queue"])
def test_a_claim_walks_past_nothing_that_cannot_run(
    store: PostgresStore, connection: psycopg.Connection[Any], queues: tuple[str, ...]
) -> None:
    """Sixty thousand rows in front cost a few seeks and the depth of the indexes: nothing that grows with them.

    Both are measured with the plan of a large table; for one of a single page the planner would read all of it.
    """
    connection.execute("SET enable_seqscan = off")
    demand = Demand(lease_owner=DEMAND.lease_owner, slots=DUE, types=DEMAND.types, queues=queues)
    store.enqueue([make_new_job() for _ in range(DUE)])
    alone = buffers_of_a_claim(connection, store, demand)
    crowd(connection, store, "default")
    in_front = buffers_of_a_claim(connection, store, demand)
    print(f"buffers of a claim of {DUE} jobs: {alone} alone, {in_front} with 6 x {MANY} rows in front")
    assert in_front <= 1.2 * alone, (alone, in_front)


def test_a_claim_walks_once_past_rows_that_are_dead_and_cannot_be_cleaned_away(
    store: PostgresStore, connection: psycopg.Connection[Any], postgres_database: str
) -> None:
    """While somebody's transaction is open, each job that has run since leaves an entry in the index in front of those that are due."""
    table = f'"{store.schema}".jobs'
    connection.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = false)")
    connection.execute("SET enable_seqscan = off; SET plan_cache_mode = force_generic_plan")
    with psycopg.connect(read_url(postgres_database)[0]) as old:
        old.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        old.execute(f"SELECT count(*) FROM {table}")
        store.enqueue([make_new_job() for _ in range(2000)])
        connection.execute(f"UPDATE {table} SET status = 'completed', finished_at = now()")
        ((pages,),) = connection.execute(f"SELECT pg_relation_size('{table}') / 8192")
        counts = []
        for _ in range(2):
            store.clock.advance(1)  # type: ignore[attr-defined]
            store.enqueue([make_new_job() for _ in range(DUE)])
            counts.append(_touched(connection, store))
            old.rollback()
            connection.execute(f"VACUUM {table}")
    behind, alone = counts
    print(f"buffers of a claim of {DUE} jobs: {behind} behind 2000 dead rows on {pages} pages, {alone} when they are gone")
    assert behind < alone + pages


def test_a_claim_that_is_told_where_to_begin_passes_by_what_is_dead(
    connection: psycopg.Connection[Any], postgres_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that had to search says where the lanes are."""
    monkeypatch.setattr("onward.drivers.postgres.statement_text.SLOW_SEARCH", "0 seconds")
    store = connect(postgres_database, clock=FakeClock())
    assert isinstance(store, PostgresStore)
    table = f'"{store.schema}".jobs'
    connection.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = false)")
    connection.execute("SET enable_seqscan = off; SET plan_cache_mode = force_generic_plan")
    with psycopg.connect(read_url(postgres_database)[0]) as old:
        old.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        old.execute(f"SELECT count(*) FROM {table}")
        store.enqueue([make_new_job() for _ in range(6000)])
        connection.execute(f"UPDATE {table} SET status = 'completed', finished_at = now()")
        store.clock.advance(1)  # type: ignore[attr-defined]
        store.enqueue([make_new_job() for _ in range(3 * DUE)])
        searched = _touched(connection, store)
        assert len(store.turn(demand=DEMAND).claims) == DUE  # after which the store knows
        told = _touched(connection, store, lanes=store._lanes.known(DEMAND.queues))
        assert len(store.turn(demand=DEMAND).claims) == DUE
        old.rollback()
    store.close()
    print(f"buffers of a claim of {DUE} jobs behind 6000 dead rows: {searched} searching, {told} told where to begin")
    assert told < searched / 3


@pytest.mark.parametrize("queues", [("default", "other"), ()], ids=["some queues", "every queue"])
def test_a_claim_that_is_told_where_to_begin_searches_when_that_does_not_fill_it(store: PostgresStore, queues: tuple[str, ...]) -> None:
    """A lane that is new, and a job that was enqueued for a moment long past, are found by the same turn."""
    demand = Demand(lease_owner=DEMAND.lease_owner, slots=4, types=DEMAND.types, queues=queues)
    now = store.clock.now()
    store._lanes.note(queues, [as_json(["default", 0, write_instant(now), 60.0])], searched=True)
    asked = [make_new_job(), make_new_job(queue="other"), make_new_job(priority=5), make_new_job(at=now - timedelta(days=1))]
    store.enqueue(asked)
    assert {one.id for one in store.turn(demand=demand).claims} == {one.id for one in asked}


@pytest.mark.parametrize("queues", [("default",), ()], ids=["one queue", "every queue"])
def test_a_claim_that_is_told_where_to_begin_is_content_where_that_fills_it(store: PostgresStore, queues: tuple[str, ...]) -> None:
    """It does not look at what else there may be, and the next one goes on where it stood."""
    store.enqueue([make_new_job(priority=50)])
    store.clock.advance(1)  # type: ignore[attr-defined]
    store.enqueue([make_new_job() for _ in range(6)])
    store._lanes.note(queues, [as_json(["default", 0, write_instant(store.clock.now()), 60.0])], searched=True)
    demand = Demand(lease_owner=DEMAND.lease_owner, slots=3, types=DEMAND.types, queues=queues)
    assert [one.job.priority for _ in range(2) for one in store.turn(demand=demand).claims] == [0] * 6
    assert [one.job.priority for one in store.turn(demand=demand).claims] == [50]


def test_a_claim_that_is_told_where_to_begin_finds_what_waits_first_in_each_lane(
    store: PostgresStore, connection: psycopg.Connection[Any]
) -> None:
    """And tells the next one of that: not of what came before, has ended, is blocked, or waits in a lane that it was not told of."""
    began = store.clock.now()
    for queue, priority, second in (
        ("a", 5, 0),
        ("a", 0, 0),
        ("a", 0, 1),
        ("a", 0, 2),
        ("a", 0, 3),
        ("b", 0, 0),
        ("b", 0, -1),
        ("b", 5, 0),
        ("c", 0, 0),
    ):
        store.enqueue([make_new_job(queue=queue, priority=priority, at=began + timedelta(seconds=second))])
    change = f"UPDATE \"{store.schema}\".jobs SET {{}} WHERE queue = 'a' AND priority = 0 AND scheduled_at = %s"
    changes = ("status = 'completed', finished_at = now()", "blocked_by = 'type'", "status = 'retrying'")
    for second, one in enumerate(changes):
        connection.execute(change.format(one).encode(), [began + timedelta(seconds=second)])
    store.clock.advance(10)  # type: ignore[attr-defined]
    lanes = [["a", 5, write_instant(began)], ["a", 0, write_instant(began)], ["b", 0, write_instant(began)]]
    store._lanes.note((), [as_json([*lane, 60.0]) for lane in lanes], searched=True)
    claims = store.turn(demand=Demand(lease_owner=DEMAND.lease_owner, slots=3, types=DEMAND.types)).claims
    found = [[one.job.queue, one.job.priority, write_instant(one.job.scheduled_at)] for one in claims]
    assert found == [lanes[0], lanes[2], ["a", 0, write_instant(began + timedelta(seconds=2))]]
    assert sorted(json.loads(store._lanes.known(()) or "")) == sorted(found)


def _touched(connection: psycopg.Connection[Any], store: PostgresStore, demand: Demand = DEMAND, lanes: str | None = None) -> int:
    """The pages that a claim touches, found in memory or not. It is undone."""
    asked = claim.ask(demand, Found(), write_instant(store.clock.now()), lanes)
    sql = StatementText(store.schema, notify=True)["claim"]
    with connection.transaction(force_rollback=True):
        (plan,) = connection.execute("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + sql, asked.parameters).fetchone()[0]  # type: ignore[index]
        assert "JIT" not in plan
    return int(plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"])


@pytest.mark.parametrize("statement", ["hold_keys", "await_keys"])
def test_many_keys_need_no_more_locks_than_a_server_has_room_for(
    store: PostgresStore, connection: psycopg.Connection[Any], statement: str
) -> None:
    """The room is shared with all that use the server: without it, theirs fail as well."""
    names = [f"{kind}:{number}" for kind in ("breaker", "limit", "serial") for number in range(5000)]
    sql = StatementText(store.schema, notify=True)[statement]
    with connection.transaction():
        found = connection.execute(sql, {"names": as_json(names)})  # type: ignore[arg-type].fetchall()
        ((counted,),) = connection.execute(
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"
        ).fetchall()
    assert 1000 < counted <= 3 * LOCKS_OF_KIND
    assert statement == "await_keys" or {name for (name,) in found} == set(names)


def test_unknown_types_are_moved_aside_a_thousand_at_a_time(store: PostgresStore) -> None:
    """One turn must not be long for a hundred thousand rows; the due time stays, and no try is spent."""
    store.enqueue([make_new_job("unknown", priority=1) for _ in range(2 * BLOCKED_PER_TURN)])
    (known,) = store.enqueue([make_new_job()])
    first = store.turn(demand=DEMAND)
    assert (first.claims, first.next_due) == ((), timedelta(0))
    blocked = [job for job in store.find(JobFilter(types=("unknown",)), limit=5000) if job.blocked_by == "type"]
    assert len(blocked) == BLOCKED_PER_TURN
    assert {(job.attempts, job.fence, job.status) for job in blocked} == {(0, 0, Status.QUEUED)}
    claims = store.turn(demand=DEMAND).claims or store.turn(demand=DEMAND).claims
    assert [taken.id for taken in claims] == [known.id]
    assert store.turn(demand=DEMAND).next_due is None
    assert store.sweep(["unknown"]).unblocked == 2 * BLOCKED_PER_TURN


def test_claims_are_in_one_order_over_all_queues(store: PostgresStore) -> None:
    """Priority, then the due time, then the id, wherever they are queued, and behind rows that only get moved aside."""
    clock = store.clock
    assert isinstance(clock, FakeClock)
    asked = []
    for number in range(40):
        name = "unknown" if number % 4 == 0 else "work"
        asked.append(make_new_job(name, queue=f"q{number % 3}", priority=number % 2, delay=timedelta(seconds=(number * 7) % 10)))
    store.enqueue(asked)
    clock.advance(20)
    expected = sorted((job for job in asked if job.type == "work"), key=lambda job: (-job.priority, job.delay, job.id))
    claimed: list[str] = []
    for slots in (1, 2, 3, 5, 40):
        claims = store.turn(demand=Demand(lease_owner="host:1:one", slots=slots, types=DEMAND.types)).claims
        claimed += [taken.id for taken in claims]
    assert claimed == [job.id for job in expected]


def test_a_claim_passes_over_blocked_rows_that_others_hold(store: PostgresStore, connection: psycopg.Connection[Any]) -> None:
    """And says that they are there, so that the worker comes back for them."""
    held, free = (make_new_job("work", priority=priority) for priority in (1, 0))
    store.enqueue([held, free])
    store.turn(demand=Demand(lease_owner="host:1:one", slots=1, types={"other": timedelta(seconds=60)}))
    asked = Demand(lease_owner="host:1:one", slots=1, types=DEMAND.types, unblocks=True)
    with connection.transaction(force_rollback=True):
        connection.execute("SET LOCAL lock_timeout = '1s'")
        connection.execute(f'SELECT FROM "{store.schema}".jobs WHERE id = %s FOR UPDATE', [held.id])
        turn = store.turn(demand=asked)
        assert ([taken.id for taken in turn.claims], turn.leaves_blocked) == ([free.id], True)
    assert [taken.id for taken in store.turn(demand=asked).claims] == [held.id]


def test_only_what_waits_for_its_type_is_unblocked(store: PostgresStore, connection: psycopg.Connection[Any]) -> None:
    """A row that waits for something else is nobody's to free who knows its type."""
    (asked,) = store.enqueue([make_new_job("work")])
    connection.execute(f"UPDATE \"{store.schema}\".jobs SET blocked_by = 'breaker'".encode())
    for queues in ((), ("default",)):
        turn = store.turn(demand=Demand(lease_owner="host:1:one", slots=2, types=DEMAND.types, queues=queues, unblocks=True))
        assert (turn.claims, turn.leaves_blocked) == ((), False)
    assert store.get(asked.id).blocked_by == "breaker"


def test_a_claim_passes_over_rows_that_others_hold(store: PostgresStore, connection: psycopg.Connection[Any]) -> None:
    """An application's open transaction on the first rows must not stop workers, nor cost them their place in the batch."""
    asked = [make_new_job() for _ in range(5)]
    store.enqueue(asked)
    with connection.transaction(force_rollback=True):
        for job in asked[:2]:
            connection.execute(f'SELECT FROM "{store.schema}".jobs WHERE id = %s FOR UPDATE', [job.id])
        claims = store.turn(demand=Demand(lease_owner="host:1:one", slots=2, types=DEMAND.types)).claims
    assert [taken.id for taken in claims] == [job.id for job in asked[2:4]]


@pytest.mark.parametrize(
    ("name", "asked", "index"),
    [
        ("run_out", {"now": "2026-01-01Z", "too_far": "2026-01-03Z"}, "jobs_running"),
        ("held", {"lease_owner": ""}, "jobs_running"),
        ("cancel_requested", {"lease_owner": ""}, "jobs_running"),
        ("past_expiry", {"now": "2026-01-01Z", "limit": 1}, "jobs_expiring"),
        ("unblock", {"types": '["a"]', "now": "2026-01-01Z", "limit": 1}, "jobs_blocked"),
        ("unblock_first", {"types": '["a"]', "queues": None, "now": "2026-01-01Z", "most": 1, "limit": 1}, "jobs_blocked"),
        ("unblock_first", {"types": '["a"]', "queues": '["q"]', "now": "2026-01-01Z", "most": 1, "limit": 1}, "jobs_blocked"),
        ("finished", {"status": "completed", "since": "2024-01-01Z", "age": 1.0, "now": None, "limit": 1}, "jobs_final"),
        ("prune", {"status": "completed", "upto": "2025-01-01Z", "ids": "[]", "relaxed": True}, "jobs_pkey"),
        ("prune_keys", {"now": "2026-01-01Z", "limit": 1}, "keys_expiring"),
        ("settle", {"rows": "[]", "now": "2026-01-01Z"}, "jobs_pkey|jobs_running"),
        ("complete", {"rows": "[]", "now": "2026-01-01Z"}, "jobs_pkey|jobs_running"),
        ("renew", {"rows": "[]", "now": "2026-01-01Z"}, "jobs_pkey|jobs_running"),
        ("begin_isolated", {"rows": "[]", "now": "2026-01-01Z"}, "jobs_pkey|jobs_running"),
        ("lose", {"rows": "[]", "now": "2026-01-01Z"}, "jobs_pkey|jobs_running"),
        ("let_first", {"reason": "limit", "keys": '["a"]', "now": "2026-01-01Z"}, "jobs_behind"),
        ("let", {"reason": "breaker", "key": "a", "limit": 3, "now": "2026-01-01Z"}, "jobs_behind"),
        ("keys_behind", {"reason": "serial", "after": "", "limit": 3}, "jobs_behind"),
        ("count_behind", {"reason": "serial", "keys": '["a"]', "most": 3}, "jobs_behind"),
        ("running_of_keys", {"keys": '["a"]'}, "jobs_under_limit|jobs_running"),
        ("lines", {"ids": '["a"]', "now": "2026-01-01Z"}, "jobs_in_line"),
        ("idle_lines", {"keys": '["a"]'}, "jobs_in_line"),
        ("ripe", {"limit": 3, "now": "2026-01-01Z"}, "breakers_retry"),
        ("next_ripe", {"after": "2026-01-01Z"}, "limits_check"),
        ("let_next", {"keys": '["a"]', "now": "2026-01-01Z"}, "jobs_in_line"),
        ("first_types", {"reason": "limit", "keys": '["a"]'}, "jobs_behind"),
        ("due_types", {"queue": "a", "now": "2026-01-01Z", "limit": 9}, "jobs_claim"),
        ("blocked_counts", {"limit": 9}, "jobs_blocked"),
        ("dead_types", {"limit": 9}, "jobs_final"),
        ("running_types", {}, "jobs_running"),
        ("dead_letters", {"at": None, "id": None, "types": None, "queues": '["a"]', "limit": 9}, "jobs_final"),
        ("dead_letters", {"at": "2026-01-01Z", "id": "a", "types": None, "queues": None, "limit": 9}, "jobs_final.*\n.*finished_at <="),
    ],
)
def test_each_statement_uses_its_index(
    store: PostgresStore, connection: psycopg.Connection[Any], name: str, asked: dict[str, object], index: str
) -> None:
    """A predicate that no longer matches its partial index word for word would scan the table without an error."""
    connection.execute("SET enable_seqscan = off")
    rows = connection.execute("EXPLAIN " + pyformat(StatementText(store.schema, notify=True).raw[name]), asked).fetchall()  # type: ignore[arg-type]
    plan = "\n".join(row[0] for row in rows)
    assert re.search(index, plan), plan
    assert "Seq Scan on jobs" not in plan


def test_a_look_at_finished_jobs_begins_where_the_last_one_ended(store: PostgresStore, connection: psycopg.Connection[Any]) -> None:
    """Both ends are conditions of the index: a million kept rows in front of the first are not read."""
    asked = {"status": "completed", "since": "2024-01-01Z", "age": 1.0, "now": None, "limit": 1}
    connection.execute("SET enable_seqscan = off")
    connection.execute("SET enable_bitmapscan = off")
    rows = connection.execute("EXPLAIN " + pyformat(StatementText(store.schema, notify=True).raw["finished"]), asked).fetchall()  # type: ignore[arg-type]
    plan = "\n".join(row[0] for row in rows)
    assert "Index Scan using jobs_final" in plan, plan
    assert re.search(r"Index Cond: .*status = 'completed'.*finished_at >= .*finished_at <= ", plan), plan
    assert "Sort" not in plan, plan


@pytest.mark.parametrize(("relaxed", "level"), [(True, "off"), (False, "on")])
def test_only_a_pruner_need_not_wait_for_the_disk(
    store: PostgresStore, connection: psycopg.Connection[Any], relaxed: bool, level: str
) -> None:
    """A row that comes back after a crash goes once more. What a person prunes is gone for good."""
    (asked,) = store.enqueue([make_new_job()])
    connection.execute(f"UPDATE \"{store.schema}\".jobs SET status = 'completed', finished_at = now()".encode())
    given = {"status": "completed", "upto": "9000-01-01Z", "ids": f'["{asked.id}"]', "relaxed": relaxed}
    connection.execute("SET synchronous_commit = on")
    with connection.transaction():
        rows = connection.execute(pyformat(StatementText(store.schema, notify=True).raw["prune"]), given).fetchall()  # type: ignore[arg-type]
        assert connection.execute("SHOW synchronous_commit").fetchone() == (level,)
    assert [row[0] for row in rows] == [asked.id]
    assert connection.execute("SHOW synchronous_commit").fetchone() == ("on",)
