"""How an idle worker wakes on Postgres: a notification, a call in this process, or the time; and how far notifications are trusted."""

from __future__ import annotations

import gc
import itertools
import logging
import os
import secrets
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from onward.clock import FakeClock, SystemClock
from onward.drivers.postgres.connections import complete
from onward.drivers.postgres.driver import PostgresStore
from onward.drivers.postgres.listener import Listener, Timing
from onward.drivers.postgres.self_check import PING, SelfCheck
from onward.drivers.postgres.url import read_url
from onward.drivers.postgres.waker import Bell, Waker, WorkersEar
from onward.errors import StoreUnavailable
from onward.outcome import Retried, Snoozed
from onward.status import Status
from onward.testing.conformance.steps import PAST_LEASE, bring_to, demand, enqueue, settle, until_it_waits
from onward.testing.factories import make_new_job
from onward.turn import Settlement
from tests.drivers.pooler import Pooler
from tests.loopback import free_port
from tests.postgres_server import Server
from tests.tcp_proxy import TO_CLIENT, TcpProxy

HOUR = 3600.0
PATIENCE = 30.0
"""Seconds that a test gives what should have happened at once."""
QUICK = Timing(check_after=0.2, proven_for=1.5, ping_every=0.2, longest_ping_every=0.4, first_back_off=0.01, longest_back_off=0.1)


class Line:
    """A channel of a test's own: what listens there, and what is sent to it. Counts both."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.channel = f"onward_test_{secrets.token_hex(8)}"
        self.heard_by: list[psycopg.Connection[Any]] = []
        self.pings = 0
        self._sender = psycopg.connect(complete(url, "onward"), autocommit=True)
        self._sending = threading.Lock()

    def connect(self) -> psycopg.Connection[Any]:
        """Open a connection for the listener."""
        self.heard_by.append(psycopg.connect(complete(self.url, "onward listener"), autocommit=True))
        return self.heard_by[-1]

    def ping(self, payload: str) -> None:
        self.pings += 1
        self.notify(payload)

    def notify(self, payload: str = "default") -> None:
        self.ask("SELECT pg_notify(%s, %s)", self.channel, payload)

    def ask(self, query: str, *parameters: Any) -> list[Any]:
        with self._sending:
            return self._sender.execute(query.encode(), parameters).fetchall()

    def activity(self, pid: int) -> list[Any]:
        """State and start of the transaction of the session with this number, while it is there."""
        return self.ask("SELECT state, xact_start FROM pg_stat_activity WHERE pid = %s", pid)

    def close(self) -> None:
        self._sender.close()


@pytest.fixture
def line(postgres: Server) -> Iterator[Line]:
    with closing(Line(postgres.url)) as line:
        yield line


@pytest.fixture
def make_waker(line: Line) -> Iterator[Callable[..., Waker]]:
    """``make_waker(connect=..., ping=..., timing=...)``: listens on the line; closed at the end, with its thread."""
    made: list[Waker] = []

    def make(connect: Any = None, ping: Any = None, timing: Timing = QUICK) -> Waker:
        made.append(Waker(connect or line.connect, line.channel, ping or line.ping, timing=timing))
        return made[-1]

    yield make
    for waker in made:
        waker.close()
    until(lambda: not listeners())


def listeners() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "onward-listener"]


def until(happened: Callable[[], object], between: Callable[[], object] = lambda: threading.Event().wait(0.005)) -> None:
    """Look again and again, and do something between the looks, until it has happened."""
    end = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < end, "it did not happen"
        between()


def prove(waker: Waker) -> Waker:
    """Wait as a worker does until notifications have proven themselves, and take every ring that came of it."""
    until(lambda: waker.is_proven, lambda: waker.wait(0.02))
    while waker.wait(0):
        pass
    return waker


def waiting(waker: Waker, seconds: float = HOUR) -> tuple[threading.Thread, list[bool]]:
    answers: list[bool] = []
    thread = threading.Thread(target=lambda: answers.append(waker.wait(seconds)), daemon=True)
    thread.start()
    until_it_waits(thread)
    return thread, answers


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


# -- what ends a wait ----------------------------------------------------------------------------------------------------


def test_a_notification_ends_the_wait(line: Line, make_waker: Callable[..., Waker]) -> None:
    """Polling every second would make each job late by half a second."""
    waker = prove(make_waker(timing=Timing()))
    thread, answers = waiting(waker)
    line.notify()
    thread.join(PATIENCE)
    assert answers == [True]


def test_a_worker_of_some_queues_is_woken_for_those_only(line: Line, make_waker: Callable[..., Waker]) -> None:
    """A busy queue must not keep the workers of every other one awake."""
    bell = Bell()
    ear = WorkersEar(bell, SelfCheck(line.ping, QUICK), ("mail", "sms"))
    ear.heard(["default", "mailing", "", PING + "123"])
    assert not bell.take()
    ear.heard(["default", "sms"])
    assert bell.take()
    waker = make_waker(timing=Timing())
    waker.serve(("mail",))
    thread, answers = waiting(prove(waker))
    line.notify("mail")
    thread.join(PATIENCE)
    assert answers == [True]


def test_queues_that_a_worker_takes_up_later_count_as_well(line: Line, make_waker: Callable[..., Waker]) -> None:
    """The store learns of the queues by the worker's turns, and of other queues when another worker uses it."""
    waker = make_waker(timing=Timing())
    waker.serve(("mail",))
    prove(waker)
    waker.serve(())
    thread, answers = waiting(waker)
    line.notify("anything")
    thread.join(PATIENCE)
    assert answers == [True]


