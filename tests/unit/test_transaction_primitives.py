"""The safety primitives: change and job together, start once, see only one's own, and what an error means."""

from __future__ import annotations

import asyncio
import errno
import http.client
import logging
import smtplib
import socket
import sqlite3
import ssl
import threading
import urllib.error
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, closing, nullcontext, suppress
from pathlib import Path
from typing import Any

import aiosqlite
import httpx
import psycopg
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, sessionmaker

from onward.app import Onward
from onward.clock import FakeClock
from onward.definition import define_job
from onward.drivers.memory import MemoryStore
from onward.drivers.postgres.url import read_url
from onward.errors import (
    DuplicateJob,
    IllegalTransition,
    InvalidDefinition,
    InvalidPayload,
    JobNotFound,
    OutcomeUnknown,
    PermanentJobError,
    StoreBusy,
    TransientJobError,
)
from onward.jobs import Accepted, NewJob
from onward.reasons import CANCELLED, FAILED, LONGEST_REASON, public_reason
from onward.retry import CONNECTION_ERRORS, RetryPolicy, is_connection_error
from onward.status import Status
from onward.testing import drain, make_job
from onward.transaction import awith_transactional_state_and_enqueue, with_transactional_state_and_enqueue
from tests.acceptance.test_one_key import answers_of, start

CALLERS = 50
LONGEST = 20


def generate(episode: int) -> None:
    if episode == 404:
        raise PermanentJobError("The voice does not speak this script.")


generation = define_job("generate", generate, key=str)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Onward]:
    if request.param == "postgres":
        url = request.getfixturevalue("emptied_postgres")("postgres")
    else:
        url = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/jobs.db"}[request.param]
    with Onward(url, jobs=[generation], clock=FakeClock(), migrate=request.param == "postgres") as app:
        app.store.open()
        yield app


@pytest.fixture
def books(tmp_path: Path) -> Iterator[Onward]:
    """An application on SQLite with a table of its own beside the jobs."""
    with Onward(f"sqlite:///{tmp_path}/jobs.db", jobs=[generation]) as app:
        with app.transaction() as connection:
            connection.execute("CREATE TABLE episodes (id INTEGER, state TEXT)")
            connection.execute("INSERT INTO episodes VALUES (7, 'draft')")
        yield app


def state(app: Onward) -> str:
    with app.transaction() as connection:
        ((found,),) = connection.execute("SELECT state FROM episodes WHERE id = 7").fetchall()
    return str(found)


def begin(connection: Any) -> int:
    connection.execute("UPDATE episodes SET state = 'generating' WHERE id = 7")
    return 7


def give_nothing(_: int) -> NewJob:
    return None  # type: ignore[return-value]  # the mistake that is tested


def give_what_cannot_be_stored(episode: int) -> NewJob:
    return generation.new_job(str(episode))  # type: ignore[arg-type]  # the mistake that is tested


def fail(_: int) -> NewJob:
    raise LookupError("no such voice")


def enqueue_by_itself(app: Onward) -> Callable[[int], Any]:
    return lambda episode: app.enqueue(generation, episode)


class Elsewhere:
    """State in another place than the jobs, which no transaction can reach; its undo fails as often as it is told to."""

    def __init__(self, failures: int = 0) -> None:
        self.state = "draft"
        self.failures = failures
        self.undone: list[int] = []

    def begin(self, connection: None) -> int:
        assert connection is None
        self.state = "generating"
        return 7

    def undo(self, episode: int) -> None:
        self.undone.append(episode)
        if len(self.undone) <= self.failures:
            raise ConnectionError("the other database is away")
        self.state = "draft"

    async def abegin(self, connection: None) -> int:
        return self.begin(connection)

    async def aundo(self, episode: int) -> None:
        self.undo(episode)


