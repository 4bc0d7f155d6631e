"""What a claim costs on SQLite must not depend on what cannot run."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from onward.clock import FakeClock
from onward.drivers.sql.rows import write_instant
from onward.drivers.sql.statements import run
from onward.drivers.sql.turn import turn
from onward.drivers.sqlite.claim import READ_AT_ONCE, claim
from onward.drivers.sqlite.driver import SQLiteStore
from onward.errors import StoreUnavailable
from onward.inspection import JobFilter, Retention
from onward.status import Status
from onward.testing.factories import make_new_job
from onward.turn import BLOCKED_PER_TURN, Demand

MANY = 100_000
DEMAND = Demand(lease_owner="host:1:one", slots=10, types={"work": timedelta(seconds=60)}, queues=("default",))

SEED = """
INSERT INTO onward_jobs (id, type, queue, priority, status, payload, payload_hash, scheduled_at, max_attempts, created_at, updated_at,
    finished_at)
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :many)
SELECT printf('%s%021d', :label, i), :type, 'default', :priority, :status, 'null', 'x', :scheduled_at, 3,
    '2025-01-01T00:00:00.000000Z', '2025-01-01T00:00:00.000000Z', :finished_at
FROM n
"""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SQLiteStore]:
    store = SQLiteStore(tmp_path / "jobs.db", clock=FakeClock())
    store.open()
    yield store
    store.close()


def seed(store: SQLiteStore, label: str, **columns: object) -> None:
    asked = {"type": "work", "priority": 0, "status": "queued", "scheduled_at": "2025-06-01T00:00:00.000000Z", "finished_at": None}
    connection = sqlite3.connect(store.path)
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute(SEED, asked | {"label": label, "many": MANY} | columns)
    connection.commit()
    connection.close()


def steps_of_a_claim(store: SQLiteStore, demand: Demand = DEMAND) -> int:
    """Count every step of SQLite's virtual machine in one turn, and undo it."""
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    connection = sqlite3.connect(store.path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    connection.set_progress_handler(count, 1)
    done = run(connection.cursor(), store.statements, turn((), demand, store.clock.now(), claim))
    connection.set_progress_handler(None, 1)
    connection.execute("ROLLBACK")
    connection.close()
    assert len(done.claims) == 5
    return steps


@pytest.mark.parametrize("fields", [{"type": "unknown"}, {"expires": timedelta(seconds=1)}], ids=["unknown", "expired"])
def test_what_only_gets_moved_aside_is_read_many_rows_at_once(store: SQLiteStore, fields: dict[str, Any]) -> None:
    """However few slots there are: the write lock is held meanwhile."""
    store.enqueue([make_new_job(priority=1, **fields) for _ in range(200)])
    store.enqueue([make_new_job()])
    store.clock.advance(1)  # type: ignore[attr-defined]
    looks: list[str] = []

    class Told(dict[str, str]):
        def __getitem__(self, name: str) -> str:
            looks.append(name)
            return super().__getitem__(name)

    one = Demand(lease_owner=DEMAND.lease_owner, slots=1, types=DEMAND.types)
    with closing(sqlite3.connect(store.path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        done = run(connection.cursor(), Told(store.statements), turn((), one, store.clock.now(), claim))
    assert (len(done.claims), looks.count("due")) == (1, 3)


def test_a_claim_walks_past_nothing_that_cannot_run(store: SQLiteStore) -> None:
    """Future, finished and unknown rows, all in front of the due ones: at most 1.2 times the steps of the empty table."""
    every_queue = Demand(lease_owner=DEMAND.lease_owner, slots=10, types=DEMAND.types)
    store.enqueue([make_new_job() for _ in range(5)])
    alone = [steps_of_a_claim(store, demand) for demand in (DEMAND, every_queue)]
    assert min(alone) > 100

    seed(store, "00000", scheduled_at="2099-01-01T00:00:00.000000Z")
    seed(store, "00001", status="completed", priority=100, finished_at="2025-06-01T00:00:00.000000Z")
    seed(store, "00002", type="unknown")
    blocking = Demand(lease_owner="host:1:two", slots=0, types=DEMAND.types)
    for _ in range(MANY // BLOCKED_PER_TURN):
        assert store.turn(demand=blocking).claims == ()
    crowded = [steps_of_a_claim(store, demand) for demand in (DEMAND, every_queue)]
    assert [steps <= 1.2 * before for steps, before in zip(crowded, alone, strict=True)] == [True, True], (alone, crowded)


def test_unknown_types_are_moved_aside_a_thousand_at_a_time(store: SQLiteStore) -> None:
    """One turn must not hold the write lock for a hundred thousand rows; the due time stays, and no try is spent."""
    store.enqueue([make_new_job("unknown", priority=1) for _ in range(BLOCKED_PER_TURN + 1)])
    (known,) = store.enqueue([make_new_job()])
    first = store.turn(demand=DEMAND)
    assert (first.claims, first.next_due) == ((), timedelta(0))
    blocked = [job for job in store.find(JobFilter(types=("unknown",)), limit=2000) if job.blocked_by == "type"]
    assert len(blocked) == BLOCKED_PER_TURN
    assert {(job.attempts, job.fence, job.status) for job in blocked} == {(0, 0, Status.QUEUED)}
    second = store.turn(demand=DEMAND)
    assert [claim.id for claim in second.claims] == [known.id]
    assert second.next_due is None
    assert store.sweep(["unknown"]).unblocked == BLOCKED_PER_TURN + 1


def test_claims_are_in_one_order_over_all_queues(store: SQLiteStore) -> None:
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
        claimed += [claim.id for claim in claims]
    assert claimed == [job.id for job in expected]


@pytest.mark.parametrize(
    ("name", "asked", "index"),
    [
        ("due", {"queue": "q", "priority": 0, "now": "", "limit": 1}, "onward_jobs_claim"),
        ("run_out", {"now": "", "too_far": ""}, "onward_jobs_running"),
        ("held", {"lease_owner": ""}, "onward_jobs_running"),
        ("past_expiry", {"now": "", "limit": 1}, "onward_jobs_expiring"),
        ("unblock", {"types": "[]", "now": "", "limit": 1}, "onward_jobs_blocked"),
        ("any_blocked", {"types": "[]", "queues": None}, "onward_jobs_blocked (blocked_by=? AND type=?)"),
        ("any_blocked", {"types": "[]", "queues": "[]"}, "onward_jobs_blocked (blocked_by=? AND type=? AND queue=?)"),
        ("unblock_first", {"types": "[]", "queues": None, "now": "", "most": 1, "limit": 1}, "(blocked_by=? AND type=?)"),
        ("unblock_first", {"types": "[]", "queues": "[]", "now": "", "most": 1, "limit": 1}, "(blocked_by=? AND type=? AND queue=?)"),
        (
            "finished",
            {"status": "", "since": None, "before": "", "limit": 1},
            "onward_jobs_final (status=? AND finished_at>? AND finished_at<?)",
        ),
        ("prune", {"status": "", "upto": "", "ids": "[]"}, "sqlite_autoindex_onward_jobs_1"),
        ("prune_keys", {"now": "", "limit": 1}, "onward_keys_expiring"),
        ("settle", {"rows": "[]", "now": ""}, "sqlite_autoindex_onward_jobs_1"),
        ("complete", {"rows": "[]", "now": ""}, "sqlite_autoindex_onward_jobs_1"),
        ("renew", {"rows": "[]", "now": ""}, "sqlite_autoindex_onward_jobs_1"),
        ("begin_isolated", {"rows": "[]", "now": ""}, "sqlite_autoindex_onward_jobs_1"),
        ("lose", {"rows": "[]", "now": ""}, "sqlite_autoindex_onward_jobs_1"),
        ("let_first", {"reason": "", "keys": "[]", "now": ""}, "onward_jobs_behind (blocked_by=? AND <expr>=?)"),
        ("let", {"reason": "", "key": "", "limit": 1, "now": ""}, "onward_jobs_behind (blocked_by=? AND <expr>=?)"),
        ("keys_behind", {"reason": "", "after": "", "limit": 1}, "onward_jobs_behind (blocked_by=? AND <expr>>?)"),
        ("count_behind", {"reason": "", "keys": "[]", "most": 1}, "onward_jobs_behind (blocked_by=? AND <expr>=?)"),
        ("running_of_keys", {"keys": "[]"}, "onward_jobs_under_limit (concurrency_key=?)"),
        ("lines", {"ids": "[]", "now": ""}, "(serial_key=? AND <expr>=? AND status=? AND priority=? AND scheduled_at<?)"),
        ("idle_lines", {"keys": "[]"}, "onward_jobs_in_line (serial_key=? AND <expr>=? AND status=?)"),
        ("breaker_states", {"keys": "[]"}, "onward_breakers USING PRIMARY KEY"),
        ("dead_letters", {"at": "", "id": "", "types": None, "queues": None, "limit": 1}, "onward_jobs_final (status=? AND finished_at<?)"),
    ],
)
def test_each_statement_uses_its_index(store: SQLiteStore, name: str, asked: dict[str, object], index: str) -> None:
    """A predicate that no longer matches its partial index word for word would scan the table without an error."""
    connection = sqlite3.connect(store.path)
    plan = [row[3] for row in connection.execute("EXPLAIN QUERY PLAN " + store.statements[name], asked)]
    connection.close()
    assert any(index in step for step in plan), plan
    assert not any(step.startswith("SCAN onward_") and "INDEX" not in step for step in plan), plan


def test_a_prune_deletes_no_more_than_it_was_told(store: SQLiteStore) -> None:
    """Small batches: other writers wait meanwhile."""
    seed(store, "00000", many=1000, status="completed", finished_at="2025-06-01T00:00:00.000000Z")
    assert store.prune(Retention(), limit=250) == 250
    assert store.count(JobFilter()) == 750


def test_a_look_at_finished_jobs_begins_where_the_last_one_ended(store: SQLiteStore) -> None:
    """A million kept rows in front are not read: SQLite counts the steps of what it runs."""
    seed(store, "00000", many=2000, status="completed", finished_at="2025-06-01T00:00:00.000000Z")
    seed(store, "10000", many=5, status="completed", finished_at="2025-06-02T00:00:00.000000Z")
    steps = []
    with closing(sqlite3.connect(store.path)) as connection:
        for since in (None, "2025-06-02T00:00:00.000000Z"):
            taken: list[None] = []
            connection.set_progress_handler(lambda: taken.append(None), 10)  # noqa: B023 - used at once
            asked = {"status": "completed", "since": since, "before": "2026-01-01T00:00:00.000000Z", "limit": 10_000}
            rows = connection.execute(store.statements["finished"], asked).fetchall()
            steps.append((len(rows), len(taken)))
    assert [found for found, _ in steps] == [2005, 5]
    assert steps[1][1] * 50 < steps[0][1]


def test_only_what_waits_for_its_type_is_unblocked(store: SQLiteStore) -> None:
    """A row that waits for something else is nobody's to free who knows its type."""
    (asked,) = store.enqueue([make_new_job("work")])
    with closing(sqlite3.connect(store.path)) as connection, connection:
        connection.execute("UPDATE onward_jobs SET blocked_by = 'breaker'")
    for queues in ((), ("default",)):
        turn = store.turn(demand=Demand(lease_owner="host:1:one", slots=2, types=DEMAND.types, queues=queues, unblocks=True))
        assert (turn.claims, turn.leaves_blocked) == ((), False)
    assert store.get(asked.id).blocked_by == "breaker"


def test_a_claimed_job_is_the_one_that_can_be_read(store: SQLiteStore) -> None:
    """A claim reads its rows as one JSON text, everybody else reads them as rows."""
    awkward = {"text": 'é"\\\\ \x01 \U0001f600', "numbers": [1e300, -0.5, 12345678901234567890]}
    store.enqueue([make_new_job(payload=awkward, owner="o'\"\\\\", isolated=True), make_new_job(expires=timedelta(hours=1))])
    claims = store.turn(demand=DEMAND).claims
    assert len(claims) == 2
    assert [one.job for one in claims] == [store.get(one.id) for one in claims]
    assert {type(one.job.isolated) for one in claims} == {bool}


@pytest.mark.parametrize("value", [b"{}", b"\xff"], ids=["bytes", "bytes that are no text"])
def test_bytes_in_a_row_do_not_hold_up_its_neighbours(store: SQLiteStore, value: bytes) -> None:
    """They have no form in JSON, so that the quick way to read claims fails as a whole."""
    good, bad = store.enqueue([make_new_job(type="work"), make_new_job(type="work")])
    with closing(sqlite3.connect(store.path)) as connection, connection:
        connection.execute("UPDATE onward_jobs SET metadata = ? WHERE id = ?", (value, bad.id))
    assert [one.id for one in store.turn(demand=DEMAND).claims] == [good.id]
    with closing(sqlite3.connect(store.path)) as connection:
        assert connection.execute("SELECT status FROM onward_jobs WHERE id = ?", (bad.id,)).fetchone() == ("dead_letter",)


def test_many_claims_are_read_in_pieces(store: SQLiteStore) -> None:
    """One text for all of them could be longer than SQLite or the memory holds."""
    accepted = store.enqueue([make_new_job(type="work") for _ in range(2 * READ_AT_ONCE + 1)])
    many = Demand(lease_owner="host:1:one", slots=len(accepted), types=DEMAND.types)
    assert {one.id for one in store.turn(demand=many).claims} == {one.id for one in accepted}


def change_behind_the_index(store: SQLiteStore, job_id: str, **columns: object) -> None:
    """Leave the entry of a row in the index of what is due as it is while the row changes."""
    with closing(sqlite3.connect(store.path, isolation_level=None)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        where = "WHERE name = 'onward_jobs_claim'"
        index = connection.execute(f"SELECT * FROM sqlite_master {where}").fetchone()
        connection.execute(f"DELETE FROM sqlite_master {where}")
        connection.execute("PRAGMA writable_schema = RESET")
        settings = ", ".join(f"{name} = :{name}" for name in columns)
        connection.execute(f"UPDATE onward_jobs SET {settings} WHERE id = :id", columns | {"id": job_id})
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("INSERT INTO sqlite_master VALUES (?, ?, ?, ?, ?)", index)
        connection.execute("PRAGMA writable_schema = RESET")


@pytest.mark.parametrize("case", ["ours since before", "completed in this moment"])
def test_a_row_that_only_the_index_has_as_due_is_never_taken_for_a_claim(tmp_path: Path, case: str) -> None:
    """A damaged file must be told, not run from: the same run would be claimed at every turn."""
    clock = FakeClock()
    asked = make_new_job()
    store = SQLiteStore(tmp_path / "jobs.db", clock=clock)
    store.enqueue([asked])
    store.close()
    row = {"status": "in_progress", "lease_owner": DEMAND.lease_owner, "started_at": "2025-12-31T23:59:59.000000Z"}
    if case == "completed in this moment":
        row = {"status": "completed", "lease_owner": None, "started_at": write_instant(clock.now())}
    change_behind_the_index(store, asked.id, **row)
    again = SQLiteStore(tmp_path / "jobs.db", clock=clock)
    with pytest.raises(StoreUnavailable, match=r"is damaged .*does not agree"):
        again.turn(demand=DEMAND)
    assert again.get(asked.id).fence == 0
    again.close()


@pytest.mark.parametrize("queue", [b"\x99\xa8\xa5", b"", b"mail", "\udcff"], ids=["base64 of mail", "empty", "mail", "no text"])
def test_a_queue_that_is_no_text_stops_no_other(store: SQLiteStore, queue: bytes | str) -> None:
    """The table takes it; as JSON it would be taken for the name of another queue."""
    good = [store.enqueue([make_new_job(queue=name)])[0].id for name in ("mail", "default", "mail")]
    (bad,) = store.enqueue([make_new_job(queue="mail")])
    with closing(sqlite3.connect(store.path)) as connection, connection:
        stored, cast = (queue, "?") if isinstance(queue, bytes) else (queue.encode("utf-8", "surrogateescape"), "CAST(? AS TEXT)")
        connection.execute(f"UPDATE onward_jobs SET queue = {cast} WHERE id = ?", (stored, bad.id))
    every = Demand(lease_owner="host:1:one", slots=10, types=DEMAND.types)
    assert [one.id for one in store.turn(demand=every).claims] == sorted(good)
    assert store.turn(demand=every).claims == ()
    store.sweep()
    with closing(sqlite3.connect(store.path)) as connection:
        assert connection.execute("SELECT status, error FROM onward_jobs WHERE id = ?", (bad.id,)).fetchone() == (
            "dead_letter",
            "the row cannot be read: its queue is no text",
        )
        assert connection.execute("SELECT count(*) FROM onward_jobs WHERE status = 'in_progress'").fetchone() == (3,)


def test_a_priority_that_is_no_number_stops_no_other(store: SQLiteStore) -> None:
    """Only somebody who switches the table's checks off can write it."""
    good, bad = store.enqueue([make_new_job(type="work"), make_new_job(type="work")])
    with closing(sqlite3.connect(store.path)) as connection, connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.execute("UPDATE onward_jobs SET priority = CAST(? AS TEXT) WHERE id = ?", (b"\xff", bad.id))
    assert [one.id for one in store.turn(demand=DEMAND).claims] == [good.id]