def test_a_ping_wakes_nobody(line: Line) -> None:
    """Each worker hears the pings of all the others."""
    bell = Bell()
    WorkersEar(bell, SelfCheck(line.ping, QUICK), ()).heard([PING + "123"])
    assert not bell.take()


def test_a_new_connection_ends_the_wait(line: Line, make_waker: Callable[..., Waker]) -> None:
    """What was enqueued before it listened was not heard, so the worker looks."""
    assert make_waker(ping=lambda payload: None).wait(HOUR)
    assert len(line.heard_by) == 1


def test_wake_ends_a_wait_and_is_kept_for_the_next(make_waker: Callable[..., Waker]) -> None:
    """Stopping must not take as long as a poll."""
    waker = prove(make_waker(timing=Timing()))
    waker.wake()
    waker.wake()
    assert waker.wait(0)
    assert not waker.wait(0)
    thread, answers = waiting(waker)
    waker.wake()
    thread.join(PATIENCE)
    assert answers == [True]


def test_any_number_of_wakes_is_one(line: Line) -> None:
    """A busy worker does not wait for minutes, and nothing may fill up meanwhile."""
    waker = Waker()
    assert not waker.wait(0)
    for _ in range(100_000):
        waker.wake()
    assert waker.wait(0)
    assert not waker.wait(0.01)


def test_a_signal_handler_may_wake(make_waker: Callable[..., Waker]) -> None:
    """It interrupts any line of Python, so it must not wait for a lock that this line holds."""
    waker = prove(make_waker(timing=Timing()))
    before = signal.signal(signal.SIGUSR1, lambda number, frame: waker.wake())
    # Only a wait that nothing ends is ended by this; then the test fails, instead of waiting for an hour.
    rescue = threading.Timer(PATIENCE, os.kill, (os.getpid(), signal.SIGINT))
    rescue.daemon = True
    rescue.start()
    try:
        timer = threading.Timer(0.01, lambda: os.kill(os.getpid(), signal.SIGUSR1))
        timer.start()
        assert waker.wait(HOUR)
        timer.join()
    finally:
        rescue.cancel()
        signal.signal(signal.SIGUSR1, before)


def test_without_notifications_it_sleeps_and_proves_nothing() -> None:
    """``notify=off``: no thread, no connection, only the poll."""
    waker = Waker()
    assert not waker.wait(0.01)
    assert not waker.is_proven
    assert not listeners()
    thread, answers = waiting(waker)
    waker.close()
    thread.join(PATIENCE)
    assert answers == [True]