class LosesAnswers(MemoryStore):
    """A store whose first commits end without an answer; whether they stored the jobs is known only to it."""

    def __init__(self, *, unknown: int, stores: bool, afterwards: Exception | None = None) -> None:
        super().__init__(clock=FakeClock())
        self.unknown = unknown
        self.stores = stores
        self.afterwards = afterwards
        self.asked: list[str] = []

    def enqueue_each(self, requests: Sequence[Sequence[NewJob]]) -> list[list[Accepted] | Exception]:
        self.asked += [job.id for jobs in requests for job in jobs]
        if len(self.asked) > self.unknown:
            if self.afterwards is not None:
                raise self.afterwards
            return super().enqueue_each(requests)
        if self.stores:
            super().enqueue_each(requests)
        raise OutcomeUnknown("the connection broke in the commit", job_ids=(self.asked[-1],))


# -- change and job, in one transaction ------------------------------------------------------------------------------


def test_a_change_and_its_job_are_one_commit(books: Onward) -> None:
    """The enqueue learns from the change which job it is, and the connection is the transaction's."""
    handle = with_transactional_state_and_enqueue(books, begin, generation.new_job, transaction=books.transaction())
    assert handle.is_new
    assert handle.refresh().payload == "7"
    assert state(books) == "generating"


@pytest.mark.parametrize("enqueue", [fail, give_nothing])
def test_an_enqueue_that_fails_or_gives_no_job_leaves_neither(books: Onward, enqueue: Callable[[int], NewJob]) -> None:
    """The second is the classic slip: the state says that something is being done, and nobody was asked to do it."""
    with pytest.raises((LookupError, InvalidDefinition)):
        with_transactional_state_and_enqueue(books, begin, enqueue, transaction=books.transaction())
    assert state(books) == "draft"
    assert books.find() == []


def test_a_change_that_fails_leaves_no_job(books: Onward) -> None:
    """Its job would work on something that is not there."""
    with pytest.raises(sqlite3.OperationalError):
        with_transactional_state_and_enqueue(
            books, lambda connection: connection.execute("UPDATE nowhere SET a = 1"), generation.new_job, transaction=books.transaction()
        )
    assert books.find() == []


