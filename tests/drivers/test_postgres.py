"""What is peculiar to the Postgres store: other transactions, its own clock, its connections."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg import sql

from onward.actions import new_action
from onward.clock import FakeClock, SystemClock
from onward.drivers import connect
from onward.drivers.postgres.database import Database
from onward.drivers.postgres.driver import MOST_HELD_UP, PostgresStore
from onward.drivers.postgres.migrate import newest
from onward.drivers.postgres.url import read_url
from onward.drivers.sql.enqueue import enqueue as enqueue_operation
from onward.drivers.sql.settle import settle
from onward.drivers.sql.statements import Statement
from onward.errors import (
    DuplicateJob,
    InvalidSetting,
    JobNotFound,
    NoTransaction,
    OutcomeUnknown,
    StoreBusy,
    StoreUnavailable,
    TransactionOpen,
)
from onward.inspection import JobFilter, Retention
from onward.jobs import Accepted, NewJob
from onward.outcome import Cancelled, Completed, Retried
from onward.rollups import Tally
from onward.status import Status
from onward.testing.conformance.steps import claim, claim_one, demand, enqueue, read, start_alone, until_it_waits
from onward.testing.factories import make_new_job
from onward.turn import Extended, Extension, Settlement, Swept
from tests.tcp_proxy import BOTH, TO_CLIENT, TcpProxy

MINUTE = timedelta(minutes=1)


class SkewedClock(SystemClock):
    """The clock of a host that is wrong."""

    def __init__(self, by: timedelta) -> None:
        self._by = by

    def now(self) -> datetime:
        return super().now() + self._by


@pytest.fixture
def url(emptied_postgres: Callable[[str], str]) -> str:
    return emptied_postgres("postgres")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def open_store(url: str) -> Iterator[Callable[..., PostgresStore]]:
    """Make stores over the same tables, and close them."""
    made: list[PostgresStore] = []

    def make(clock: Any = None, **options: Any) -> PostgresStore:
        conninfo, known = read_url(url)
        made.append(PostgresStore(conninfo, clock=clock or SystemClock(), migrate=True, **(known | options)))
        return made[-1]

    yield make
    for store in made:
        store.close()


@pytest.fixture
def store(open_store: Callable[..., PostgresStore], clock: FakeClock) -> PostgresStore:
    return open_store(clock)


@contextmanager
def application(url: str, **options: Any) -> Iterator[psycopg.Connection[Any]]:
    """A transaction of somebody else's, rolled back at the end."""
    with psycopg.connect(read_url(url)[0]) as connection:
        yield connection
        connection.rollback()


