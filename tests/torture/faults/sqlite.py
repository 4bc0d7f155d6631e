"""What happens to a SQLite file: others hold its locks, keep its log, or take it over again and again."""

from __future__ import annotations

import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress

from tests.torture.application import LEASE
from tests.torture.faults.kinds import SQLITE, Fault, last
from tests.torture.fleet import Fleet
from tests.torture.sites import BUSY
from tests.torture.store import path_of


def long_write_lock(fleet: Fleet) -> None:
    """Another process holds the write lock for longer than anybody waits for it."""
    _hold(fleet, "long write lock", "BEGIN IMMEDIATE", 1.5 * BUSY)


def long_reader(fleet: Fleet) -> None:
    """Another process reads for long, so that the log cannot be taken over into the file."""
    _hold(fleet, "long reader", "BEGIN", LEASE)


def _hold(fleet: Fleet, fault: str, begin: str, seconds: float) -> None:
    with closing(sqlite3.connect(path_of(fleet.site.direct), timeout=30, isolation_level=None)) as connection:
        connection.execute(begin)
        connection.execute("SELECT count(*) FROM onward_jobs").fetchall()
        fleet.history.write("fault", fault)
        last(seconds)
        connection.execute("ROLLBACK")
        fleet.history.write("healed", fault)


HAMMERS = ("PASSIVE", "FULL", "RESTART", "TRUNCATE")


def checkpoint_hammer(fleet: Fleet) -> None:
    """Connections of others take the log over into the file without a pause, each in another way."""
    is_over = threading.Event()

    def hammer(mode: str) -> int:
        done = 0
        with closing(sqlite3.connect(path_of(fleet.site.direct), timeout=0.05, isolation_level=None)) as connection:
            while not is_over.wait(0.001):
                with suppress(sqlite3.OperationalError):  # it waits for writers and readers, and gives up
                    done += not connection.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()[0]
        return done

    with ThreadPoolExecutor(len(HAMMERS)) as pool:
        fleet.history.write("fault", "checkpoint hammer")
        running = [pool.submit(hammer, mode) for mode in HAMMERS]
        last(2 * LEASE)
        is_over.set()
        if not sum(one.result() for one in running):
            fleet.failures.append("the checkpoint hammer never came to a checkpoint")
        fleet.history.write("healed", "checkpoint hammer")


FAULTS = (
    Fault("long write lock", 20, long_write_lock, SQLITE),
    Fault("long reader", 21, long_reader, SQLITE),
    Fault("checkpoint hammer", 28, checkpoint_hammer, SQLITE),
)