def test_a_callers_own_transaction_carries_both_and_takes_both_back(books: Onward, tmp_path: Path) -> None:
    """``within=`` means the same as at an enqueue: the caller commits, or does not."""
    with closing(sqlite3.connect(tmp_path / "jobs.db", isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = FULL")
        for end, jobs, expected in (("ROLLBACK", 0, "draft"), ("COMMIT", 1, "generating")):
            connection.execute("BEGIN IMMEDIATE")
            with_transactional_state_and_enqueue(books, begin, generation.new_job, within=connection)
            connection.execute(end)
            assert len(books.find()) == jobs
            assert state(books) == expected


def test_nothing_is_compensated_where_a_transaction_takes_the_change_back(books: Onward) -> None:
    """One call serves both; undoing what was never there could undo somebody else's change."""
    other = Elsewhere()
    with pytest.raises(LookupError):
        with_transactional_state_and_enqueue(books, begin, fail, other.undo, transaction=books.transaction())
    assert other.undone == []


def test_the_async_twin_joins_a_transaction_that_is_awaited(books: Onward, tmp_path: Path) -> None:
    """Both colours take the same steps; here over aiosqlite, committed and rolled back."""

    @asynccontextmanager
    async def writing() -> AsyncIterator[aiosqlite.Connection]:
        async with aiosqlite.connect(tmp_path / "jobs.db", isolation_level=None) as connection:
            await connection.execute("PRAGMA synchronous = FULL")
            await connection.execute("BEGIN IMMEDIATE")
            yield connection
            await connection.execute("COMMIT")

    async def change(connection: aiosqlite.Connection) -> int:
        await connection.execute("UPDATE episodes SET state = 'generating' WHERE id = 7")
        return 7

    with pytest.raises(LookupError):
        asyncio.run(awith_transactional_state_and_enqueue(books, change, fail, transaction=writing()))
    assert (state(books), books.find()) == ("draft", [])
    handle = asyncio.run(awith_transactional_state_and_enqueue(books, change, generation.new_job, transaction=writing()))
    assert (state(books), [job.id for job in books.find()]) == ("generating", [handle.id])


def sqlalchemy_url(tmp_path: Path, driver: str) -> str:
    return f"sqlite+{driver}:///{tmp_path}/jobs.db"


def set_up_engine(engine: sqlalchemy.Engine) -> None:
    """SQLite as SQLAlchemy's documentation says: the driver begins nothing, the engine does."""

    @sqlalchemy.event.listens_for(engine, "connect")
    def connected(connection: Any, _: object) -> None:
        connection.isolation_level = None
        connection.execute("PRAGMA synchronous = FULL")

    @sqlalchemy.event.listens_for(engine, "begin")
    def begun(connection: sqlalchemy.Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")


GENERATING = sqlalchemy.text("UPDATE episodes SET state = 'generating' WHERE id = 7")


@pytest.mark.parametrize(("enqueue", "left"), [(generation.new_job, ("generating", 1)), (fail, ("draft", 0))])
def test_a_session_maker_gives_the_transaction(
    books: Onward, tmp_path: Path, enqueue: Callable[[int], NewJob], left: tuple[str, int]
) -> None:
    """What most web applications have; ``begin()`` gives the session, and commits at its end."""
    engine = sqlalchemy.create_engine(sqlalchemy_url(tmp_path, "pysqlite"))
    set_up_engine(engine)

    def change(session: Session) -> int:
        session.execute(GENERATING)
        return 7

    with suppress(LookupError):
        with_transactional_state_and_enqueue(books, change, enqueue, transaction=sessionmaker(engine).begin())
    engine.dispose()
    assert (state(books), len(books.find())) == left


@pytest.mark.parametrize(("enqueue", "left"), [(generation.new_job, ("generating", 1)), (fail, ("draft", 0))])
def test_an_async_session_maker_gives_the_transaction(
    books: Onward, tmp_path: Path, enqueue: Callable[[int], NewJob], left: tuple[str, int]
) -> None:
    """As above, in an async web handler."""

    async def change(session: AsyncSession) -> int:
        await session.execute(GENERATING)
        return 7

    async def handle() -> None:
        engine = create_async_engine(sqlalchemy_url(tmp_path, "aiosqlite"))
        set_up_engine(engine.sync_engine)
        with suppress(LookupError):
            await awith_transactional_state_and_enqueue(books, change, enqueue, transaction=async_sessionmaker(engine).begin())
        await engine.dispose()

    asyncio.run(handle())
    assert (state(books), len(books.find())) == left


@pytest.mark.parametrize(("enqueue", "left"), [(generation.new_job, 1), (fail, 0)])
def test_a_connection_that_commits_at_the_end_of_its_block_gives_the_transaction(
    emptied_postgres: Callable[[str], str], enqueue: Callable[[int], NewJob], left: int
) -> None:
    """As ``psycopg.connect`` and a pool's ``connection()`` do."""
    url = emptied_postgres("postgres")
    with Onward(url, jobs=[generation], migrate=True) as app:
        app.store.open()

        def change(connection: psycopg.Connection[Any]) -> int:
            connection.execute("CREATE TEMPORARY TABLE seen (id integer) ON COMMIT DROP")
            return 7

        with suppress(LookupError):
            with_transactional_state_and_enqueue(app, change, enqueue, transaction=psycopg.connect(read_url(url)[0]))
        assert len(app.find()) == left


# -- change and job, where no transaction can hold both --------------------------------------------------------------


def test_without_a_transaction_a_change_is_kept_when_its_job_is_accepted(app: Onward) -> None:
    """Compensation is for failures alone."""
    other = Elsewhere()
    handle = with_transactional_state_and_enqueue(app, other.begin, generation.new_job, other.undo)
    assert (other.state, other.undone) == ("generating", [])
    assert app.get(handle.id).status is Status.QUEUED


@pytest.mark.parametrize("enqueue", [fail, give_nothing, give_what_cannot_be_stored])
def test_without_a_transaction_a_job_that_is_not_accepted_takes_the_change_back(app: Onward, enqueue: Callable[[int], NewJob]) -> None:
    """Compensated with what the change returned; the caller gets the reason, not the compensation."""
    other = Elsewhere()
    with pytest.raises((LookupError, InvalidDefinition, InvalidPayload)):
        with_transactional_state_and_enqueue(app, other.begin, enqueue, other.undo)
    assert (other.state, other.undone) == ("draft", [7])
    assert app.find() == []


def test_the_async_twin_compensates_as_well(app: Onward) -> None:
    """Also when the compensation fails at first: it is what may meet the same outage that the enqueue met."""
    other = Elsewhere(failures=1)
    with pytest.raises(LookupError):
        asyncio.run(awith_transactional_state_and_enqueue(app, other.abegin, fail, other.aundo))
    assert (other.state, other.undone) == ("draft", [7, 7])


def test_a_compensation_that_keeps_failing_is_named_with_the_error_of_the_enqueue(app: Onward, caplog: pytest.LogCaptureFixture) -> None:
    """The caller must learn both: why there is no job, and that the change stands all the same."""
    other = Elsewhere(failures=99)
    with pytest.raises(LookupError, match="no such voice") as caught, caplog.at_level(logging.ERROR, "onward"):
        with_transactional_state_and_enqueue(app, other.begin, fail, other.undo)
    (note,) = caught.value.__notes__
    assert "failed as well, 3 times, at last with ConnectionError: the other database is away" in note
    assert other.undone == [7, 7, 7]
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "the change stands, and has no job" in caplog.text


def test_a_change_that_fails_without_a_transaction_is_not_compensated(app: Onward) -> None:
    """There is nothing to undo it with: what it would have returned is not there."""
    other = Elsewhere()

    def change(_: None) -> int:
        raise LookupError("no such episode")

    with pytest.raises(LookupError, match="no such episode"):
        with_transactional_state_and_enqueue(app, change, generation.new_job, other.undo)
    assert (other.undone, app.find()) == ([], [])


def test_a_caller_that_is_cancelled_leaves_job_and_change_together(app: Onward) -> None:
    """A web server cancels the handler of a client that went away; half of the work must not stay behind."""
    other = Elsewhere()
    reached, go_on = asyncio.Event(), asyncio.Event()

    async def change(_: None) -> int:
        other.state = "generating"
        reached.set()
        await go_on.wait()
        return 7

    async def run() -> None:
        caller = asyncio.create_task(awith_transactional_state_and_enqueue(app, change, generation.new_job, other.aundo))
        await reached.wait()
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        go_on.set()
        async with asyncio.timeout(LONGEST):
            await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}))

    asyncio.run(run())
    assert (other.state, other.undone) == ("generating", [])
    assert [job.payload for job in app.find()] == ["7"]