def test_an_enqueue_through_another_store_wakes_one_that_serves_its_queue(emptied_postgres: Callable[[str], str]) -> None:
    """As from another process: the statement that stores the job tells of its queue, and the commit lets it out."""
    conninfo, options = read_url(emptied_postgres("postgres"))
    enqueuing, working, elsewhere = (PostgresStore(conninfo, clock=SystemClock(), migrate=True, **options) for _ in range(3))
    with closing(enqueuing), closing(working), closing(elsewhere):
        answers: list[bool] = []
        is_ready = threading.Event()

        def listen(store: PostgresStore, queue: str) -> None:
            store.turn(demand=demand(queues=(queue,)))
            until(lambda: store.wakes_surely, lambda: store.wait(timedelta(milliseconds=20)))
            while store.wait(timedelta(0)):
                pass

        def work() -> None:
            listen(working, "mail")
            is_ready.set()
            answers.append(working.wait(timedelta(hours=1)))

        listen(elsewhere, "sms")
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        is_ready.wait(PATIENCE)
        until_it_waits(thread)
        enqueue(enqueuing, queue="mail")
        thread.join(PATIENCE)
        assert answers == [True]
        assert not elsewhere.wait(timedelta(milliseconds=50))
    until(lambda: not listeners())


# -- which jobs are told of ------------------------------------------------------------------------------------------------

LATE = timedelta(minutes=5)
"""An application's transaction may stay open for longer than an idle worker rests."""


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(emptied_postgres: Callable[[str], str], clock: FakeClock) -> Iterator[PostgresStore]:
    conninfo, options = read_url(emptied_postgres("postgres"))
    with closing(PostgresStore(conninfo, clock=clock, migrate=True, **options)) as store:
        store.open()
        yield store
    until(lambda: not listeners())


@pytest.fixture
def application(emptied_postgres: Callable[[str], str], store: PostgresStore) -> Iterator[psycopg.Connection[Any]]:
    """An application's own connection."""
    with closing(psycopg.connect(read_url(emptied_postgres("postgres"))[0])) as connection:
        yield connection


@pytest.fixture
def told(emptied_postgres: Callable[[str], str], store: PostgresStore) -> Iterator[Callable[[], list[str]]]:
    """Gives the queues that were told of since the last time."""
    with closing(psycopg.connect(read_url(emptied_postgres("postgres"))[0], autocommit=True)) as listener:
        listener.execute(sql.SQL("LISTEN {}").format(sql.Identifier(store.schema)))

        def since() -> list[str]:
            store.ping("the end")
            heard = (one.payload for one in listener.notifies(timeout=PATIENCE))
            return list(itertools.takewhile(lambda payload: payload != "the end", heard))

        yield since


def within_enqueue(store: PostgresStore, application: psycopg.Connection[Any]) -> str:
    asked = make_new_job(delay=LATE)
    store.within(application).enqueue([asked])
    return asked.id


def within_settle(store: PostgresStore, application: psycopg.Connection[Any]) -> str:
    taken = bring_to(store, Status.IN_PROGRESS)
    store.within(application).settle(Settlement(claim=taken, outcome=Retried(LATE, "busy")))
    return taken.id


def within_snooze(store: PostgresStore, application: psycopg.Connection[Any]) -> str:
    taken = bring_to(store, Status.IN_PROGRESS)
    store.within(application).settle(Settlement(claim=taken, outcome=Snoozed(LATE)))
    return taken.id


def within_retry(store: PostgresStore, application: psycopg.Connection[Any]) -> str:
    taken = bring_to(store, Status.DEAD_LETTER)
    store.within(application).retry(taken.id)
    return taken.id


@pytest.mark.parametrize("act", [within_enqueue, within_settle, within_snooze, within_retry])
def test_a_transaction_that_stays_open_makes_no_job_late(
    store: PostgresStore, application: psycopg.Connection[Any], clock: FakeClock, act: Callable[..., str]
) -> None:
    """A job that is due in five minutes is due at once when the commit comes five minutes later, and its worker has just looked."""
    asked = act(store, application)
    clock.advance(LATE.total_seconds())
    assert store.turn(demand=demand()).claims == ()
    until(lambda: store.wakes_surely, lambda: store.wait(timedelta(milliseconds=20)))
    while store.wait(timedelta(0)):
        pass
    answers: list[bool] = []
    thread = threading.Thread(target=lambda: answers.append(store.wait(timedelta(hours=1))), daemon=True)
    thread.start()
    until_it_waits(thread)
    application.commit()
    thread.join(PATIENCE)
    assert answers == [True]
    assert [taken.id for taken in store.turn(demand=demand()).claims] == [asked]