def in_thread(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


# -- other transactions ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("claims_too", [True, False])
def test_an_open_transaction_on_a_running_job_holds_up_no_neighbour(store: PostgresStore, url: str, claims_too: bool) -> None:
    """Somebody cancels a job in a long transaction: only that job's outcome waits, and new work is claimed meanwhile."""
    held, free, waiting = (enqueue(store, priority=priority) for priority in (9, 8, 7))
    claims = {taken.id: taken for taken in claim(store, 2)}
    settlements = [Settlement(claim=claims[job.id], outcome=Completed()) for job in (held, free)]
    with application(url) as connection:
        store.within(connection).cancel(held.id)
        turn = store.turn(settlements, demand(5) if claims_too else None)
        assert [one.claim.id for one in turn.settled] == [free.id]
        assert [one.claim.id for one in turn.held_up] == [held.id]
        assert turn.lost == ()
        assert [taken.id for taken in turn.claims] == [waiting.id] * claims_too
    again = store.turn(turn.held_up)
    assert [one.claim.id for one in again.settled] == [held.id]
    assert read(store, held).status is Status.COMPLETED


def test_whoever_is_free_behind_some_that_are_held_up_is_settled(store: PostgresStore, url: str) -> None:
    """Only so many in a row, with nobody free among them, say that it is not worth asking for the others."""
    jobs = [enqueue(store, priority=priority) for priority in range(6, 0, -1)]
    claims = {taken.id: taken for taken in claim(store, 6)}
    held = [job.id for number, job in enumerate(jobs) if number % 3 < MOST_HELD_UP - 1]
    with application(url) as connection:
        connection.execute(f'SELECT FROM "{store.schema}".jobs WHERE id = ANY (%s) FOR UPDATE', [held])
        turn = store.turn([Settlement(claim=claims[job.id], outcome=Completed()) for job in jobs])
    assert [one.claim.id for one in turn.held_up] == held
    assert [one.claim.id for one in turn.settled] == [jobs[2].id, jobs[5].id]


def test_tables_that_a_newer_release_has_migrated_are_the_same_store(store: PostgresStore, url: str) -> None:
    """Its record of versions has one more row, and workers of both run beside each other."""
    store.open()
    with application(url) as connection:
        connection.execute(f'INSERT INTO "{store.schema}".schema_version VALUES ({newest() + 1}, now(), 1)'.encode())
        assert store.within(connection).enqueue([make_new_job()])[0].is_new


def test_a_person_who_asks_to_cancel_while_the_ending_is_stored_waits_for_it(store: PostgresStore) -> None:
    """Else the answer would be that the running job was asked to stop, and it would wait for its next try all the same."""
    job = enqueue(store)
    ended = Settlement(claim=claim_one(store), outcome=Retried(MINUTE, "no"))
    person = threading.Thread(target=store.cancel, args=(job.id,), daemon=True)

    def store_with_a_person_in_between(connection: Any, now: datetime) -> None:
        operation = settle([ended], now)
        with suppress(StopIteration):
            wanted = next(operation)
            while True:
                rows = store._database.run_on(connection, wanted)
                if isinstance(wanted, Statement) and wanted.name == "asked_to_cancel":
                    person.start()
                    until_it_waits(person)
                    assert person.is_alive(), "the look does not hold the row"
                wanted = operation.send(rows)

    store._database.transact(store_with_a_person_in_between)
    person.join()
    assert read(store, job).status is Status.CANCELLED


def test_a_request_that_waits_for_a_key_holds_none_that_comes_behind_it(
    store: PostgresStore, clock: FakeClock, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys are taken in one order by all, those too that were lost in the last moment: else two requests could wait for each other."""
    monkeypatch.setattr("onward.drivers.sql.enqueue.TOGETHER_FROM", 1)
    store.enqueue([make_new_job(key="a", scope=MINUTE)])
    clock.advance(2 * MINUTE)
    asked = [make_new_job(key=key, scope=MINUTE) for key in "bac"]
    answers: list[Accepted] = []

    def store_with_another_in_between(connection: Any, now: datetime) -> None:
        operation = enqueue_operation(asked, now)
        wanted = next(operation)
        try:
            while True:
                rows = store._database.run_on(connection, wanted)
                if isinstance(wanted, Statement) and wanted.name == "take_keys":
                    store.within(first).enqueue([make_new_job(key="a")])
                wanted = operation.send(rows)
        except StopIteration as end:
            answers.extend(end.value)

    with application(url) as first, application(url) as second:
        waiting = in_thread(lambda: store._database.transact(store_with_another_in_between))
        until_it_waits(waiting)
        assert waiting.is_alive()
        second.execute("SET lock_timeout = '2s'")
        assert [one.is_new for key in "bc" for one in store.within(second).enqueue([make_new_job(key=key)])] == [True, True]
        second.rollback()
        first.rollback()
        waiting.join()
    assert [one.id for one in answers] == [job.id for job in asked]


def test_a_job_that_is_due_later_never_takes_the_place_of_one_that_another_holds(store: PostgresStore, url: str) -> None:
    """A claim passes over what is held, to what comes next; but what comes next must be due."""
    held, later = enqueue(store), enqueue(store, delay=MINUTE)
    with application(url) as connection:
        store.within(connection).cancel(held.id)
        turn = store.turn(demand=demand(2))
        assert turn.claims == ()
    assert read(store, later).status is Status.QUEUED
    assert claim_one(store).id == held.id


def test_a_child_whose_key_somebody_is_taking_holds_up_no_neighbour(store: PostgresStore, url: str) -> None:
    """The key is taken in a transaction that has not ended, so nobody knows yet whose job it will be."""
    parent, free = enqueue(store, priority=9), enqueue(store)
    claims = {taken.id: taken for taken in claim(store, 2)}
    child = make_new_job(key="k")
    settlements = [
        Settlement(claim=claims[parent.id], outcome=Completed(), children=(child,)),
        Settlement(claim=claims[free.id], outcome=Completed()),
    ]
    with application(url) as connection:
        store.within(connection).enqueue([make_new_job(key="k")])
        turn = store.turn(settlements)
        assert ([one.claim.id for one in turn.settled], [one.claim.id for one in turn.held_up]) == ([free.id], [parent.id])
    assert [one.claim.id for one in store.turn(turn.held_up).settled] == [parent.id]
    assert read(store, child).status is Status.QUEUED


def test_a_heartbeat_does_not_wait_for_a_row_that_is_held(store: PostgresStore, clock: FakeClock, url: str) -> None:
    """A handler inside ctx.transaction() holds its row; its worker's other leases must be renewed all the same."""
    for _ in range(2):
        enqueue(store)
    mine, other = claim(store, 2)
    with application(url) as connection:
        store.within(connection).confirm(mine)
        clock.advance(10)
        assert store.extend([Extension(mine), Extension(other)]).lost == frozenset()
        assert store.get(other.id).lease_until == clock.now() + other.lease
        clock.advance(3600)
        swept = store.sweep()
        assert [job.id for job in swept.requeued] == [other.id]  # and the held one cannot be taken while it is held
    assert [job.id for job in store.sweep().requeued] == [mine.id]


@pytest.mark.parametrize("renews", [True, False], ids=["alive", "dead"])
def test_a_sweep_lets_the_worker_of_a_row_that_was_held_come_first(store: PostgresStore, clock: FakeClock, url: str, renews: bool) -> None:
    """Held for longer than its lease, by a stranger or by the handler's own transaction that was rolled back, a job looks abandoned."""
    enqueue(store)
    mine = claim_one(store)
    patience = timedelta(seconds=3)
    with application(url) as connection:
        connection.execute(f'SELECT FROM "{store.schema}".jobs WHERE id = %s FOR UPDATE', [mine.id])
        clock.advance(mine.lease + timedelta(seconds=1))
        assert store.extend([Extension(mine)]).held_up == {mine.id}
        for _ in range(2):  # what is held does not begin to count
            assert store.sweep(patience=patience) == Swept()
            clock.advance(60)
    first = store.sweep(patience=patience)
    assert (first.requeued, first.suspected) == ((), 1)
    clock.advance(1)
    if renews:
        assert store.extend([Extension(mine)]) == Extended()
    assert store.sweep(patience=patience).suspected == (0 if renews else 1)
    clock.advance(2)
    assert [job.id for job in store.sweep(patience=patience).requeued] == ([] if renews else [mine.id])


def test_a_claim_that_nobody_has_held_is_taken_at_the_first_look(store: PostgresStore, clock: FakeClock) -> None:
    """The worker is dead, and whoever sweeps may be a short process that looks only once."""
    enqueue(store)
    mine = claim_one(store)
    clock.advance(mine.lease + timedelta(seconds=1))
    assert [job.id for job in store.sweep(patience=timedelta(seconds=3)).requeued] == [mine.id]


def test_a_duplicate_in_an_open_transaction_does_not_hold_the_key(store: PostgresStore, url: str) -> None:
    """The end of the holder's job frees its key; it must not wait for the transaction of whoever asked for the key in vain."""
    first = enqueue(store, key="k")
    taken = claim_one(store)
    with application(url) as connection:
        (answer,) = store.within(connection).enqueue([make_new_job(key="k")])
        assert (answer.id, answer.is_new) == (first.id, False)
        turn = store.turn([Settlement(claim=taken, outcome=Completed())])
        assert len(turn.settled) == 1
    assert store.enqueue([make_new_job(key="k")])[0].is_new


def test_turns_that_wait_for_each_other_are_tried_again(open_store: Callable[..., PostgresStore]) -> None:
    """Two workers whose jobs end and whose children take the other's key: Postgres stops one of them, and it begins anew."""
    stores = [open_store() for _ in range(2)]
    for round_ in range(5):
        keys = [f"a{round_}", f"b{round_}"]
        for key in keys:
            enqueue(stores[0], key=key)
        claims = [claim_one(store, owner=f"host:{number}:x") for number, store in enumerate(stores)]
        barrier, settled = threading.Barrier(2), []

        def end(store: PostgresStore, taken: Any, barrier: threading.Barrier = barrier, settled: list[int] = settled) -> None:
            others = [make_new_job(key=key) for key in keys if key != taken.job.idempotency_key]  # noqa: B023 - joined below
            barrier.wait(10)
            settlement = Settlement(claim=taken, outcome=Completed(), children=tuple(others))
            turn = store.turn([settlement])
            while turn.held_up:
                turn = store.turn(turn.held_up)
            settled.append(len(turn.settled))

        threads = [in_thread(lambda one=one, taken=taken: end(one, taken)) for one, taken in zip(stores, claims, strict=True)]  # type: ignore[misc]
        for thread in threads:
            thread.join(60)
        assert settled == [1, 1]
        for job in stores[0].find(JobFilter(statuses=(Status.QUEUED,))):
            stores[0].cancel(job.id)


def test_a_role_that_asks_for_serializable_loses_nothing(open_store: Callable[..., PostgresStore], url: str) -> None:
    """The isolation level is said where it matters, and a serialization failure elsewhere is tried again."""
    role = "onward_test_serializable"
    with psycopg.connect(read_url(url)[0], autocommit=True) as connection:
        connection.execute(sql.SQL("DROP ROLE IF EXISTS {}").format(sql.Identifier(role)))
        connection.execute(sql.SQL("CREATE ROLE {} LOGIN SUPERUSER").format(sql.Identifier(role)))
        connection.execute(sql.SQL("ALTER ROLE {} SET default_transaction_isolation = 'serializable'").format(sql.Identifier(role)))
    parts = read_url(url)
    store = PostgresStore(_as_role(parts[0], role), clock=SystemClock(), migrate=True, **parts[1])
    try:
        store.enqueue([make_new_job() for _ in range(40)])
        claimed: list[str] = []

        def work(owner: str) -> None:
            while turn := store.turn(demand=demand(3, owner=owner)).claims:
                store.turn([Settlement(claim=taken, outcome=Completed()) for taken in turn])
                claimed.extend(taken.id for taken in turn)

        threads = [in_thread(lambda owner=f"host:{number}:x": work(owner)) for number in range(4)]  # type: ignore[misc]
        for thread in threads:
            thread.join(60)
        assert len(claimed) == len(set(claimed)) == 40
        assert store.count(JobFilter(statuses=(Status.COMPLETED,))) == 40
    finally:
        store.close()
        with psycopg.connect(read_url(url)[0], autocommit=True) as connection:
            connection.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role)))