# -- when the outcome of the enqueue is unknown ----------------------------------------------------------------------


@pytest.mark.parametrize("stores", [True, False])
def test_an_unknown_outcome_is_settled_by_asking_again_under_the_same_id(stores: bool) -> None:
    """To compensate blindly would undo the change of a job that is going to run."""
    store, other = LosesAnswers(unknown=1, stores=stores), Elsewhere()
    app = Onward(store=store, jobs=[generation])
    handle = with_transactional_state_and_enqueue(app, other.begin, generation.new_job, other.undo)
    assert store.asked == [handle.id, handle.id]
    assert [job.id for job in app.find()] == [handle.id]
    assert (other.state, other.undone) == ("generating", [])


@pytest.mark.parametrize(
    "store",
    [LosesAnswers(unknown=99, stores=True), LosesAnswers(unknown=1, stores=True, afterwards=StoreBusy("the store is busy"))],
    ids=["unknown again", "then busy"],
)
def test_what_stays_unknown_is_not_compensated_and_names_the_id(store: LosesAnswers) -> None:
    """Neither is right then, and only a person, or a later repetition, can tell."""
    other = Elsewhere()
    with pytest.raises(OutcomeUnknown) as caught:
        with_transactional_state_and_enqueue(Onward(store=store, jobs=[generation]), other.begin, generation.new_job, other.undo)
    assert caught.value.job_ids == (store.asked[0],)
    assert set(store.asked) == {store.asked[0]}
    assert "was not compensated" in caught.value.__notes__[0]
    assert (other.state, other.undone) == ("generating", [])


