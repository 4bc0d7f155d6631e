"""What must hold in a store after its program was killed or the power was lost, and that it works on."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from onward.clock import FakeClock
from onward.errors import OnwardError
from onward.files import find_leftovers
from onward.status import Status
from onward.testing import drain
from tests.torture.promises import GONE, Said
from tests.torture.shop import NOTE, Shop

LATER = timedelta(hours=2)
"""After this every lease has run out and every retry is due."""
_NEW = 1_000_000


def look_at(home: Path, said: Said, *, works_on: bool = True) -> list[str]:
    """Open the store below ``home`` and give a line for each promise that does not hold.

    With ``works_on`` also sweep, run what is left, and look again; the store is changed by that.
    """
    shop = Shop(home, FakeClock(datetime.now(UTC) + LATER))
    try:
        shop.store.open()
        broken = list(_what_was_said(shop, said))
        if works_on and not broken:
            broken = [f"later: {line}" for line in _work_on(shop, said)]
        return broken
    except (OnwardError, sqlite3.Error, AssertionError) as error:
        return [f"{type(error).__name__}: {error}"]
    finally:
        shop.close()


def recovered(home: Path, said: Said) -> int:
    """How many jobs have a state that was announced and never acknowledged: their commit came before the end of the program."""
    with closing(sqlite3.connect(home / "jobs.db")) as connection:
        status = _statuses(connection)
    found = [said.allowed("job", name).index(status.get(name, GONE)) for name in said.subjects("job")]
    return sum(1 for place in found if place > 0)


def _what_was_said(shop: Shop, said: Said) -> Iterator[str]:
    with closing(shop.connect()) as connection:
        yield from _soundness(connection)
        status = _statuses(connection)
        for name in said.subjects("job"):
            if (found := status.get(name, GONE)) not in (allowed := said.allowed("job", name)):
                yield f"job {name} is {found}, and was said to be {' or '.join(allowed)}"
        for kind, is_so in (("there", status.keys()), ("done", {id_ for id_, one in status.items() if one == Status.COMPLETED})):
            for name in said.subjects(kind):
                if (found := "yes" if name in is_so else "no") not in (allowed := said.allowed(kind, name)):
                    yield f"job {name} is {status.get(name, GONE)}: {kind} is {found}, and was said to be {' or '.join(allowed)}"
        for group in said.together:
            if 0 < len(there := status.keys() & set(group)) < len(group):
                yield f"of {len(group)} jobs of one commit {len(there)} are there"
        for parent, child in said.children:
            if (child in status) != (status.get(parent) == Status.COMPLETED):
                yield f"job {parent} is {status.get(parent, GONE)}, and its child {child} is {status.get(child, GONE)}"
        yield from _nothing_else(connection, said)
        yield from _one_commit(connection)
        yield from _keys_agree(connection)
    for path in said.subjects("file"):
        if (found := _content(shop.base / path)) not in (allowed := said.allowed("file", path)):
            yield f"the file {path} is {found!r:.60}, and was said to be {' or '.join(f'{one!r:.60}' for one in allowed)}"


def _soundness(connection: sqlite3.Connection) -> Iterator[str]:
    for pragma in ("integrity_check", "foreign_key_check"):
        found = [row[0] for row in connection.execute(f"PRAGMA {pragma}").fetchall()]
        if found not in ([], ["ok"]):
            yield f"{pragma}: {found[0]}"


def _nothing_else(connection: sqlite3.Connection, said: Said) -> Iterator[str]:
    for (id_,) in connection.execute("SELECT id FROM onward_jobs WHERE type <> 'receipt'"):
        if not said.knows(id_):
            yield f"job {id_} is there, and nobody enqueued it"


def _one_commit(connection: sqlite3.Connection) -> Iterator[str]:
    """What was written together must be there together."""
    if not connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'effects'").fetchone():
        return
    ask = connection.execute
    shipped, ordered = ask("SELECT id FROM onward_jobs WHERE type = 'ship' ORDER BY 1"), ask("SELECT job_id FROM orders ORDER BY 1")
    if (jobs := shipped.fetchall()) != (rows := ordered.fetchall()):
        yield f"{len(jobs)} jobs were enqueued together with a row of the application, of which there are {len(rows)}"
    completed = ask("SELECT id FROM onward_jobs WHERE type = 'book' AND status = 'completed' ORDER BY 1").fetchall()
    if completed != (effects := ask("SELECT job_id FROM effects ORDER BY 1").fetchall()):
        yield f"{len(completed)} jobs were completed together with an effect, of which there are {len(effects)}"
    parents = ask("SELECT payload FROM onward_jobs WHERE type = 'book' AND status = 'completed' ORDER BY 1").fetchall()
    if parents != (children := ask("SELECT payload FROM onward_jobs WHERE type = 'receipt' ORDER BY 1").fetchall()):
        yield f"{len(parents)} jobs were completed together with a child, of which there are {len(children)}"


def _keys_agree(connection: sqlite3.Connection) -> Iterator[str]:
    """A key without its job would turn away all who ask for the work again; a job without its key would let them do it twice."""
    is_live = "status IN ('queued', 'retrying', 'in_progress') AND idempotency_key IS NOT NULL AND coalesce(scope, 'active') = 'active'"
    live = set(connection.execute(f"SELECT id, idempotency_key FROM onward_jobs WHERE {is_live}").fetchall())
    held = set(connection.execute("SELECT job_id, key FROM onward_keys WHERE expires_at IS NULL").fetchall())
    for job, key in sorted(held - live):
        yield f"the key {key} is held by job {job}, which is not live"
    for job, key in sorted(live - held):
        yield f"job {job} is live and does not hold its key {key}"


def _work_on(shop: Shop, said: Said) -> Iterator[str]:
    """Sweep, run everything that is left, enqueue one more: nothing may be lost, and nothing be left over."""
    before, too_late = _all_statuses(shop), _with_an_end(shop)
    promised = [handle.id for handle in (shop.app.enqueue(NOTE, _NEW), shop.app.enqueue(NOTE, _NEW + 1))]
    shop.base.mkdir(exist_ok=True)
    shop.files.sweep(shop.store)
    drain(shop.app)
    shop.files.sweep(shop.store)
    after = _all_statuses(shop)
    for id_ in promised:
        if after.get(id_) != Status.COMPLETED:
            yield f"a job enqueued after it is {after.get(id_, GONE)}"
    for id_, status in before.items():
        possible = {status} if Status(status).is_final else {Status.COMPLETED, Status.CANCELLED if id_ in too_late else Status.COMPLETED}
        if after.get(id_) not in possible:
            yield f"job {id_} was {status} and is {after.get(id_, GONE)} after everything was run"
    with closing(shop.connect()) as connection:
        yield from _soundness(connection)
        if any(Status(status).is_live for status in after.values()):
            yield "jobs are left that never run"
        yield from _one_commit(connection)
        yield from _keys_agree(connection)
    yield from _files_agree(shop, said)


def _files_agree(shop: Shop, said: Said) -> Iterator[str]:
    found = shop.files.reconcile(shop.store)
    yield from found.discrepancies
    for path in said.subjects("file"):
        if (content := _content(shop.base / path)) not in (allowed := said.allowed("file", path)):
            yield f"the file {path} is {content!r:.60} in the end, not {' or '.join(f'{one!r:.60}' for one in allowed)}"
    for leftover in find_leftovers(shop.base, shop.store):
        yield f"a temporary file is left: {leftover.path}"


def _statuses(connection: sqlite3.Connection) -> dict[str, str]:
    return dict(connection.execute("SELECT id, status FROM onward_jobs").fetchall())


def _all_statuses(shop: Shop) -> dict[str, str]:
    with closing(shop.connect()) as connection:
        return _statuses(connection)


def _with_an_end(shop: Shop) -> frozenset[str]:
    with closing(shop.connect()) as connection:
        return frozenset(row[0] for row in connection.execute("SELECT id FROM onward_jobs WHERE expires_at IS NOT NULL"))


def _content(path: Path) -> Any:
    return path.read_text(errors="replace") if path.is_file() else GONE