def _as_role(conninfo: str, role: str) -> str:
    scheme, _, rest = conninfo.partition("://")
    return f"{scheme}://{role}@{rest.rpartition('@')[2]}"


# -- time --------------------------------------------------------------------------------------------------------------


def test_the_database_decides_what_time_it_is(open_store: Callable[..., PostgresStore]) -> None:
    """Hosts whose clocks are ten minutes off steal no leases, start nothing early, and delay nothing."""
    fast, slow = open_store(SkewedClock(10 * MINUTE)), open_store(SkewedClock(-10 * MINUTE))
    (now,), (later,) = slow.enqueue([make_new_job()]), fast.enqueue([make_new_job(delay=MINUTE)])
    assert abs(slow.get(now.id).created_at - datetime.now(UTC)) < MINUTE
    (taken,) = fast.turn(demand=demand(5)).claims
    assert taken.id == now.id
    assert slow.sweep().requeued == fast.sweep().requeued == ()
    assert fast.extend([Extension(taken)]).lost == frozenset()
    found = slow.turn(demand=demand(5))
    assert found.claims == ()
    assert found.next_due is not None
    assert timedelta(0) < found.next_due <= MINUTE
    assert fast.get(later.id).scheduled_at > datetime.now(UTC)


def test_a_retry_is_due_by_the_database_clock(open_store: Callable[..., PostgresStore]) -> None:
    """Outcomes carry durations; the store makes them instants."""
    store = open_store(SkewedClock(10 * MINUTE))
    asked = enqueue(store)
    store.turn([Settlement(claim=claim_one(store), outcome=Retried(5 * MINUTE, "boom"))])
    assert timedelta(minutes=4) < read(store, asked).scheduled_at - datetime.now(UTC) <= 5 * MINUTE