def test_a_worker_that_is_told_of_a_later_job_learns_when_it_is_due(
    store: PostgresStore, application: psycopg.Connection[Any], told: Callable[[], list[str]]
) -> None:
    """It sleeps until then, and need not be told again."""
    store.within(application).enqueue([make_new_job(delay=timedelta(hours=number)) for number in (3, 2, 4)])
    application.commit()
    assert told() == ["default"]
    assert store.turn(demand=demand()).next_due == timedelta(hours=2)


def test_jobs_of_a_far_future_wake_nobody(store: PostgresStore, told: Callable[[], list[str]]) -> None:
    """Workers look by themselves before such a job is due; each would be woken for nothing."""
    enqueue(store, queue="soon", delay=timedelta(seconds=45))
    enqueue(store, queue="later", delay=timedelta(hours=1))
    taken = bring_to(store, Status.IN_PROGRESS)
    assert told() == ["soon", "default"]
    settle(store, taken, Retried(timedelta(hours=1), "busy"))
    assert told() == []
    assert store.run_now(taken.id).status is Status.QUEUED
    assert told() == ["default"]


def test_a_job_that_its_worker_lost_is_told_of(store: PostgresStore, clock: FakeClock, told: Callable[[], list[str]]) -> None:
    """Another one has room for it, and sleeps."""
    bring_to(store, Status.IN_PROGRESS)
    told()
    clock.advance(PAST_LEASE)
    assert len(store.sweep().requeued) == 1
    assert told() == ["default"]


def test_a_job_that_a_worker_sets_aside_is_told_of_and_so_is_its_return(store: PostgresStore, told: Callable[[], list[str]]) -> None:
    """Another one may know its type, and was told of the queue when it was too busy to look."""
    enqueue(store, type="unknown", queue="mail")
    assert told() == ["mail"]
    assert store.turn(demand=demand()).blocked == 1
    assert told() == ["mail"]
    assert store.sweep(["unknown"]).unblocked == 1
    assert told() == ["mail"]


# -- the listener's connection ---------------------------------------------------------------------------------------------


def test_nothing_is_opened_before_the_first_wait(line: Line, make_waker: Callable[..., Waker]) -> None:
    """A web process only enqueues, and needs no connection that listens."""
    waker = make_waker()
    waker.wake()
    assert not waker.is_proven
    assert not listeners()
    waker.wait(0)
    until(lambda: line.heard_by)


def test_it_listens_outside_of_any_transaction(line: Line, make_waker: Callable[..., Waker]) -> None:
    """A listener inside one keeps the server from ever emptying its queue of notifications."""
    prove(make_waker(timing=Timing()))
    until(lambda: line.activity(line.heard_by[0].info.backend_pid) == [("idle", None)])


def test_closing_ends_the_thread_and_the_connection(line: Line, make_waker: Callable[..., Waker]) -> None:
    """And wakes whoever waits. A wait after that listens anew."""
    waker = prove(make_waker())
    pid = line.heard_by[0].info.backend_pid
    thread, answers = waiting(waker)
    waker.close()
    thread.join(PATIENCE)
    assert answers == [True]
    assert not listeners()
    assert not waker.is_proven
    until(lambda: not line.activity(pid))
    prove(waker)
    assert len(line.heard_by) == 2


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="nothing tells here which files are open")
def test_listening_anew_again_and_again_leaves_nothing_open(make_waker: Callable[..., Waker]) -> None:
    """A worker lives for months."""
    waker, counts = make_waker(), []
    for _ in range(3):
        prove(waker)
        waker.close()
        until(lambda: not listeners())
        counts.append(len(os.listdir("/proc/self/fd")))
    assert counts[-1] <= counts[0]


def test_a_waker_that_nobody_holds_stops_listening(line: Line) -> None:
    """An application that forgot to close its store must not keep a thread and a connection for ever."""
    prove(Waker(line.connect, line.channel, line.ping, timing=QUICK))
    gc.collect()
    until(lambda: not listeners())
    until(lambda: not line.activity(line.heard_by[0].info.backend_pid) if not line.heard_by[0].closed else True)