def test_a_refusal_after_an_unknown_outcome_is_compensated() -> None:
    """Ids are looked at before keys: who is told that another job holds the key has no job."""
    store, other = LosesAnswers(unknown=0, stores=False), Elsewhere()
    holder = store.enqueue([generation.new_job(7)])[0].id
    store.unknown = len(store.asked) + 1
    with pytest.raises(DuplicateJob) as caught:
        with_transactional_state_and_enqueue(
            Onward(store=store, jobs=[generation]), other.begin, lambda one: generation.new_job(one, on_duplicate="raise"), other.undo
        )
    assert caught.value.job_id == holder
    assert (other.state, other.undone) == ("draft", [7])


# -- what is refused -------------------------------------------------------------------------------------------------


def test_a_call_that_could_neither_roll_back_nor_compensate_changes_nothing(app: Onward) -> None:
    """It is refused before the change, not after it."""
    other = Elsewhere()
    with pytest.raises(InvalidDefinition, match="give transaction= or within="):
        with_transactional_state_and_enqueue(app, other.begin, generation.new_job)
    with pytest.raises(InvalidDefinition, match="not both"):
        with_transactional_state_and_enqueue(app, other.begin, generation.new_job, transaction=app.transaction(), within=object())
    assert other.state == "draft"


def test_an_enqueue_that_enqueues_by_itself_is_told_to_give_the_job(app: Onward) -> None:
    """Its job is accepted whatever becomes of the transaction."""
    other = Elsewhere()
    with pytest.raises(InvalidDefinition, match="outside of any transaction: give"):
        with_transactional_state_and_enqueue(app, other.begin, enqueue_by_itself(app), other.undo)


def test_async_functions_in_the_sync_call_are_refused_and_not_forgotten(app: Onward) -> None:
    """A coroutine that nobody awaits would be a change that never happens."""
    other = Elsewhere()
    with pytest.raises(InvalidDefinition, match="await awith_transactional_state_and_enqueue"):
        with_transactional_state_and_enqueue(app, other.abegin, lambda _: generation.new_job(7), compensate=None, within=object())
    assert app.find() == []


def test_a_transaction_that_gives_no_connection_is_refused(app: Onward) -> None:
    """Taken for no transaction, the job would be accepted outside of it."""
    with pytest.raises(InvalidDefinition, match="must give the connection"):
        with_transactional_state_and_enqueue(app, begin, generation.new_job, transaction=nullcontext())


# -- start once ------------------------------------------------------------------------------------------------------


