"""What happens to the disk beneath a store: it is full, it is read-only, or a process may write no more to it."""

from __future__ import annotations

import resource
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

from tests.torture.application import LEASE
from tests.torture.faults.felt import Complaints, felt
from tests.torture.faults.kinds import POSTGRES, SQLITE, Fault, kill, last
from tests.torture.faults.mounts import MEBIBYTE, fill, read_only, small_disk, small_server_disk
from tests.torture.fleet import LOG, PATIENCE, Fleet
from tests.torture.store import path_of

FREE = (0, 4_096, 20_000)
"""Bytes that are left on a full disk."""
ROUNDS = 3
LONGEST = 15.0
"""Seconds for which a disk stays full though nobody needs more of it: a log, or pages, may be used again for so long."""
MORE_THAN_A_HISTORY = 300_000
"""Bytes beyond what a worker appends to, its history and everybody's log: their lines must stay whole, or the run proves nothing."""
ROOM, SERVER_ROOM = 8 * MEBIBYTE, 128 * MEBIBYTE


def full_disk(fleet: Fleet) -> None:
    """The store is on a small disk, which another file fills and frees, several times."""
    with small_disk(fleet, ROOM) as folder:
        _fill_and_free(fleet, "full disk", folder, "is full")


def full_server_disk(fleet: Fleet) -> None:
    """The same for the disk of the server, which may stop for it; then somebody starts it again."""
    server = fleet.site.postgres
    with small_server_disk(fleet, SERVER_ROOM) as folder:
        fleet.wait_until_final(fleet.enqueue("plain"))

        def start() -> None:
            if not server.is_up():
                server.start()

        _fill_and_free(fleet, "full disk of the server", folder, "disk of the server is full", "No space left on device", mend=start)


def _fill_and_free(fleet: Fleet, fault: str, folder: Path, *words: str, mend: Callable[[], None] = lambda: None) -> None:
    """Each time until somebody has said so in these words, or did not need more room for long, and for a while longer."""
    felt_at_all = False
    for _ in range(ROUNDS):
        complaints = Complaints(fleet)
        fleet.history.write("fault", fault)
        filler = fill(folder, fleet.chance.choice(FREE))
        until = time.monotonic() + LONGEST
        while not complaints.have(*words) and time.monotonic() < until:
            last(0.1)
        last(LEASE)
        felt_at_all = felt_at_all or complaints.have(*words)
        filler.unlink()
        mend()
        fleet.history.write("healed", fault)
        fleet.wait_until_final(fleet.enqueue("plain"))
    if not felt_at_all:
        fleet.failures.append(f"nobody felt the fault {fault!r}")


def file_size_limit(fleet: Fleet) -> None:
    """A worker process may let no file grow beyond some size (``RLIMIT_FSIZE``), and then it may again.

    The log of writes is beyond that size already: somebody has written much, and somebody who reads keeps it from beginning anew.
    """
    worker = fleet.a_worker()
    grown = [fleet.histories / f"worker-{worker}.jsonl", fleet.histories.with_name(LOG)]
    limit = max(file.stat().st_size for file in grown) + MORE_THAN_A_HISTORY
    with closing(_connect(fleet)) as reader, closing(_connect(fleet)) as writer, suppress(ProcessLookupError):
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM orders").fetchone()
        writer.execute("CREATE TABLE IF NOT EXISTS much (content)")
        writer.execute("INSERT INTO much VALUES (zeroblob(?))", [limit])
        writer.execute("DELETE FROM much")
        soft, hard = resource.prlimit(worker, resource.RLIMIT_FSIZE)
        complaints = Complaints(fleet)
        fleet.history.write("fault", "file-size limit", pid=worker)
        resource.prlimit(worker, resource.RLIMIT_FSIZE, (limit, hard))
        fleet.wait_for(lambda: complaints.have("disk I/O error"), "a worker could write no more")
        last(LEASE)
        resource.prlimit(worker, resource.RLIMIT_FSIZE, (soft, hard))
        fleet.history.write("healed", "file-size limit", pid=worker)


def _connect(fleet: Fleet) -> sqlite3.Connection:
    return sqlite3.connect(path_of(fleet.site.direct), isolation_level=None, timeout=PATIENCE)


def read_only_folder(fleet: Fleet) -> None:
    """Whoever opens the file for a while cannot write it; those who have it open still can. One worker process has to start meanwhile."""
    worker = fleet.a_worker()
    with read_only(Path(path_of(fleet.site.direct)).parent):
        fleet.history.write("fault", "read-only folder")
        with felt(fleet, "read-only folder", "cannot be written"):
            kill(fleet, "kill worker", worker)
            last(2 * LEASE)
    fleet.history.write("healed", "read-only folder")


FAULTS = (
    Fault("full disk", 15, full_disk, SQLITE, quick=0),
    Fault("full disk of the server", 31, full_server_disk, POSTGRES, quick=0),
    Fault("file-size limit", 16, file_size_limit, SQLITE),
    Fault("read-only folder", 23, read_only_folder, SQLITE),
)
