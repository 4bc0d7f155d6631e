"""What happens to rows and files that somebody writes, moves or deletes by hand."""

from __future__ import annotations

import gc
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psutil
from msgspec import Struct

from onward.ids import new_id
from tests.torture.application import JOBS, LEASE
from tests.torture.faults.felt import felt
from tests.torture.faults.kinds import SQLITE, Fault, last
from tests.torture.fleet import Fleet, kill_tree
from tests.torture.sites import STORES
from tests.torture.store import path_of

LONG = 10 * 1024 * 1024
"""Characters of an error text that nobody bounded."""
MOST_INTEGER = 2**63 - 1
DEAD = "dead_letter"
WORDS = {
    "sqlite": {"jobs": "onward_jobs", "history": "onward_history", "audit": "audit", "now": "strftime('%Y-%m-%dT%H:%M:%f000Z', 'now')"},
    "postgres": {"jobs": "onward.jobs", "history": "onward.history", "audit": "public.audit", "now": "clock_timestamp()"},
}


class BadRow(Struct, frozen=True):
    """``change`` is what is written into a waiting row. It is dead-lettered by itself, or waits until ``mend`` is written, or is run."""

    change: str
    mend: str = ""
    is_run: bool = False
    stores: tuple[str, ...] = STORES


BAD_ROWS = {
    "no JSON": BadRow("payload = '{\"not json'"),
    "JSON of another shape": BadRow("payload = '\"a text\"'"),
    "metadata that is no JSON": BadRow("metadata = 'neither'", is_run=True),
    "a type that nobody knows": BadRow("type = 'nobody-knows'", mend="type = 'plain'"),
    "no tries": BadRow("max_attempts = -1"),
    "a count that cannot be raised": BadRow(f"releases = {MOST_INTEGER}"),
    "a long error": BadRow(f"error = '{'x' * LONG}'", is_run=True),
    "a number of another type": BadRow("max_attempts = 'many'", stores=SQLITE),
    "an instant that is none": BadRow("created_at = 'some day'", stores=SQLITE),
    "a text that is none": BadRow("payload = CAST(x'ff00ff' AS TEXT)", stores=SQLITE),
    "a status that is none": BadRow("status = 'paused'", mend="status = 'queued'", stores=SQLITE),
}


def bad_rows(fleet: Fleet) -> None:
    """Somebody damages rows that wait, each in another way, between good ones: each stops only itself."""
    chosen = {name: row for name, row in BAD_ROWS.items() if fleet.site.name in row.stores}
    ids = {name: new_id() for name in chosen}
    for name, job_id in ids.items():
        fleet.wait_for(lambda: _has_enqueued(fleet, job_id), "a job that is to be damaged was accepted")  # noqa: B023 - called at once
        if chosen[name].is_run or chosen[name].mend:
            fleet.history.write("invoke", "bad row", job=job_id, type="plain", detail=name)
            fleet.history.write("ok", "bad row", job=job_id)
    fleet.history.write("fault", "bad rows")
    for name, row in chosen.items():
        _write(fleet, ids[name], row.change)
    for _ in range(3):
        fleet.wait_until_final(fleet.enqueue("plain"))
    for name, row in chosen.items():
        if row.mend and (found := _status(fleet, ids[name])) in ("completed", DEAD):
            fleet.failures.append(f"a job with {name} was {found}")
        elif row.mend:
            _write(fleet, ids[name], row.mend)
        expected = "completed" if row.mend or row.is_run else DEAD
        fleet.wait_for(lambda: _status(fleet, ids[name]) == expected, f"a job with {name} was {expected}")  # noqa: B023 - called at once
    _clean_up(fleet, chosen, ids)
    fleet.history.write("healed", "bad rows")


def _clean_up(fleet: Fleet, chosen: Mapping[str, BadRow], ids: Mapping[str, str]) -> None:
    """Leave nothing that no judge of the others could read: what never ran is taken out, and what did is as it was."""
    dead = ", ".join(f"'{ids[name]}'" for name, row in chosen.items() if not row.is_run and not row.mend)
    _execute(fleet, f"DELETE FROM {{jobs}} WHERE id IN ({dead})")
    for table in ("history", "audit"):
        _execute(fleet, f"DELETE FROM {{{table}}} WHERE job_id IN ({dead})")
    _execute(fleet, "UPDATE {jobs} SET metadata = '{}' WHERE metadata = 'neither'")
    _execute(fleet, "DELETE FROM {audit} WHERE 'paused' IN (before, after)")