def test_fifty_threads_that_start_one_thing_get_one_job(app: Onward) -> None:
    """By the key: whoever looks first and inserts afterwards is overtaken between the two."""
    barrier = threading.Barrier(CALLERS, timeout=LONGEST)
    got: list[tuple[str, bool]] = []

    def call() -> None:
        barrier.wait()
        handle = app.enqueue(generation, 7, owner="ada")
        got.append((handle.id, handle.is_new))

    threads = [threading.Thread(target=call) for _ in range(CALLERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONGEST)
    assert len(got) == CALLERS
    assert len({job_id for job_id, _ in got}) == 1
    assert [is_new for _, is_new in got].count(True) == 1
    found = app.find_active_job(generation, "7", owner="ada")
    assert found is not None
    assert found.id == got[0][0]


def test_the_job_that_fifty_processes_started_is_the_active_one(tmp_path: Path) -> None:
    """The key is in the database, so it holds across processes too."""
    lines = answers_of([start(tmp_path) for _ in range(CALLERS)])
    note = define_job("note", generate, key=str)
    with Onward(f"sqlite:///{tmp_path}/jobs.db", jobs=[note]) as app:
        found = app.find_active_job(note, "7")
        assert found is not None
        assert {job_id for job_id, _ in lines} == {found.id}


def test_a_job_is_active_until_it_is_done_with(app: Onward) -> None:
    """Queued, in progress and retrying hold the key; completed, dead and cancelled do not."""
    assert app.find_active_job(generation, "7") is None
    handle = app.enqueue(generation, 7)
    found = app.find_active_job(generation, "7")
    assert found is not None
    assert found.id == handle.id
    assert app.find_active_job(generation, "8") is None
    drain(app)
    assert app.find_active_job(generation, "7") is None


def test_a_key_belongs_to_its_owner(app: Onward) -> None:
    """Another user's job under the same key is none of one's own, and not to be seen."""
    app.enqueue(generation, 7, owner="ada")
    assert app.find_active_job(generation, "7", owner="bob") is None
    assert app.find_active_job(generation, "7") is None
    with pytest.raises(InvalidDefinition, match="leave it out"):
        app.find_active_job(generation, "7", owner=None)  # type: ignore[arg-type]  # the mistake that is tested


def test_a_job_of_an_older_name_is_found_under_the_new_one(app: Onward) -> None:
    """A deployment that renames a job must not start it a second time."""
    app.enqueue(generation, 7)
    renamed = define_job("make-audio", generate, key=str, aliases=("generate",))
    found = app.find_active_job(renamed, "7")
    assert found is not None
    assert found.type == "generate"


# -- one's own only --------------------------------------------------------------------------------------------------


def outcome(call: Callable[[], Any]) -> tuple[type[BaseException], str]:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - compared by its caller
        call()
    return type(caught.value), str(caught.value)


VERBS = ("get", "get_owned_job_or_not_found", "history", "cancel", "retry", "run_now", "delete")


@pytest.mark.parametrize("verb", VERBS)
def test_a_foreign_job_and_a_missing_one_are_the_same_error(app: Onward, verb: str) -> None:
    """Any difference in class or text tells a stranger that the job is there."""
    job_id = app.enqueue(generation, 404, owner="ada").id
    drain(app)
    foreign = outcome(lambda: getattr(app, verb)(job_id, owner="bob"))
    before = app.get(job_id)
    app.delete(job_id)
    missing = outcome(lambda: getattr(app, verb)(job_id, owner="bob"))
    assert foreign == missing
    assert foreign[0] is JobNotFound
    assert before.status is Status.DEAD_LETTER


@pytest.mark.parametrize("owner", ["", " ", None, 7])
def test_a_job_is_not_read_for_nobody(app: Onward, owner: Any) -> None:
    """An empty name means everybody elsewhere; here it is a user who is not signed in."""
    job_id = app.enqueue(generation, 7).id
    with pytest.raises(InvalidDefinition, match="owner= is who asks"):
        app.get_owned_job_or_not_found(job_id, owner)


def test_its_owner_sees_and_retries_a_failed_job_and_nobody_else_does(app: Onward) -> None:
    """The document's Retry button."""
    job_id = app.enqueue(generation, 404, owner="ada").id
    drain(app)
    assert app.get_owned_job_or_not_found(job_id, "ada").status is Status.DEAD_LETTER
    assert [attempt.outcome for attempt in app.history(job_id, owner="ada")] == ["dead_lettered"]
    with pytest.raises(JobNotFound):
        app.retry(job_id, owner="bob")
    assert app.get(job_id).status is Status.DEAD_LETTER
    assert app.retry(job_id, owner="ada").status is Status.QUEUED
    with pytest.raises(IllegalTransition):
        app.retry(job_id, owner="ada")


def test_the_twins_for_an_event_loop_do_the_same_without_holding_it_up(app: Onward) -> None:
    """A read of a busy store would stop every other request of the process."""
    job_id = app.enqueue(generation, 404, owner="ada").id
    drain(app)

    async def run() -> None:
        assert await app.aget(job_id) == app.get(job_id)
        assert await app.aget_owned_job_or_not_found(job_id, "ada") == app.get(job_id)
        with pytest.raises(JobNotFound):
            await app.aget_owned_job_or_not_found(job_id, "bob")
        assert (await app.aretry(job_id, owner="ada")).status is Status.QUEUED
        assert await app.afind_active_job(generation, "404", owner="ada") == app.get(job_id)
        assert (await app.acancel(job_id, owner="ada")).status is Status.CANCELLED

    asyncio.run(run())
    assert Onward.aretry.__name__ == "aretry"


def test_a_twin_runs_in_another_thread_than_the_loop() -> None:
    """Else it would only look as if it did not block."""
    threads: list[int] = []

    class Watched(MemoryStore):
        def get(self, job_id: str, *, owner: str | None = None) -> Any:
            threads.append(threading.get_ident())
            return super().get(job_id, owner=owner)

    app = Onward(store=Watched(clock=FakeClock()), jobs=[generation])
    job_id = app.enqueue(generation, 7).id
    asyncio.run(app.aget(job_id))
    assert threads != [threading.get_ident()]


# -- what an error means ---------------------------------------------------------------------------------------------


REQUEST = httpx.Request("GET", "http://127.0.0.1")

CONNECTION = [
    ConnectionRefusedError(),
    BrokenPipeError(),
    TimeoutError(),
    socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution"),
    OSError(errno.ENETUNREACH, "Network is unreachable"),
    OSError(errno.EHOSTUNREACH, "No route to host"),
    ssl.SSLEOFError(8, "EOF occurred in violation of protocol"),
    http.client.RemoteDisconnected("closed"),
    http.client.IncompleteRead(b"half"),
    asyncio.IncompleteReadError(b"half", 8),
    urllib.error.URLError(ConnectionRefusedError()),
    smtplib.SMTPServerDisconnected(),
    httpx.ConnectError("refused", request=REQUEST),
    httpx.ReadTimeout("too slow", request=REQUEST),
    httpx.PoolTimeout("too many", request=REQUEST),
    httpx.ReadError("reset", request=REQUEST),
    httpx.RemoteProtocolError("Server disconnected without sending a response.", request=REQUEST),
    ExceptionGroup("two", [TimeoutError(), httpx.ConnectTimeout("too slow")]),
]
OTHER = [
    ValueError("connection"),
    FileNotFoundError(errno.ENOENT, "No such file"),
    PermissionError(),
    ssl.SSLCertVerificationError(1, "certificate verify failed"),
    urllib.error.URLError("unknown url type: ftpx"),
    urllib.error.HTTPError("http://127.0.0.1", 503, "Service Unavailable", None, None),  # type: ignore[arg-type]  # no headers needed
    httpx.HTTPStatusError("503", request=REQUEST, response=httpx.Response(503)),
    httpx.UnsupportedProtocol("missing http://"),
    httpx.LocalProtocolError("a header that cannot be sent"),
    httpx.InvalidURL("no"),
    ExceptionGroup("two", [TimeoutError(), ValueError()]),
]


@pytest.mark.parametrize("error", CONNECTION, ids=repr)
def test_a_connection_error_is_worth_another_try(error: BaseException) -> None:
    """Raised by the standard library or httpx because the other side was not there, or not in time."""
    policy = RetryPolicy(transient=CONNECTION_ERRORS, on_unknown="dead_letter")
    assert policy.judge(error) == "transient"
    assert policy.allows_another_try(error, 1, 3)


@pytest.mark.parametrize("error", OTHER, ids=repr)
def test_any_other_error_is_unknown_and_ends_the_job(error: BaseException) -> None:
    """An answer, a mistake of ours or a missing file will be the same next time."""
    policy = RetryPolicy(transient=CONNECTION_ERRORS, on_unknown="dead_letter")
    assert policy.judge(error) == "unknown"
    assert not policy.allows_another_try(error, 1, 3)


def test_a_refused_connection_is_one_as_the_libraries_really_raise_it() -> None:
    """The table above is written by hand; these come from a port where nobody listens."""
    with closing(socket.socket()) as held:
        held.bind(("127.0.0.1", 0))  # bound and not listening: nobody else can begin to
        url = f"http://127.0.0.1:{held.getsockname()[1]}"
        with pytest.raises(httpx.HTTPError) as by_httpx:
            httpx.get(url, trust_env=False)
        with pytest.raises(urllib.error.URLError) as by_urllib:
            urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=LONGEST)
    assert is_connection_error(by_httpx.value)
    assert is_connection_error(by_urllib.value)