# -- connections -------------------------------------------------------------------------------------------------------


def test_a_connection_that_the_server_ended_is_replaced(store: PostgresStore, url: str) -> None:
    """After a restart of the server the first call of each verb works; nobody has to try again."""
    store.enqueue([make_new_job()])
    _end_others(url)
    assert store.count(JobFilter()) == 1
    _end_others(url)
    store.enqueue([make_new_job()])
    _end_others(url)
    with store.transaction() as connection:
        store.within(connection).enqueue([make_new_job()])
    assert store.count(JobFilter()) == 3


def _end_others(url: str) -> None:
    with psycopg.connect(read_url(url)[0], autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
            "AND pid <> pg_backend_pid() AND application_name = 'onward'"
        )


@pytest.mark.parametrize(
    "act",
    [
        lambda store: store.enqueue([make_new_job()]),
        lambda store: store.enqueue([make_new_job(key="k")]),
        lambda store: store.find(JobFilter()),
    ],
    ids=["an enqueue", "an enqueue with a key", "a look"],
)
def test_all_connections_in_use_is_told_with_what_to_do(
    open_store: Callable[..., PostgresStore], act: Callable[[PostgresStore], object]
) -> None:
    """A transaction that never ends must not look like a database that hangs."""
    store = open_store(connections=1, timeout=timedelta(milliseconds=50))
    with store.transaction():
        seen: list[Exception] = []

        def other() -> None:
            try:
                act(store)
            except StoreBusy as error:
                seen.append(error)

        in_thread(other).join(30)
        assert "connections=20" in str(seen[0])
        claimed: list[object] = []
        in_thread(lambda: claimed.append(store.turn(demand=demand()))).join(30)
        assert len(claimed) == 1  # a worker's turn is not kept out by the application


def test_a_child_process_leaves_the_parent_its_connections(store: PostgresStore) -> None:
    """Two processes on one connection would read each other's answers."""
    store.enqueue([make_new_job()])
    pid = os.fork()
    if pid == 0:
        try:
            store.enqueue([make_new_job()])
            store.close()
            os._exit(0 if store.count(JobFilter()) == 2 else 1)
        except BaseException:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert store.count(JobFilter()) == 2


def test_a_lost_key_is_waited_for_no_longer_than_the_timeout(open_store: Callable[..., PostgresStore], url: str) -> None:
    """An enqueue of the store's own waits for the transaction that has the key, and says so when that does not end."""
    store = open_store(timeout=timedelta(milliseconds=100))
    with application(url) as connection:
        store.within(connection).enqueue([make_new_job(key="k")])
        with pytest.raises(StoreBusy, match="lock_timeout"):
            store.enqueue([make_new_job(key="k")])
    assert store.enqueue([make_new_job(key="k")])[0].is_new


def test_an_id_that_an_open_transaction_has_stored_holds_up_no_neighbour(open_store: Callable[..., PostgresStore], url: str) -> None:
    """Requests that share a commit would all wait for it, and the store's timeout is long."""
    store = open_store(timeout=timedelta(hours=1))
    taken, others = make_new_job(), [make_new_job() for _ in range(3)]
    with application(url) as connection:
        store.within(connection).enqueue([taken])
        answers = store.enqueue_each([[others[0]], [taken, others[1]], [others[2]]])
        assert [isinstance(answer, StoreBusy) for answer in answers] == [False, True, False]
        assert {job.id for job in store.find(JobFilter(), limit=10)} == {others[0].id, others[2].id}
    assert store.enqueue([taken])[0].is_new


@pytest.mark.parametrize("directions", [BOTH, (TO_CLIENT,)], ids=["both ways", "no answers"])
def test_a_server_that_is_silent_at_the_first_look_is_told(url: str, directions: tuple[str, ...]) -> None:
    """The connection stands, and nothing ever comes through it: no call of an application may hang on that."""
    with TcpProxy.before(url) as proxy:
        proxy.silence(*directions)
        conninfo, known = read_url(proxy.through(url))
        store = PostgresStore(conninfo, clock=SystemClock(), migrate=True, **(known | {"timeout": timedelta(milliseconds=300)}))
        with pytest.raises(StoreUnavailable):
            store.enqueue([make_new_job()])
        proxy.restore()
        store.enqueue([make_new_job()])
        store.close()


def test_the_same_id_from_two_callers_at_once_is_one_job(open_store: Callable[..., PostgresStore]) -> None:
    """Repeating a request whose answer was lost may overtake the request itself."""
    store = open_store()
    for _ in range(20):
        asked, answers, barrier = make_new_job(), [], threading.Barrier(4)

        def again(asked: NewJob = asked, answers: list[Any] = answers, barrier: threading.Barrier = barrier) -> None:
            barrier.wait(10)
            answers.extend(store.enqueue([asked]))

        threads = [in_thread(again) for _ in range(4)]
        for thread in threads:
            thread.join(60)
        assert sorted(answer.is_new for answer in answers) == [False, False, False, True]