def test_a_connection_that_the_server_ended_is_made_anew(
    line: Line, make_waker: Callable[..., Waker], caplog: pytest.LogCaptureFixture
) -> None:
    """A restart of the server must not make every job late from then on. It is logged once, and once when it is over."""
    caplog.set_level(logging.INFO, "onward.worker")
    waker = prove(make_waker(timing=Timing(first_back_off=0.01)))
    thread, answers = waiting(waker)
    line.ask("SELECT pg_terminate_backend(%s)", line.heard_by[0].info.backend_pid)
    thread.join(PATIENCE)
    assert answers == [True]
    prove(waker)
    assert len(line.heard_by) == 2
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    thread, answers = waiting(waker)
    line.notify()
    thread.join(PATIENCE)
    assert answers == [True]


def test_a_server_that_is_away_costs_next_to_nothing_and_one_line_of_log(
    line: Line, make_waker: Callable[..., Waker], caplog: pytest.LogCaptureFixture
) -> None:
    """It may be away for hours, and a dead connection must not become a busy loop."""
    attempts: list[float] = []

    def connect() -> psycopg.Connection[Any]:
        attempts.append(time.monotonic())
        return psycopg.connect(f"postgresql://postgres@127.0.0.1:{port}/postgres") if len(attempts) < 6 else line.connect()

    port = free_port()
    waker = make_waker(connect, timing=Timing())
    used = time.process_time()
    assert not waker.wait(1)
    # 0.1 s doubled, and shortened by half at most: the first five attempts take at least 0.75 s.
    assert 2 <= len(attempts) <= 6
    assert time.process_time() - used < 0.3
    until(lambda: len(attempts) == 6, lambda: waker.wait(0.02))
    assert attempts[5] - attempts[0] >= 1.5
    prove(waker)
    assert len(warnings(caplog)) == 1
    assert "refused" in warnings(caplog)[0]
    assert all(record.exc_info is None for record in caplog.records)


def test_an_error_that_is_none_of_the_database_s_is_logged_with_its_traceback(
    line: Line, make_waker: Callable[..., Waker], caplog: pytest.LogCaptureFixture
) -> None:
    """The thread goes on whatever happens, and does not hide why it could not."""
    attempts: list[int] = []

    def connect() -> psycopg.Connection[Any]:
        attempts.append(len(attempts))
        return line.connect() if len(attempts) > 3 else attempts["mistake"]  # type: ignore[call-overload,no-any-return]

    prove(make_waker(connect))
    assert len(warnings(caplog)) == 1
    assert caplog.records[0].exc_info is not None


def test_a_server_that_refuses_to_listen_is_told(line: Line, make_waker: Callable[..., Waker], caplog: pytest.LogCaptureFixture) -> None:
    """As a standby does. A connection that only seems to listen would be trusted until its first ping is missed, and blamed on a pooler."""
    line.channel = ""  # no name
    waker = make_waker(timing=QUICK)
    until(lambda: len(line.heard_by) == 3, lambda: waker.wait(0.02))
    assert not waker.is_proven
    assert line.pings == 0
    (told,) = warnings(caplog)
    assert "zero-length" in told
    assert caplog.records[0].exc_info is None


def test_a_burst_is_heard_in_few_pieces_while_the_worker_is_busy(line: Line) -> None:
    """Thousands a second would otherwise take the processor away from the handlers, to say what is known already."""

    class BusyEar:
        is_rung = True

        def __init__(self) -> None:
            self.is_connected = threading.Event()
            self.pieces: list[list[str]] = []

        def connected(self) -> None:
            self.is_connected.set()

        def lost(self) -> None:
            self.is_connected.clear()

        def heard(self, payloads: list[str]) -> bool:
            self.pieces.append(payloads)
            return False

    ear = BusyEar()
    listener = Listener(line.connect, line.channel, ear, Timing())
    listener.start()
    assert ear.is_connected.wait(PATIENCE)
    for number in range(300):
        line.notify(str(number))
    until(lambda: sum(map(len, ear.pieces)) == 300)
    listener.close()
    assert len(ear.pieces) < 150
    assert not ear.is_connected.is_set()


def test_waiting_idly_takes_no_processor_time(make_waker: Callable[..., Waker]) -> None:
    """A thousand idle workers must not keep a machine busy."""
    waker = prove(make_waker(timing=Timing()))
    used = time.process_time()
    assert not waker.wait(1)
    assert time.process_time() - used < 0.05


# -- how far notifications are trusted -------------------------------------------------------------------------------------


