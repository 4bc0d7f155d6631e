"""The programs whose power is cut: ``python -m tests.torture.power_loss.workloads NAME HOME SEED STEPS [PLANT]`` runs one.

Each begins in an empty home, and says what it does (``tests.torture.promises``). What it does is chosen by the seed.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from onward.drivers.sqlite import connection as sqlite_connection
from onward.events import Event
from onward.files import CreateFile, DeleteFile
from onward.testing import drain
from tests.torture.promises import GONE, acknowledge, say, will
from tests.torture.shop import BOOK, NOTE, SHIP, Shop, job_id, make_tables

PATHS = ("a", "new/deep/b", "new/c")
DIED = "another process of the workload failed"


def store(home: Path, chance: random.Random, steps: int) -> None:
    """Several connections of one process, in turn: enqueues, an application's own transactions, workers, checkpoints, restarts."""
    _Store(home, chance).run(steps)


class _Store:
    def __init__(self, home: Path, chance: random.Random) -> None:
        self.shop, self.worker, self.chance, self.next = Shop(home), Shop(home), chance, 1
        make_tables(self.shop)
        self.own = self.shop.connect()
        self.own.execute(_synchronous())
        self.waiting: list[str] = []
        self.worker.app.events.subscribe(self._tell)

    def run(self, steps: int) -> None:
        verbs = (self.enqueue, self.enqueue_many, self.within, self.roll_back, self.work, self.work, self.checkpoint, self.restart)
        for verb in self.chance.choices(verbs, weights=(6, 3, 3, 1, 2, 2, 1, 1), k=steps):
            verb()
        self.own.close()
        self.worker.close()
        self.shop.close()

    def _new(self, many: int = 1) -> list[str]:
        ids = [job_id(number) for number in range(self.next, self.next + many)]
        self.next += many
        return ids

    def enqueue(self) -> None:
        (id_,) = self._new()
        will("job", "queued", id_)
        self.shop.app.enqueue(self.chance.choice((NOTE, BOOK)), self.next, id=id_)
        acknowledge("job", "queued", id_)
        self.waiting.append(id_)

    def enqueue_many(self) -> None:
        ids = self._new(self.chance.randint(2, 12))
        say(f"together {' '.join(ids)}")
        will("job", "queued", *ids)
        self.shop.app.enqueue_many([NOTE.new_job(self.next + place, id=id_, key=id_) for place, id_ in enumerate(ids)])
        acknowledge("job", "queued", *ids)
        self.waiting += ids

    def within(self) -> None:
        (id_,) = self._new()
        will("job", "queued", id_)
        self._order(id_)
        self.own.execute("COMMIT")
        acknowledge("job", "queued", id_)
        self.waiting.append(id_)

    def roll_back(self) -> None:
        (id_,) = self._new()
        acknowledge("job", GONE, id_)
        self._order(id_)
        self.own.execute("ROLLBACK")

    def _order(self, id_: str) -> None:
        self.own.execute("BEGIN IMMEDIATE")
        self.own.execute("INSERT INTO orders VALUES (?)", [id_])
        self.shop.app.enqueue(SHIP, 1, id=id_, within=self.own)

    def work(self) -> None:
        for status in ("in_progress", "completed"):
            will("job", status, *self.waiting)
        drain(self.worker.app)
        self.waiting.clear()

    def _tell(self, event: Event) -> None:
        if event.event == "completed" and event.job_type != "receipt":
            acknowledge("job", "completed", event.job_id)

    def checkpoint(self) -> None:
        self.own.execute(f"PRAGMA wal_checkpoint({self.chance.choice(('PASSIVE', 'FULL', 'RESTART', 'TRUNCATE'))})").fetchall()

    def restart(self) -> None:
        """The last connection to be closed checkpoints and removes the log."""
        self.own.close()
        self.worker.close()
        self.shop.close()
        self.own = self.shop.connect()
        self.own.execute(_synchronous())


def files(home: Path, chance: random.Random, steps: int) -> None:
    """Files written, replaced and deleted by a worker, one after the other."""
    shop = Shop(home)
    make_tables(shop)
    shop.base.mkdir(exist_ok=True)
    _make_durable(home)
    content: dict[str, str] = {}
    for number in range(1, steps + 1):
        id_, path = job_id(number), chance.choice(PATHS)
        new = GONE if path in content and chance.random() < 0.3 else chance.choice(("same", f"{number} " * chance.randint(1, 3000)))
        will("file", new, path)
        will("job", "queued", id_)
        if new == GONE:
            shop.app.enqueue(shop.files.delete, DeleteFile(path, require_exists=True), id=id_)
        else:
            shop.app.enqueue(shop.files.create, CreateFile(path, new, overwrite=chance.random() < 0.5 or path in content), id=id_)
        acknowledge("job", "queued", id_)
        for status in ("in_progress", "completed"):
            will("job", status, id_)
        assert drain(shop.app).counts == {"completed": 1}
        acknowledge("job", "completed", id_)
        acknowledge("file", new, path)
        content[path] = new
        if new == GONE:
            del content[path]
    shop.close()