def test_a_request_that_is_refused_disturbs_no_neighbour(store: PostgresStore) -> None:
    """Requests that share a commit do not know of each other."""
    first = enqueue(store, key="k")
    fine, also = make_new_job(), make_new_job()
    answers = store.enqueue_each([[fine], [make_new_job(key="k", on_duplicate="raise")], [also]])
    assert isinstance(answers[1], DuplicateJob)
    assert [read(store, job).status for job in (first, fine, also)] == [Status.QUEUED] * 3


def test_a_request_that_is_refused_waits_for_no_key_behind_the_refusal(store: PostgresStore) -> None:
    """Somebody's open transaction takes that key; the request would end as busy, and is refused whatever becomes of it."""
    enqueue(store, key="held")
    with psycopg.connect(read_url(store.url)[0]) as connection:
        store.within(connection).enqueue([make_new_job(key="open")])
        with pytest.raises(DuplicateJob, match="held"):
            store.enqueue([make_new_job(key="held", on_duplicate="raise"), make_new_job(key="open")])
        connection.rollback()


def test_the_verbs_refuse_a_thread_that_is_inside_a_transaction(store: PostgresStore) -> None:
    """It would use another connection, and could wait for itself."""
    with store.transaction(), pytest.raises(TransactionOpen, match="within=connection"):
        store.enqueue([make_new_job()])


def test_a_cancelled_job_of_a_transaction_may_be_ended_by_its_worker(store: PostgresStore) -> None:
    """What a person asked for before is seen by the settlement, whichever commits first."""
    asked = enqueue(store)
    taken = claim_one(store)
    store.cancel(asked.id)
    store.turn([Settlement(claim=taken, outcome=Retried(MINUTE, "boom"))])
    assert read(store, asked).status is Status.CANCELLED
    assert Cancelled  # the outcome that it stands for


def test_one_bulk_enqueue_notifies_once(open_store: Callable[..., PostgresStore], url: str) -> None:
    """A notification for each row would be a lock that all commits share, held a thousand times; and none is sent for what is far off."""
    store = open_store()
    store.open()
    with psycopg.connect(read_url(url)[0], autocommit=True) as connection:
        connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(store.schema)))
        store.enqueue([make_new_job() for _ in range(1000)])
        store.enqueue([make_new_job(delay=MINUTE)])
        store.enqueue([make_new_job(queue="far", at=store.clock.now() + 2 * MINUTE)])
        taken = claim_one(store)
        store.turn([Settlement(claim=taken, outcome=Completed())])
        store.enqueue([make_new_job(queue="last")])
        heard = []
        for notification in connection.notifies(timeout=10):
            heard.append(notification.payload)
            if notification.payload == "last":
                break
    assert heard == ["default", "last"]


# -- the URL -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "conninfo", "options"),
    [
        ("postgresql://me@host/db", "postgresql://me@host/db", {}),
        ("postgres://me@host:6432/db?sslmode=require", "postgresql://me@host:6432/db?sslmode=require", {}),
        ("postgresql+asyncpg://me@host/db?schema=jobs", "postgresql://me@host/db", {"schema": "jobs"}),
        (
            "postgresql:///db?host=/run/postgresql&timeout=2s",
            "postgresql:///db?host=%2Frun%2Fpostgresql",
            {"timeout": timedelta(seconds=2)},
        ),
        (
            "postgresql://h/d?connections=3&notify=off&prepare=on",
            "postgresql://h/d",
            {"connections": 3, "notify": False, "prepare": True},
        ),
    ],
)
def test_a_url_is_libpqs_and_ours(given: str, conninfo: str, options: dict[str, object]) -> None:
    """What is not ours goes to libpq as it is."""
    assert read_url(given) == (conninfo, options)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("postgresql+pg8000://h/d", "names a driver"),
        ("postgresql://h/d?schema=a-b", "schema must be"),
        ("postgresql://h/d?timeout=0", "at least a millisecond"),
        ("postgresql://h/d?timeout=soon", "timeout"),
        ("postgresql://h/d?connections=0", "from 1 to 1000"),
        ("postgresql://h/d?notify=yes", "on or off"),
        ("postgresql://me:secret@h/d#x", "#"),
        ("postgresql://me:se/secret@h/d", "percent-encoded"),
        ("postgresql://me:se#secret@h/d", "percent-encoded"),
        ("postgresql://me:se@secret@h/d", "percent-encoded"),
    ],
)
def test_a_url_that_cannot_be_is_told_without_its_password(given: str, told: str) -> None:
    """A mistyped URL ends up in a log."""
    with pytest.raises(InvalidSetting, match=told) as caught:
        connect(given, clock=SystemClock())
    assert "secret" not in str(caught.value)


def test_another_process_of_ours_is_given_the_whole_url() -> None:
    """The supervisor takes back a dead worker's jobs with it: without the password it could not."""
    given = "postgresql://me:secret@127.0.0.1:1/db?schema=jobs&prepare=off&timeout=1s"
    store = connect(given, clock=SystemClock())
    assert (store.whole_url, store.url) == (given, "postgresql://me@127.0.0.1:1/db?schema=jobs")