def test_an_application_adds_its_own_errors_to_the_list_and_the_named_ones_win() -> None:
    """``permanent`` is looked at first, whatever the other list says."""
    policy = RetryPolicy(transient=(*CONNECTION_ERRORS, KeyError), permanent=ConnectionResetError, on_unknown="dead_letter")
    assert policy.judge(KeyError()) == "transient"
    assert policy.judge(ConnectionResetError()) == "permanent"
    assert policy.judge(ConnectionRefusedError()) == "transient"


@pytest.mark.parametrize("kind", [TransientJobError, PermanentJobError, RuntimeError])
def test_each_kind_of_error_ends_as_the_table_says(kind: type[Exception], tmp_path: Path) -> None:
    """Transient: again. Terminal: at once. Unknown: at once, with the stack in the stored error, and nothing of it for the user."""

    def speak(_: int) -> None:
        raise kind("at 10.0.0.7")

    policy = RetryPolicy(transient=CONNECTION_ERRORS, on_unknown="dead_letter", base="1m")
    speaking = define_job("speak", speak, retry=policy)
    with Onward(f"sqlite:///{tmp_path}/jobs.db", jobs=[speaking], clock=FakeClock()) as app:
        job_id = app.enqueue(speaking, 7).id
        drain(app)
        job = app.get(job_id)
    assert job.error is not None
    assert "in test_each_kind_of_error_ends_as_the_table_says.<locals>.speak" in job.error
    reason = {TransientJobError: None, PermanentJobError: "at 10.0.0.7", RuntimeError: FAILED}[kind]
    assert (job.status, public_reason(job)) == (Status.RETRYING if kind is TransientJobError else Status.DEAD_LETTER, reason)