def test_proof_is_renewed_while_the_worker_waits_with_few_pings(line: Line, make_waker: Callable[..., Waker]) -> None:
    """Two a minute at most, or idle workers would load the server."""
    waker = prove(make_waker(timing=Timing(check_after=0.3, proven_for=1.5, ping_every=0.1)))
    before, ends = line.pings, time.monotonic() + 1.5
    while (left := ends - time.monotonic()) > 0:
        assert waker.is_proven
        waker.wait(left)
    assert 2 <= line.pings - before <= 5
    assert waker.is_proven
    assert len(line.heard_by) == 1


def test_what_proves_itself_no_more_is_not_trusted_any_longer(line: Line, make_waker: Callable[..., Waker]) -> None:
    """A busy worker sends no pings; when it is idle again, it polls until the next one is answered."""
    waker = prove(make_waker(timing=Timing(proven_for=0.3)))
    until(lambda: not waker.is_proven)


def test_the_first_proof_is_an_answer_of_ones_own_and_later_ones_are_anybody_s(line: Line) -> None:
    """A listener in another database hears strangers. Where it is right, one ping does for all workers that listen."""
    sent: list[str] = []
    check = SelfCheck(sent.append, Timing(check_after=HOUR))
    listener = Listener(line.connect, line.channel, WorkersEar(Bell(), check, ()), Timing())
    assert check.tend(listener) == float("inf")
    check.connected()
    assert not check.heard(["default", PING + "of another worker"])
    assert not check.is_proven
    check.tend(listener)
    assert check.heard(sent)
    assert check.is_proven
    check.tend(listener)
    assert len(sent) == 1
    check.lost()
    assert not check.is_proven
    check.connected()
    assert not check.is_proven
    check.tend(listener)
    assert len(sent) == 2


def test_others_notifications_spare_pings(line: Line) -> None:
    """They prove the same: something arrived just now."""
    sent: list[str] = []
    check = SelfCheck(sent.append, Timing(check_after=0.2, ping_every=0.01))
    listener = Listener(line.connect, line.channel, WorkersEar(Bell(), check, ()), Timing())
    check.connected()
    check.tend(listener)
    check.heard(sent)
    check.tend(listener)
    ends = time.monotonic() + 0.5
    while time.monotonic() < ends:
        check.heard([PING + "of another worker"])
        assert check.tend(listener) <= 0.25
    assert len(sent) == 1


def test_behind_a_transaction_pooler_the_worker_polls(
    postgres: Server, make_waker: Callable[..., Waker], line: Line, caplog: pytest.LogCaptureFixture
) -> None:
    """LISTEN succeeds there and nothing ever arrives. It is said once, and the pooler is left in peace."""
    caplog.set_level(logging.INFO, "onward.worker")
    timing = Timing(ping_every=0.1, longest_ping_every=0.2, answer_within=0.1)
    with Pooler(postgres.url, "transaction") as pooler:
        through = Line(pooler.url)
        through.channel = line.channel
        waker = make_waker(through.connect, through.ping, timing)
        assert waker.wait(HOUR)  # it believes that it listens
        until(lambda: through.pings == 5, lambda: waker.wait(0.05))
        assert not waker.is_proven
        began = time.monotonic()
        assert not waker.wait(0.1)
        assert time.monotonic() - began < 5
        waker.close()
        through.close()
    assert len(through.heard_by) == 1
    assert len(caplog.records) == 1
    assert "ONWARD_LISTEN_URL" in warnings(caplog)[0]


def test_a_ping_that_cannot_be_sent_is_no_error_of_the_wait(line: Line, make_waker: Callable[..., Waker]) -> None:
    """The store has a reason of its own, which the next turn meets; the listener may be well."""

    def ping(payload: str) -> None:
        pings.append(payload)
        if len(pings) < 4:
            raise StoreUnavailable("no route to host")
        line.ping(payload)

    pings: list[str] = []
    waker = make_waker(ping=ping)
    until(lambda: len(pings) == 3, lambda: waker.wait(0.02))
    assert not waker.is_proven
    prove(waker)
    assert len(line.heard_by) == 1


