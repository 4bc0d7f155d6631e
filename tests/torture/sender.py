"""Enqueues jobs in every way until it is told to stop, and says what it knows of each. A process of its own.

Arguments: a seed. What stays unknown is asked again under the same id until it is known, as an application should.
"""

from __future__ import annotations

import random
import signal
import sqlite3
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import psycopg

from onward import Onward, OutcomeUnknown
from onward.errors import OnwardError, StoreError, StoreUnavailable
from onward.ids import new_id
from tests.torture import cancelled, planted, waiting
from tests.torture.application import JOBS, payload_of
from tests.torture.history import History
from tests.torture.store import borrowed_connection

PLAIN_TYPES = (
    "plain",
    "plain",
    "plain",
    "awaited",
    "effect",
    "effect",
    "parent",
    "flaky",
    "once",
    "write",
    "write",
    "remove",
    "indiscreet",
)
RARE_TYPES = ("slow",) * 7 + ("pill",)
PRIORITIES = (0, 0, 0, 5, -5)
PATIENCE = 60.0
PAUSE = 0.07
"""Seconds between two requests, and two tries, on average."""
LONGEST_WAIT = 5.0


class RolledBack(Exception):
    """Raised to roll a transaction back on purpose."""


class Sender:
    """One caller. ``say`` writes its history."""

    def __init__(self, app: Onward, history: History, chance: random.Random) -> None:
        self._app = app
        self._say = history.write
        self._chance = chance
        self.is_stopping = False
        self._last = ""
        self._verbs: tuple[Callable[[], None], ...] = (
            *(self.one, self.one, self.many, self.transaction, self.within, self.key, self.key, self.wait, self.cancel),
            *(self.shared, self.shared),
        )

    def run(self) -> None:
        while not self.is_stopping or planted.crashes():
            self._chance.choice(self._verbs)()
            time.sleep(self._chance.uniform(0, 2 * PAUSE))

    # -- the ways ----------------------------------------------------------------------------------------------------

    def one(self) -> None:
        """A single job; some are due in a second, some are rare kinds."""
        rare = self._chance.random() < 0.15
        name = self._chance.choice(RARE_TYPES if rare else PLAIN_TYPES)
        self._send("enqueue", name, delay=self._chance.choice((0, 0, 0, 0.7)), priority=self._chance.choice(PRIORITIES))

    def many(self) -> None:
        """Several in one commit."""
        names = [self._chance.choice(PLAIN_TYPES) for _ in range(self._chance.randint(2, 6))]
        ids = [new_id() for _ in names]
        numbers = [self._number() for _ in names]

        def enqueue() -> None:
            jobs = zip(names, ids, numbers, strict=True)
            self._app.enqueue_many([JOBS[name].new_job(payload_of(name, number), id=id_) for name, id_, number in jobs])

        self._insist("many", ids, names, enqueue)

    def shared(self) -> None:
        """Several in one commit that wait for each other, and for those of other senders."""
        name, key = self._chance.choice(waiting.TYPES), self._chance.randrange(waiting.KEYS)
        ids = [new_id() for _ in range(self._chance.randint(3, 8))]
        numbers = [key + waiting.KEYS * self._number() for _ in ids]

        def enqueue() -> None:
            self._app.enqueue_many([JOBS[name].new_job(number, id=id_) for number, id_ in zip(numbers, ids, strict=True)])

        self._insist("shared", ids, [name] * len(ids), enqueue)
        self._last = ""  # nobody waits for their results, which may take a while

    def transaction(self) -> None:
        """With a row of the application, in the store's own transaction; a quarter is rolled back."""
        job_id, number, rolls_back = new_id(), self._number(), self._chance.random() < 0.25

        def enqueue() -> None:
            with self._app.transaction() as connection:
                self._order(connection, job_id, number)
                if rolls_back:
                    raise RolledBack

        self._insist("transaction", [job_id], ["plain"], enqueue, rolled_back=rolls_back)

    def within(self) -> None:
        """The same on a connection of the caller's own."""
        job_id, number, rolls_back = new_id(), self._number(), self._chance.random() < 0.25

        def enqueue() -> None:
            with borrowed_connection(self._app.store.url) as borrowed:
                self._order(borrowed.connection, job_id, number)
                if rolls_back:
                    raise RolledBack
                borrowed.commit(job_id)

        self._insist("within", [job_id], ["plain"], enqueue, rolled_back=rolls_back)

    def key(self) -> None:
        """One of the keys that all senders ask for at about the same time."""
        self._send("keyed", "keyed", key=f"key-{int(time.time() * 4) % 5}")

    def cancel(self) -> None:
        """One that is wanted no more soon after."""
        job_id = self._send("enqueue", self._chance.choice(cancelled.TYPES))
        time.sleep(self._chance.uniform(0, 6 * PAUSE))
        cancelled.ask(self._app, self._say, job_id)
        self._last = ""  # nobody waits for its result

    def wait(self) -> None:
        """For the end of the last job, as a caller does that wants its result: so nobody asks for more than the workers can do."""
        until = time.monotonic() + LONGEST_WAIT
        while self._last and not self.is_stopping and time.monotonic() < until:
            try:
                if self._app.get(self._last).status.is_final:
                    break
            except OnwardError:
                pass
            time.sleep(PAUSE)

    # -- what came of it -----------------------------------------------------------------------------------------------

    def _number(self) -> int:
        return self._chance.randrange(1000)

    def _order(self, connection: Any, job_id: str, number: int) -> None:
        try:
            connection.execute(f"INSERT INTO orders (job_id) VALUES ('{job_id}') ON CONFLICT DO NOTHING")
        except (sqlite3.Error, psycopg.Error) as error:
            raise StoreUnavailable(f"the caller's own statement failed: {error}") from error
        self._app.enqueue(JOBS["plain"], number, id=job_id, within=connection)

    def _send(self, verb: str, name: str, **options: Any) -> str:
        job_id, number = new_id(), self._number()

        def enqueue() -> str:
            return self._app.enqueue(JOBS[name], payload_of(name, number), id=job_id, **options).id

        self._insist(verb, [job_id], [name], enqueue, key=options.get("key", ""))
        return job_id

    def _insist(
        self,
        verb: str,
        ids: Sequence[str],
        names: Sequence[str],
        enqueue: Callable[[], object],
        *,
        rolled_back: bool = False,
        key: str = "",
    ) -> None:
        """Ask, and ask again while nobody knows what became of it."""
        for id_, name in zip(ids, names, strict=True):
            self._say("invoke", verb, job=id_, type=name, rolled_back=rolled_back, key=key)
        is_unknown = False
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            try:
                holder = "" if planted.acknowledges_too_early() else enqueue()
            except RolledBack:
                return self._tell("fail", verb, ids, key, detail="rolled back")
            except OutcomeUnknown as error:
                is_unknown = True
                self._tell("unknown", verb, ids, key, detail=str(error)[:200])
            except StoreError as error:
                if not is_unknown:
                    return self._tell("fail", verb, ids, key, detail=f"{type(error).__name__}: {error}"[:200])
            else:
                self._last = ids[0] if not key else self._last
                return self._tell("ok", verb, ids, key, holder=holder if isinstance(holder, str) else "")
            time.sleep(4 * PAUSE)
        return None

    def _tell(self, kind: Any, verb: str, ids: Sequence[str], key: str, *, holder: str = "", detail: str = "") -> None:
        for id_ in ids:
            self._say(kind, verb, job=id_, key=key, holder=holder if key else "", detail=detail)


def main(seed: str) -> None:
    app = Onward(jobs=JOBS.values())
    sender = Sender(app, History(role="sender"), random.Random(seed))

    def stop(number: int, frame: object) -> None:
        sender.is_stopping = True

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    sender.run()
    app.close()


if __name__ == "__main__":
    main(sys.argv[1])