def test_what_is_printed_of_a_url_has_no_password() -> None:
    """It stands in logs, in doctor's answer and in errors."""
    store = connect("postgresql://me:secret@127.0.0.1:1/db?password=secret&schema=jobs", clock=SystemClock())
    assert store.url == "postgresql://me@127.0.0.1:1/db?schema=jobs"
    with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1:1") as caught:
        store.enqueue([make_new_job()])
    assert "secret" not in str(caught.value)
    store.close()


# -- what is in the way ------------------------------------------------------------------------------------------------


def test_rows_that_others_hold_do_not_hide_the_free_ones_behind_them(store: PostgresStore, url: str) -> None:
    """An application's transaction on the most urgent jobs, as many as there are slots and more: the others run meanwhile."""
    urgent = [enqueue(store, priority=9) for _ in range(30)]
    free = [enqueue(store) for _ in range(3)]
    with application(url) as connection:
        for job in urgent:
            store.within(connection).cancel(job.id)
        assert [taken.id for taken in claim(store, 3)] == [job.id for job in free]
        assert claim(store, 3) == ()


def test_many_expired_jobs_do_not_delay_a_good_one(store: PostgresStore, clock: FakeClock, url: str) -> None:
    """A worker that was off over night finds thousands: each turn ends a bounded number of them."""
    store.enqueue([make_new_job(expires=MINUTE) for _ in range(2500)])
    clock.advance(3600)
    good = enqueue(store, priority=9)
    turn = store.turn(demand=demand(4))
    assert [taken.id for taken in turn.claims] == [good.id]
    assert 0 < len(turn.expired) <= 1000 + 4
    assert turn.next_due == timedelta(0)
    while turn.next_due == timedelta(0):
        turn = store.turn(demand=demand(4))
    assert store.count(JobFilter(statuses=(Status.CANCELLED,))) == 2500


def test_claims_are_kept_when_what_is_in_their_way_cannot_be_moved(store: PostgresStore, clock: FakeClock, url: str) -> None:
    """They are committed: a turn that raised would leave them to their leases."""
    late, good = enqueue(store, key="k", expires=MINUTE), enqueue(store, priority=-1)
    clock.advance(3600)
    with application(url) as connection:
        connection.execute(sql.SQL("SELECT FROM {} FOR UPDATE").format(sql.Identifier(store.schema, "keys")))
        turn = store.turn(demand=demand(5))
        assert [taken.id for taken in turn.claims] == [good.id]
        assert read(store, late).status is Status.QUEUED
    assert [job.id for job in store.turn(demand=demand(5)).expired] == [late.id]


def test_what_a_transaction_sets_for_the_session_ends_with_it(store: PostgresStore) -> None:
    """The next user of the connection may be a worker's turn: with another role or no right to write it would fail for ever."""
    with store.transaction() as connection:
        connection.execute("SET default_transaction_read_only = on")
        connection.execute("SET statement_timeout = '1ms'")
        connection.execute("SELECT pg_advisory_lock(4711)")
    store.enqueue([make_new_job()])
    with store.transaction() as connection:
        assert connection.execute("SHOW statement_timeout").fetchone() == ("0",)
        assert connection.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 4711").fetchone() == (0,)


def test_a_heartbeat_says_which_leases_it_could_not_renew(store: PostgresStore, url: str) -> None:
    """So that it tries them again soon, and not only when the next renewal would be due."""
    enqueue(store)
    taken = claim_one(store)
    with application(url) as connection:
        store.within(connection).confirm(taken)
        assert store.extend([Extension(taken)]).held_up == {taken.id}
    assert store.extend([Extension(taken)]).held_up == frozenset()


def test_a_heartbeat_tells_of_nobody_elses_claims(store: PostgresStore, url: str) -> None:
    """Of three that run, with the same fence, two are asked about and one of these is held. One that was taken over since is lost."""
    for _ in range(4):
        enqueue(store)
    held, free, _other, old = claim(store, 4)
    store.turn([Settlement(claim=old, outcome=Retried(timedelta(0), "boom"))])
    new = claim_one(store)
    assert new.id == old.id
    with application(url) as connection:
        for one in (held, new):
            store.within(connection).confirm(one)
        told = store.extend([Extension(held), Extension(free), Extension(old)])
        assert (told.held_up, told.lost) == ({held.id}, {old.id})


def test_one_row_that_was_held_tells_nothing_of_another(store: PostgresStore, clock: FakeClock, url: str) -> None:
    """Only the claim whose row somebody has held may still be alive: the others are taken back at once, each once."""
    for _ in range(3):
        enqueue(store)
    held, *others = claim(store, 3)
    start_alone(store, others[0])  # which writes the row anew, without locking it before
    with application(url) as connection:
        store.within(connection).confirm(held)
    clock.advance(held.lease + timedelta(seconds=1))
    swept = store.sweep(patience=timedelta(seconds=3))
    assert ([job.id for job in swept.requeued], swept.suspected) == ([taken.id for taken in others], 1)


