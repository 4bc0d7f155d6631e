"""A fleet through one history: trouble, then healing, draining, and the verdict."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from onward.clock import FakeClock
from onward.drivers.sqlite import driver
from onward.drivers.sqlite.driver import SQLiteStore
from onward.errors import IllegalTransition, JobNotFound
from onward.inspection import JobFilter
from onward.status import Status
from tests.simulation import planted
from tests.simulation.clients import Client
from tests.simulation.workers import ALL_TYPES, Worker
from tests.simulation.world import LEASE, World
from tests.torture import tables
from tests.torture.checker import judge
from tests.torture.evidence import Run
from tests.torture.store import read_rows

WORKERS, CLIENTS = 3, 2
STEPS = (40, 120)
"""How many things happen before all is healed, at least and at most."""
MOST_ROUNDS = 400
UNFINISHED = JobFilter(statuses=(Status.QUEUED, Status.RETRYING, Status.IN_PROGRESS))
# The trigger's time is that of the statement, which the simulated clock gave.
AUDIT = tables.SQLITE.replace("julianday('now')", "julianday(NEW.updated_at)")
EMPTY = "".join(f"DELETE FROM {name};" for name in ("onward_jobs", "onward_keys", "onward_history", "audit", "effects", "orders"))


class Fleet:
    """The processes of one history."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._made = 0
        self._clients = [Client(world) for _ in range(CLIENTS)]
        self._workers = [self._new_worker() for _ in range(WORKERS)]

    def live(self) -> None:
        """Let them work, and things go wrong."""
        chance = self._world.chance
        for _ in range(chance.randint(*STEPS)):
            chance.choices(
                (self._client, self._worker, self._time, self._sweep, self._recover, self._deliver, self._cancel),
                (8, 24, 6, 2, 2, 2, 1),
            )[0]()
        self._workers[0].die()

    def heal(self) -> None:
        """Nothing goes wrong from here on, and everything comes to its end."""
        world = self._world
        world.is_healed = True
        for client in self._clients:
            while not client.is_done:
                client.step()
        self._clients[0].ask_for_one()
        for worker in self._workers:
            worker.wake()
        for _ in range(MOST_ROUNDS):
            self._deliver()
            for _ in range(2 * WORKERS):
                self._worker()
            if not world.store.count(UNFINISHED):
                return
            world.clock.advance(1)
            self._sweep()

    def _new_worker(self) -> Worker:
        self._made += 1
        return Worker(self._world, self._made)

    def _client(self) -> None:
        self._world.chance.choice(self._clients).step()

    def _worker(self) -> None:
        """One step of one of them; a dead one is replaced."""
        number = self._world.chance.randrange(WORKERS)
        if self._workers[number].is_dead:
            self._workers[number] = self._new_worker()
        self._workers[number].step()

    def _time(self) -> None:
        self._world.clock.advance(self._world.chance.choice((0.1, 0.5, 1, 2, LEASE / 3, 1.2 * LEASE)))

    def _sweep(self) -> None:
        self._world.store.sweep(ALL_TYPES)

    def _recover(self) -> None:
        """A supervisor takes back what a dead process held; most dead processes have none any more."""
        if self._world.dead:
            owner, started = self._world.dead.pop()
            if self._world.chance.random() < 0.5:
                self._world.store.recover(owner, started)

    def _deliver(self) -> None:
        """A message of a process that is gone."""
        if self._world.mail:
            mail = self._world.mail.pop(self._world.chance.randrange(len(self._world.mail)))
            self._world.say("fault", f"late {mail.what}")
            mail.deliver()

    def _cancel(self) -> None:
        """A person does not want a job any more."""
        jobs = self._world.store.find(UNFINISHED, limit=20)
        if jobs:
            job = self._world.chance.choice(jobs)
            try:
                self._world.store.cancel(job.id)
            except (IllegalTransition, JobNotFound):  # it has ended by now
                return


class Simulation:
    """A store that is used for one history after the other. ``bug`` names a planted one."""

    def __init__(self, path: Path, bug: str = "") -> None:
        self._clock = FakeClock()
        self._path = path
        self._store = SQLiteStore(path, clock=self._clock)
        self._store.migrate()
        self._store.open()
        planted.plant(self._store, bug)
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.executescript(AUDIT)

    def run(self, seed: int) -> tuple[list[str], World]:
        """One history from its seed. Gives what did not hold, and the world as it is then."""
        self._connection.executescript(f"BEGIN IMMEDIATE; {EMPTY} COMMIT;")
        self._clock.__init__()  # type: ignore[misc]  # the store keeps the object: its time begins anew
        world = World(self._store, self._clock, random.Random(seed))
        fleet = Fleet(world)
        fleet.live()
        fleet.heal()
        run = Run(world.events, read_rows(f"sqlite:///{self._path}"))
        return judge(run), world

    def close(self) -> None:
        self._connection.close()
        self._store.close()


@contextmanager
def simulation(folder: Path, bug: str = "") -> Iterator[Simulation]:
    """Make one, and close it. No other process writes its file, so no turn leaves room for one."""
    before, driver.PAUSE_BETWEEN_TURNS = driver.PAUSE_BETWEEN_TURNS, 0.0
    try:
        made = Simulation(folder / "jobs.db", bug)
        try:
            yield made
        finally:
            made.close()
    finally:
        driver.PAUSE_BETWEEN_TURNS = before
