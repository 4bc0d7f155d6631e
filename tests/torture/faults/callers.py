"""What happens to the transactions of callers: others write first, wait for them, or make them impossible. What fails is not accepted."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import psycopg

from onward.errors import OnwardError, StoreBusy
from onward.ids import new_id
from tests.torture.application import JOBS
from tests.torture.faults.kinds import POSTGRES, SQLITE, Fault
from tests.torture.fleet import Fleet
from tests.torture.store import path_of

ROUNDS = 5
PATIENCE = 20.0
ROWS = (
    "CREATE TABLE IF NOT EXISTS public.crossed (id int PRIMARY KEY, times int)",
    "INSERT INTO public.crossed VALUES (1, 0), (2, 0) ON CONFLICT DO NOTHING",
)


class Caller:
    """Enqueues within a transaction of its own, and writes what became of that."""

    def __init__(self, fleet: Fleet, fault: str, connection: Any) -> None:
        self._fleet = fleet
        self._fault = fault
        self.connection = connection
        self._asked: list[tuple[str, str, str]] = []

    def enqueue(self, key: str = "") -> None:
        job_id, name = new_id(), "keyed" if key else "plain"
        self._fleet.history.write("invoke", self._fault, job=job_id, type=name, key=key)
        self._asked.append((job_id, key, ""))
        options: dict[str, Any] = {"key": key} if key else {}
        holder = self._fleet.app.enqueue(JOBS[name], 1, id=job_id, within=self.connection, **options).id
        self._asked[-1] = (job_id, key, holder if key else "")

    def tell(self, kind: Any, detail: str = "") -> None:
        for job_id, key, holder in self._asked:
            self._fleet.history.write(kind, self._fault, job=job_id, key=key, holder=holder if kind == "ok" else "", detail=detail[:200])

    def commit(self) -> bool:
        """Say whether it did. A conflict is a refusal: nothing was committed."""
        try:
            self.connection.commit()
        except (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected) as error:
            self.tell("fail", str(error))
            return False
        self.tell("ok")
        return True


def upgrade_conflict(fleet: Fleet) -> None:
    """A caller reads, another writes, and the caller enqueues in the transaction that has read."""
    fault = "upgrade conflict"
    for _ in range(ROUNDS):
        fleet.history.write("fault", fault)
        with closing(sqlite3.connect(path_of(fleet.site.direct), timeout=2, isolation_level=None)) as connection:
            caller = Caller(fleet, fault, connection)
            connection.execute("BEGIN")
            connection.execute("SELECT count(*) FROM orders").fetchone()
            fleet.enqueue("plain")
            try:
                caller.enqueue()
            except StoreBusy as refusal:
                caller.tell("fail", str(refusal))
            else:
                fleet.failures.append("an enqueue was accepted in a transaction whose snapshot is too old to write")
            connection.execute("ROLLBACK")
        fleet.history.write("healed", fault)


def crossed_updates(fleet: Fleet) -> None:
    """Two callers update the same rows, or take the same keys, in opposite orders: one of them is refused, the other goes on."""
    fault = "crossed updates"
    for statement in ROWS:
        fleet.site.postgres.execute(statement)
    for number in range(ROUNDS):
        fleet.history.write("fault", fault)
        key = f"crossed {new_id()} " if number % 2 else ""
        meeting = threading.Barrier(2)
        with ThreadPoolExecutor(2) as both:
            orders = ((1, 2), (2, 1))
            ended = list(both.map(lambda order: _cross(fleet, fault, order, key, meeting), orders))  # noqa: B023 - called at once
        if sorted(ended) != [False, True]:
            fleet.failures.append(f"of two callers who waited for each other, {sum(ended)} committed")
        fleet.history.write("healed", fault)


def _cross(fleet: Fleet, fault: str, order: Sequence[int], key: str, meeting: threading.Barrier) -> bool:
    with closing(psycopg.connect(fleet.site.direct, options="-c deadlock_timeout=50ms")) as connection:
        caller = Caller(fleet, fault, connection)
        steps: list[Callable[[], object]] = [_step(caller, number, key) for number in order]
        try:
            steps[0]()
            meeting.wait(PATIENCE)
            steps[1]()
        except (psycopg.errors.DeadlockDetected, OnwardError) as refusal:
            if not isinstance(refusal, psycopg.errors.DeadlockDetected | StoreBusy):
                fleet.failures.append(f"a caller that was one of two in a deadlock was told {refusal!r}")
            caller.tell("fail", str(refusal))
            return False
        return caller.commit()


def _step(caller: Caller, number: int, key: str) -> Callable[[], object]:
    def update() -> None:
        caller.connection.execute("UPDATE public.crossed SET times = times + 1 WHERE id = %s", [number])
        caller.enqueue()

    return (lambda: caller.enqueue(f"{key}{number}")) if key else update


def serializable_callers(fleet: Fleet) -> None:
    """Two serializable callers each write what the other has read: the second to commit is refused."""
    fault = "serializable callers"
    for statement in ROWS:
        fleet.site.postgres.execute(statement)
    for _ in range(ROUNDS):
        fleet.history.write("fault", fault)
        with closing(psycopg.connect(fleet.site.direct)) as one, closing(psycopg.connect(fleet.site.direct)) as other:
            callers = [Caller(fleet, fault, connection) for connection in (one, other)]
            for number, caller in enumerate(callers, 1):
                caller.connection.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
                caller.connection.execute("SELECT times FROM public.crossed WHERE id = %s", [number]).fetchone()
            ended = [_writes(caller, 3 - number) for number, caller in enumerate(callers, 1)]
            ended = [is_good and caller.commit() for is_good, caller in zip(ended, callers, strict=True)]
        if sum(ended) > 1:
            fleet.failures.append("two serializable callers committed what no order of the two explains")
        fleet.history.write("healed", fault)


def _writes(caller: Caller, number: int) -> bool:
    try:
        caller.connection.execute("UPDATE public.crossed SET times = times + 1 WHERE id = %s", [number])
        caller.enqueue()
    except (psycopg.errors.SerializationFailure, StoreBusy) as refusal:
        caller.tell("fail", str(refusal))
        return False
    return True


FAULTS = (
    Fault("upgrade conflict", 22, upgrade_conflict, SQLITE),
    Fault("crossed updates", 32, crossed_updates, POSTGRES),
    Fault("serializable callers", 32, serializable_callers, POSTGRES),
)