def test_a_row_that_somebody_takes_between_a_look_and_its_tidying_is_left_to_them(
    store: PostgresStore, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The look lets go of what it cannot run, and the turn must not wait for whoever comes in between."""
    held, free = enqueue(store), enqueue(store)
    write = store._database.write
    with application(url) as connection:

        def after_another(*asked: Any, **how: Any) -> Any:
            connection.execute(f'SELECT FROM "{store.schema}".jobs WHERE id = %s FOR UPDATE', [held.id])
            return write(*asked, **how)

        monkeypatch.setattr(store._database, "write", after_another)
        assert store.turn(demand=demand(types=("another",))).claims == ()
        assert [read(store, job).blocked_by for job in (held, free)] == [None, "type"]


def test_a_sweep_passes_over_an_expired_job_that_somebody_holds(store: PostgresStore, clock: FakeClock, url: str) -> None:
    """It waits for nobody, and the next one finds it."""
    held, free = (enqueue(store, expires=MINUTE) for _ in range(2))
    clock.advance(MINUTE)
    with application(url) as connection:
        connection.execute(f'SELECT FROM "{store.schema}".jobs WHERE id = %s FOR UPDATE', [held.id])
        assert [job.id for job in store.sweep().expired] == [free.id]
    assert [job.id for job in store.sweep().expired] == [held.id]


def test_a_sweep_passes_over_a_blocked_job_that_somebody_holds(store: PostgresStore, url: str) -> None:
    """That it may run now is known again at the next one."""
    held, free = enqueue(store), enqueue(store)
    assert store.turn(demand=demand(types=("another",))).blocked == 2
    with application(url) as connection:
        connection.execute(f'SELECT FROM "{store.schema}".jobs WHERE id = %s FOR UPDATE', [held.id])
        assert store.sweep(["work"]).unblocked == 1
        assert read(store, free).blocked_by is None
    assert store.sweep(["work"]).unblocked == 1


@pytest.mark.parametrize("queues", [(), ("default",)])
def test_what_is_blocked_for_another_reason_stays_blocked(store: PostgresStore, url: str, queues: tuple[str, ...]) -> None:
    """That this worker knows its type is no news then."""
    job = enqueue(store)
    with application(url) as connection:
        connection.execute(f"UPDATE \"{store.schema}\".jobs SET blocked_by = 'breaker'")
        connection.commit()
    assert store.turn(demand=demand(types=("work",), queues=queues, unblocks=True)).claims == ()
    assert store.sweep(["work"]).unblocked == 0
    assert read(store, job).blocked_by == "breaker"


def test_rollups_that_somebody_holds_are_left_where_they_are(open_store: Callable[..., PostgresStore], clock: FakeClock, url: str) -> None:
    """Those beside them are merged all the same, and nobody waits."""
    store = open_store(clock, timeout=timedelta(milliseconds=100))
    for name in ("held", "one", "other"):
        enqueue(store)
        store.turn([Settlement(claim=claim_one(store), outcome=Completed())], tally=Tally(name))
    began = clock.now()
    clock.advance(600)
    with application(url) as connection:
        connection.execute(f"SELECT FROM \"{store.schema}\".rollups WHERE worker = 'held' FOR UPDATE")
        store.prune(Retention())
        counts = {one.worker: one.count for one in store.rollups(began)}
        assert counts.pop("held") == 1
        assert list(counts.values()) == [2]


def test_a_claim_that_was_given_up_does_not_happen_later(
    open_store: Callable[..., PostgresStore], url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table lock (ALTER TABLE, VACUUM FULL) outlasts the worker's patience: its claim must not take jobs when the lock is let go."""
    monkeypatch.setattr("onward.drivers.postgres.database.ANSWER_WITHIN", 0.5)
    store = open_store(timeout=timedelta(milliseconds=100))
    enqueue(store)
    with application(url) as connection:
        connection.execute(sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(sql.Identifier(store.schema, "jobs")))
        with pytest.raises((OutcomeUnknown, StoreBusy)):
            store.turn(demand=demand())
        _wait_until_nobody_waits(connection)
    assert store.count(JobFilter(statuses=(Status.QUEUED,))) == 1


def _wait_until_nobody_waits(connection: psycopg.Connection[Any]) -> None:
    until = time.monotonic() + 20
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    while connection.execute(waiting).fetchone() != (0,):
        assert time.monotonic() < until
        time.sleep(0.02)


def test_a_queue_with_an_endless_name_stops_no_sweep(store: PostgresStore, clock: FakeClock, url: str) -> None:
    """Somebody wrote it by hand; a notification that long would be an error."""
    bad, good = enqueue(store), enqueue(store)
    claim(store, 2)
    with psycopg.connect(read_url(url)[0], autocommit=True) as connection:
        table = sql.Identifier(store.schema, "jobs")
        connection.execute(sql.SQL("UPDATE {} SET queue = repeat('q', 9000) WHERE id = %s").format(table), [bad.id])
    clock.advance(3600)
    assert {job.id for job in store.sweep().requeued} == {bad.id, good.id}


# -- connections that are used again -----------------------------------------------------------------------------------


def backends(url: str) -> set[int]:
    """The server's processes that serve this store."""
    with psycopg.connect(read_url(url)[0], autocommit=True) as connection:
        found = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'onward'"
        return {pid for (pid,) in connection.execute(found)}


def test_many_transactions_of_an_application_share_one_connection(store: PostgresStore, url: str) -> None:
    """What is cleared between them must not take away what psycopg has prepared: from the sixth use on it names its statements."""
    with store.transaction():
        pass
    before = backends(url)
    for _ in range(60):
        with store.transaction() as connection:
            store.within(connection).enqueue([make_new_job()])
    assert store.count(JobFilter()) == 60
    assert backends(url) == before


def test_an_application_may_repeat_its_statements_in_a_transaction(store: PostgresStore) -> None:
    """From the sixth time on they are prepared, as those of the store itself are on the same session."""
    for _ in range(10):
        store.enqueue([make_new_job()])
    for prepare in (None, True):
        with store.transaction() as connection:
            for number in range(12):
                assert connection.execute("SELECT %s::int", [number], prepare=prepare).fetchone() == (number,)
            store.within(connection).enqueue([make_new_job()])
        store.enqueue([make_new_job()])
    assert store.count(JobFilter()) == 14


def test_a_refusal_costs_no_connection(store: PostgresStore, url: str) -> None:
    """Whoever can cause refusals could have the server start a process for each."""
    asked = enqueue(store, key="k")
    before = backends(url)
    for _ in range(20):
        with pytest.raises(JobNotFound):
            store.get("no such job")
        with pytest.raises(DuplicateJob):
            store.enqueue([make_new_job(key="k", on_duplicate="raise")])
        with pytest.raises(ZeroDivisionError), store.transaction() as connection:  # noqa: PT012 - a transaction is its block
            store.within(connection).cancel(asked.id)
            _ = 1 / 0
    assert backends(url) == before
    assert read(store, asked).status is Status.QUEUED


def test_a_child_forked_inside_a_transaction_leaves_it_to_its_parent(store: PostgresStore) -> None:
    """A child that ends there must not end the parent's session with it."""
    with store.transaction() as connection:
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                store.within(connection).enqueue([make_new_job()])
            except NoTransaction:
                code = 0
            os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        store.within(connection).enqueue([make_new_job()])
    _leave_in_a_child(store)
    assert store.count(JobFilter()) == 2


def _leave_in_a_child(store: PostgresStore) -> None:
    """A child leaves the block by an exception; its parent goes on inside it."""
    pid = 0
    try:
        with store.transaction() as connection:
            pid = os.fork()
            if pid == 0:
                raise InterruptedError
            os.waitpid(pid, 0)
            store.within(connection).enqueue([make_new_job()])
    except InterruptedError:
        os._exit(0)


def test_a_claim_in_doubt_is_looked_up(store: PostgresStore, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commit of what was moved aside, and of claims beside it, got no answer: the worker asks what it holds."""
    enqueue(store, key="late", expires=MINUTE)
    clock.advance(3600)
    good = enqueue(store)

    def lose(self: Database, connection: Any, ids: Any) -> None:
        raise OutcomeUnknown("the answer was lost")

    with monkeypatch.context() as patched:
        patched.setattr(Database, "_commit", lose)
        with pytest.raises(OutcomeUnknown):
            store.turn(demand=demand(5))
    assert store.held(demand().lease_owner)[0].id == good.id


def test_one_that_somebody_holds_does_not_hold_up_the_others(store: PostgresStore, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many that are cancelled together; it is told, and the next try gets it."""
    monkeypatch.setattr("onward.drivers.postgres.people.TURN_WAITS", 0.05)
    jobs = [enqueue(store) for _ in range(5)]
    action = new_action("cancel", JobFilter(), actor="ada", matched=5)
    store.begin_action(action)
    with application(url) as connection:
        connection.execute(f'SELECT FROM "{store.schema}".jobs WHERE id = %s FOR UPDATE', [jobs[2].id])
        acted = store.act("cancel", [job.id for job in jobs], action=action.id)
    assert set(acted.done) == {job.id for job in jobs} - {jobs[2].id}
    assert "is held by somebody else's transaction: try again" in acted.refused[jobs[2].id]
    assert [(one.done, one.refused) for one in store.actions()] == [(4, 1)]
    assert store.act("cancel", [jobs[2].id]).done == (jobs[2].id,)


def test_a_look_that_meets_a_locked_table_is_refused_and_leaves_nothing_behind(
    store: PostgresStore, clock: FakeClock, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits no longer than a turn may, and the next look is as good as any."""
    job = enqueue(store, delay=MINUTE)
    monkeypatch.setattr("onward.drivers.postgres.driver.TURN_WAITS", 0.05)
    for _ in range(10):  # on the way, psycopg begins to prepare the statements
        assert store.turn(demand=demand(3)).claims == ()
        with application(url) as connection:
            connection.execute(f'LOCK TABLE "{store.schema}".jobs')
            with pytest.raises(StoreBusy, match="lock_timeout"):
                store.turn(demand=demand(3))
    clock.advance(60)
    with store.transaction() as given:
        settings = "concat_ws(' ', current_setting('lock_timeout'), current_setting('plan_cache_mode'), current_setting('enable_seqscan'))"
        assert given.execute(f"SELECT {settings}").fetchone() == ("5s auto on",)
    assert [one.id for one in store.turn(demand=demand(3)).claims] == [job.id]


def test_outcomes_that_are_held_up_do_not_hold_up_their_turn(store: PostgresStore, url: str) -> None:
    """Some dozens behind one open transaction: the turn tries a few of them and keeps the others for later."""
    jobs = [enqueue(store) for _ in range(40)]
    settlements = [Settlement(claim=taken, outcome=Completed()) for taken in claim(store, 40)]
    tried = []
    original = PostgresStore._settle

    def count(self: PostgresStore, *arguments: Any) -> Any:
        tried.append(1)
        return original(self, *arguments)

    with application(url) as connection, pytest.MonkeyPatch.context() as patched:
        patched.setattr(PostgresStore, "_settle", count)
        for job in jobs[1:]:
            store.within(connection).cancel(job.id)
        turn = store.turn(settlements)
        assert [one.claim.id for one in turn.settled] == [jobs[0].id]
        assert len(turn.held_up) == 39
    assert len(tried) < 10