def _make_durable(directory: Path) -> None:
    """The base directory is the application's own to make, and so is its durability."""
    descriptor = os.open(directory, os.O_RDONLY)
    os.fdatasync(descriptor)
    os.close(descriptor)


def crowd(home: Path, chance: random.Random, steps: int) -> None:
    """Three processes at once: two that enqueue, and a worker."""
    shop = Shop(home)
    make_tables(shop)
    shop.close()
    run = [sys.executable, "-m", "tests.torture.power_loss.workloads"]
    enqueuers = [subprocess.Popen([*run, "enqueuer", str(home), str(seed), str(steps), _plant()]) for seed in (1, 2)]
    worker = subprocess.Popen([*run, "worker", str(home), "0", str(steps), _plant()], stdin=subprocess.PIPE)
    codes = [process.wait() for process in enqueuers]
    worker.communicate()
    assert [*codes, worker.returncode] == [0, 0, 0], DIED


def enqueuer(home: Path, chance: random.Random, steps: int) -> None:
    shop, first = Shop(home), chance.getrandbits(60) << 20
    own = shop.connect()
    own.execute(_synchronous())
    for number in range(first, first + steps):
        id_ = job_id(number)
        will("there", "yes", id_)
        if chance.random() < 0.3:
            own.execute("BEGIN IMMEDIATE")
            own.execute("INSERT INTO orders VALUES (?)", [id_])
            shop.app.enqueue(SHIP, 1, id=id_, within=own)
            own.execute("COMMIT")
        else:
            shop.app.enqueue(chance.choice((NOTE, BOOK)), number, id=id_)
        acknowledge("there", "yes", id_)
    own.close()
    shop.close()


def worker(home: Path, chance: random.Random, steps: int) -> None:
    """Works until its input is closed, and then on what is left."""

    def tell(event: Event) -> None:
        if event.job_type != "receipt" and event.event == "claimed":
            will("done", "yes", event.job_id)
        elif event.job_type != "receipt" and event.event == "completed":
            acknowledge("done", "yes", event.job_id)

    shop = Shop(home)
    shop.app.events.subscribe(tell)
    os.set_blocking(0, False)
    is_closed = False
    while not is_closed:
        is_closed = _is_closed()
        drain(shop.app)
    shop.close()


def _is_closed() -> bool:
    try:
        return os.read(0, 1) == b""
    except BlockingIOError:
        return False


WORKLOADS: dict[str, Callable[[Path, random.Random, int], None]] = {
    "store": store,
    "files": files,
    "crowd": crowd,
    "enqueuer": enqueuer,
    "worker": worker,
}
CHECKPOINT_PAGES = 40
"""After so many pages of log a commit checkpoints; SQLite's own figure of 1,000 would need a recording ten times as long."""


# -- faults that must be found ------------------------------------------------------------------------------------------


def _plant() -> str:
    return sys.argv[5] if len(sys.argv) > 5 else ""


def _synchronous() -> str:
    return f"PRAGMA synchronous = {'NORMAL' if _plant() == 'synchronous=NORMAL' else 'FULL'}"


def _without_fsync(of_files: bool) -> None:
    """Make fsync do nothing, for files or for directories."""
    fsync = os.fsync

    def some(descriptor: int) -> None:
        is_directory = os.path.isdir(f"/proc/self/fd/{descriptor}")
        if is_directory == of_files:
            fsync(descriptor)

    os.fsync = some  # type: ignore[assignment]


def prepare(plant: str) -> None:
    """Plant a fault, if one is asked for."""
    pragmas = [*sqlite_connection.PRAGMAS, f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}"]
    if plant == "synchronous=NORMAL":
        pragmas = [pragma.replace("synchronous = FULL", "synchronous = NORMAL") for pragma in pragmas]
    elif plant in ("file not synced", "directory not synced"):
        _without_fsync(plant == "file not synced")
    sqlite_connection.PRAGMAS = tuple(pragmas)  # type: ignore[assignment]


def main() -> None:
    name, home, seed, steps = sys.argv[1:5]
    prepare(_plant())
    WORKLOADS[name](Path(home), random.Random(int(seed)), int(steps))


if __name__ == "__main__":
    main()