def _write(fleet: Fleet, job_id: str, change: str) -> None:
    """Change a waiting row, and make it due now."""
    _execute(fleet, f"UPDATE {{jobs}} SET {change}, scheduled_at = {{now}} WHERE id = '{job_id}'", is_lax=True)


def _has_enqueued(fleet: Fleet, job_id: str) -> bool:
    """Not due yet, so that no worker is quicker than the damage."""
    return fleet.app.enqueue(JOBS["plain"], 1, id=job_id, delay="1h").id == job_id


def _status(fleet: Fleet, job_id: str) -> Any:
    return _execute(fleet, f"SELECT status FROM {{jobs}} WHERE id = '{job_id}'")[0][0]


def _execute(fleet: Fleet, sql: str, *, is_lax: bool = False) -> Sequence[Sequence[Any]]:
    """Run a statement past the library. ``is_lax``: SQLite then does not look at what the table allows."""
    for word, meaning in WORDS[fleet.site.name].items():
        sql = sql.replace(f"{{{word}}}", meaning)
    if fleet.site.name != "sqlite":
        return fleet.site.postgres.execute(sql)
    with closing(sqlite3.connect(path_of(fleet.site.direct), timeout=20, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA ignore_check_constraints = {int(is_lax)}")
        return connection.execute(sql).fetchall()


def moved_away(fleet: Fleet) -> None:
    """The file and what belongs to it are moved while they are in use, and moved back: meanwhile nobody may write to another one."""
    store = Path(path_of(fleet.site.direct))
    away = store.with_name("away")
    away.mkdir()
    with _frozen(fleet):
        _move(store, away)
    fleet.history.write("fault", "file moved away")
    with felt(fleet, "file moved away", "is gone or cannot be reached", "was replaced by another file"):
        last(LEASE)
    with _frozen(fleet):
        _move(away / store.name, store.parent)
    shutil.rmtree(away)
    fleet.history.write("healed", "file moved away")


def _move(store: Path, target: Path) -> None:
    """What a sender's own connection made at the old place, empty, is replaced."""
    for name in (store.name, f"{store.name}-wal", f"{store.name}-shm"):
        if (store.parent / name).exists():
            os.replace(store.parent / name, target / name)


@contextmanager
def _frozen(fleet: Fleet) -> Iterator[None]:
    """Nobody meets the moment in which only one of the files is there."""
    everybody = [psutil.Process(one.pid) for one in (*fleet.supervisors, *fleet.senders) if one.poll() is None]
    everybody += [child for one in everybody for child in one.children(recursive=True)]
    _tell(everybody, psutil.Process.suspend)
    try:
        yield
    finally:
        _tell(everybody, psutil.Process.resume)


def _tell(everybody: Sequence[psutil.Process], what: Callable[[psutil.Process], None]) -> None:
    for process in everybody:
        try:
            what(process)
        except psutil.NoSuchProcess:
            continue


def lost_shared_memory(fleet: Fleet) -> None:
    """All processes are killed, and somebody deletes the index of the log: it is made again from the log, and nothing is missing."""
    store = path_of(fleet.site.direct)
    fleet.app.close()  # not as the last one, which would empty the log
    # A connection of this process that is closed and still referred to would keep the old index for all its later ones.
    gc.collect()
    fleet.history.write("fault", "lost shared memory")
    for process in (*fleet.supervisors, *fleet.senders):
        fleet.ended.add(process.pid)
        kill_tree(process.pid)
        process.wait()
    if any(os.path.realpath(descriptor.path) == os.path.realpath(f"{store}-shm") for descriptor in os.scandir("/proc/self/fd")):
        fleet.failures.append("somebody here still has the shared memory open, and it must not be deleted then")
        return
    if not os.path.getsize(f"{store}-wal"):
        fleet.failures.append("there was no log to make the shared memory from")
    os.unlink(f"{store}-shm")
    fleet.history.write("healed", "lost shared memory")


FAULTS = (
    Fault("bad rows", 26, bad_rows),
    Fault("file moved away", 24, moved_away, SQLITE),
    Fault("lost shared memory", 24, lost_shared_memory, SQLITE),
)