def test_a_silent_network_is_noticed_and_survived(
    postgres: Server, make_waker: Callable[..., Waker], line: Line, caplog: pytest.LogCaptureFixture
) -> None:
    """A firewall forgets a connection without a word, and TCP itself would notice hours later."""
    caplog.set_level(logging.INFO, "onward.worker")
    with TcpProxy.before(postgres.url) as proxy:
        heard = Line(postgres.url)
        heard.url = proxy.through(postgres.url)
        waker = prove(make_waker(heard.connect, timing=Timing(check_after=0.2, ping_every=0.5, answer_within=0.5)))
        thread, answers = waiting(waker)
        proxy.silence()
        thread.join(PATIENCE)
        assert answers == [True]
        until(lambda: not waker.is_proven, lambda: waker.wait(0.02))
        assert not waker.wait(1)  # it connects anew, and nothing answers
        proxy.restore()
        began = time.monotonic()
        prove(waker)
        assert time.monotonic() - began < 15
        thread, answers = waiting(waker)
        line.notify()
        thread.join(PATIENCE)
        assert answers == [True]
        waker.close()
        heard.close()
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


def test_a_server_that_does_not_answer_to_listen_is_given_up(
    postgres: Server, make_waker: Callable[..., Waker], line: Line, caplog: pytest.LogCaptureFixture
) -> None:
    """The connection is there and the network falls silent in the next moment: no timeout of libpq's is for that."""
    with TcpProxy.before(postgres.url) as proxy:
        heard = Line(postgres.url)
        heard.url = proxy.through(postgres.url)

        def connect() -> psycopg.Connection[Any]:
            connection = heard.connect()
            if len(heard.heard_by) == 1:
                proxy.silence(TO_CLIENT)
            return connection

        waker = make_waker(connect, timing=Timing(listen_within=0.2))
        until(lambda: warnings(caplog), lambda: waker.wait(0.02))
        assert "did not answer to LISTEN" in warnings(caplog)[0]
        proxy.restore()
        prove(waker)
        waker.close()
        heard.close()


def test_closing_does_not_wait_for_a_server_that_is_silent(postgres: Server, make_waker: Callable[..., Waker]) -> None:
    """A worker that is stopped has a grace to keep; the thread ends when libpq gives up."""
    with TcpProxy.before(postgres.url) as proxy:
        proxy.silence()
        url = f"{proxy.through(postgres.url)}?connect_timeout=2"
        waker = make_waker(lambda: psycopg.connect(url, autocommit=True))
        waker.wait(0)
        (thread,) = listeners()
        until(lambda: proxy.connections)
        began = time.monotonic()
        waker.close()
        assert time.monotonic() - began < 1.5
        thread.join(PATIENCE)
        assert not thread.is_alive()


# -- fork ------------------------------------------------------------------------------------------------------------------


def test_a_forked_child_listens_for_itself_and_leaves_the_parent_its_connection(postgres: Server, line: Line) -> None:
    """Two processes on one socket read each other's answers; and a child that kept it open would keep the server's end alive."""
    code = f"""
        import os, stat, sys, time
        import psycopg
        from onward.drivers.postgres.waker import Waker
        url, channel, heard_by = {postgres.url!r}, {line.channel!r}, []
        def connect():
            heard_by.append(psycopg.connect(url, autocommit=True))
            return heard_by[-1]
        def ping(payload):
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute("SELECT pg_notify(%s, %s)", [channel, payload])
        def prove(waker):
            ends = time.monotonic() + {PATIENCE}
            while not waker.is_proven and time.monotonic() < ends:
                waker.wait(0.05)
            while waker.wait(0):
                pass
            return waker.is_proven
        waker = Waker(connect, channel, ping)
        assert prove(waker)
        inherited = heard_by[0].fileno()
        for ending in "prompt", "orderly":
            child = os.fork()
            if child == 0:
                alone = not stat.S_ISSOCK(os.fstat(inherited).st_mode) and not waker.is_proven
                proven = prove(waker)
                if ending == "prompt":
                    os._exit(0 if alone and proven and len(heard_by) == 2 else 1)
                waker.close()
                sys.exit(0 if alone and proven else 1)
            assert os.waitpid(child, 0)[1] == 0, ending
        while waker.wait(0):
            pass
        ping("default")
        print(waker.wait({PATIENCE}), waker.is_proven, len(heard_by))
        waker.close()
    """
    ran = subprocess.run(
        # From Python 3.12 on a fork beside threads is warned of.
        [sys.executable, "-W", "error", "-W", "ignore::DeprecationWarning", "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert ran.stdout.split() == ["True", "True", "1"], ran.stderr
    assert not ran.stderr