STACK = '  File "/srv/app/voice.py", line 7, in speak\n    raise error'


@pytest.mark.parametrize(
    ("status", "error", "reason"),
    [
        (Status.QUEUED, None, None),
        (Status.IN_PROGRESS, None, None),
        (Status.RETRYING, f"PermanentJobError: of an earlier life\n{STACK}", None),
        (Status.COMPLETED, "completed, but behind its transaction: ValueError: x", None),
        (Status.DEAD_LETTER, f"PermanentJobError: The voice does not speak this.\n{STACK}", "The voice does not speak this."),
        (Status.DEAD_LETTER, f"PermanentJobError: The first line.\nthe second\n{STACK}", "The first line."),
        (Status.DEAD_LETTER, f"PermanentJobError\n{STACK}", FAILED),
        (Status.DEAD_LETTER, f"PermanentJobError:  \n{STACK}", FAILED),
        (Status.DEAD_LETTER, f"voice.Refused: at 10.0.0.7\n{STACK}", FAILED),
        (Status.DEAD_LETTER, f"ValueError: PermanentJobError: forged\n{STACK}", FAILED),
        (Status.DEAD_LETTER, f"ValueError: x\ncaused by: PermanentJobError: inner\n{STACK}", FAILED),
        (Status.DEAD_LETTER, "worker lost: the process host:7:abc died while it ran", FAILED),
        (Status.DEAD_LETTER, None, FAILED),
        (Status.CANCELLED, "PermanentJobError: said by whoever cancelled it", CANCELLED),
        (Status.CANCELLED, "expired", CANCELLED),
    ],
)
def test_a_user_is_told_what_was_written_for_users_and_nothing_else(status: Status, error: str | None, reason: str | None) -> None:
    """An error's own words may hold addresses, names of tables and other people's data."""
    assert public_reason(make_job(status, error=error)) == reason


def test_a_long_reason_is_cut() -> None:
    """It goes on a page, not in a log."""
    reason = public_reason(make_job(Status.DEAD_LETTER, error=f"PermanentJobError: {'x' * 1000}"))
    assert reason == "x" * (LONGEST_REASON - 1) + "…"
