"""What is there before a program begins. Nothing of it is killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from onward.clock import FakeClock
from onward.files import CreateFile, DeleteFile
from onward.outcome import Completed, DeadLettered
from onward.testing import drain
from onward.turn import Demand, Settlement
from tests.torture.shop import NOTE, Shop, job_id, make_tables
from tests.torture.traced import ROOT, environment

SCHEMAS = ROOT / "tests/drivers/schemas"
AGO = timedelta(hours=1)
ME, DEAD = "test:1:killed", "test:2:dead"


def demand(owner: str, slots: int, lease: timedelta = timedelta(seconds=60)) -> Demand:
    """Of notes, from the queue that they wait in."""
    return Demand(lease_owner=owner, slots=slots, types={"note": lease}, queues=("default",))


def nothing(home: Path) -> None:
    """Not even a file."""


def tables(home: Path) -> None:
    """Tables, and no jobs."""
    shop = Shop(home)
    make_tables(shop)
    shop.close()


def queued(*numbers: int, job: Any = NOTE) -> Callable[[Path], None]:
    """Jobs that are due."""

    def prepare(home: Path) -> None:
        shop = Shop(home)
        make_tables(shop)
        for number in numbers:
            shop.app.enqueue(job, number, id=job_id(number))
        shop.close()

    return prepare


def ended(home: Path) -> None:
    """One dead letter, one cancelled, one that waits, one that is old."""
    shop = Shop(home, FakeClock(datetime.now(UTC) - AGO))
    make_tables(shop)
    for number in range(1, 6):
        shop.app.enqueue(NOTE, number, id=job_id(number), delay="30m" if number == 3 else None)
    shop.app.cancel(job_id(2))
    one, four = shop.store.turn(demand=demand(ME, 2)).claims
    shop.store.turn([Settlement(claim=one, outcome=DeadLettered("hopeless")), Settlement(claim=four, outcome=Completed())])
    shop.close()


def left_behind(home: Path) -> None:
    """Claims that ran out, claims of a process that is dead, and a job that came too late."""
    clock = FakeClock(datetime.now(UTC) - AGO)
    shop = Shop(home, clock)
    make_tables(shop)
    for number in range(1, 6):
        shop.app.enqueue(NOTE, number, id=job_id(number))
    shop.app.enqueue(NOTE, 6, id=job_id(6), delay="1m", expires="1m", queue="late")
    assert len(shop.store.turn(demand=demand(ME, 3)).claims) == 3
    clock.advance(AGO)
    # What is made here is tried hundreds of times, for minutes: these leases must not run out meanwhile, but before the aftermath's LATER.
    assert len(shop.store.turn(demand=demand(DEAD, 2, lease=AGO)).claims) == 2
    shop.close()


def killed(home: Path) -> None:
    """The log of a process that was killed: the next one recovers from it."""
    tables(home)
    command = [sys.executable, "-m", "tests.torture.syscalls.programs", "die", str(home)]
    assert subprocess.run(command, cwd=ROOT, env=environment(), stdout=subprocess.DEVNULL, check=False).returncode == -signal.SIGKILL
    assert (home / "jobs.db-wal").stat().st_size


def first_release(home: Path) -> None:
    """A store of the first release."""
    shop = Shop(home)
    connection = shop.connect()
    connection.executescript((SCHEMAS / "sqlite_1.sql").read_text(encoding="utf-8"))
    connection.close()


def file_jobs(*payloads: CreateFile | DeleteFile, before: str | None = None) -> Callable[[Path], None]:
    """Jobs on a file, which has the content ``before`` already."""

    def prepare(home: Path) -> None:
        shop = Shop(home)
        make_tables(shop)
        if before is not None:
            shop.app.enqueue(shop.files.create, CreateFile("new/deep/x", before), id=job_id(1))
            drain(shop.app)
        for number, payload in enumerate(payloads, 2):
            if isinstance(payload, CreateFile):
                shop.app.enqueue(shop.files.create, payload, id=job_id(number))
            else:
                shop.app.enqueue(shop.files.delete, payload, id=job_id(number))
        shop.close()

    return prepare
