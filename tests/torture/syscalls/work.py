"""What the programs do: each announces a change, makes it, and acknowledges it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from onward.events import Event
from onward.inspection import Retention
from onward.outcome import Completed, DeadLettered, Retried
from onward.testing import drain
from onward.turn import Claim, Settlement
from tests.torture.promises import GONE, acknowledge, say, will
from tests.torture.shop import NOTE, SHIP, Shop, job_id
from tests.torture.syscalls.before import DEAD, ME, demand


def enqueue(shop: Shop) -> None:
    for number in range(1, 5):
        will("job", "queued", job_id(number))
        shop.app.enqueue(NOTE, number, id=job_id(number))
        acknowledge("job", "queued", job_id(number))


def die(shop: Shop) -> None:
    shop.app.enqueue_many([NOTE.new_job(number, id=job_id(number)) for number in range(50, 55)])
    os.kill(os.getpid(), signal.SIGKILL)


def acknowledge_early(shop: Shop) -> None:
    """A planted fault: what is acknowledged is not committed yet."""
    will("job", "queued", job_id(1))
    acknowledge("job", "queued", job_id(1))
    shop.app.enqueue(NOTE, 1, id=job_id(1))


def commit_twice(shop: Shop) -> None:
    """A planted fault: the row and its job are two commits."""
    shop.store.open()
    connection = shop.connect()
    connection.execute("INSERT INTO orders VALUES (?)", [job_id(1)])
    will("job", "queued", job_id(1))
    shop.app.enqueue(SHIP, 1, id=job_id(1))
    acknowledge("job", "queued", job_id(1))
    connection.close()


def key_apart(shop: Shop) -> None:
    """A planted fault: the key is committed before its job."""
    shop.store.open()
    connection = shop.connect()
    row = ("", NOTE.name, "note-1", job_id(1), NOTE.new_job(1).payload_hash)
    connection.execute("INSERT INTO onward_keys (owner, type, key, job_id, payload_hash) VALUES (?, ?, ?, ?, ?)", row)
    will("job", "queued", job_id(1))
    shop.app.enqueue(NOTE, 1, id=job_id(1))
    acknowledge("job", "queued", job_id(1))
    connection.close()


def enqueue_many(shop: Shop) -> None:
    for group in (range(10, 30), range(30, 35)):
        ids = [job_id(number) for number in group]
        say(f"together {' '.join(ids)}")
        will("job", "queued", *ids)
        shop.app.enqueue_many([NOTE.new_job(number, id=job_id(number)) for number in group])
        acknowledge("job", "queued", *ids)


def within(shop: Shop) -> None:
    """Three transactions of the application's, the second of which is rolled back; and one of the store's own."""
    shop.store.open()
    connection = shop.connect()
    for number, end in ((1, "COMMIT"), (2, "ROLLBACK"), (3, "COMMIT")):
        if end == "COMMIT":
            will("job", "queued", job_id(number))
        else:
            acknowledge("job", GONE, job_id(number))
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO orders VALUES (?)", [job_id(number)])
        shop.app.enqueue(SHIP, number, id=job_id(number), within=connection)
        connection.execute(end)
        if end == "COMMIT":
            acknowledge("job", "queued", job_id(number))
    connection.close()
    will("job", "queued", job_id(4))
    with shop.app.transaction() as own:
        own.execute("INSERT INTO orders VALUES (?)", [job_id(4)])
        shop.app.enqueue(SHIP, 4, id=job_id(4), within=own)
    acknowledge("job", "queued", job_id(4))


def turn(shop: Shop) -> None:
    """Claim; settle and claim in one turn; fail, and give up."""
    ids = [job_id(number) for number in range(1, 5)]
    will("job", "in_progress", *ids[:2])
    first = shop.store.turn(demand=demand(ME, 2)).claims
    acknowledge("job", "in_progress", *ids[:2])
    say(f"with {ids[0]} {job_id(90)}")
    will("job", "queued", job_id(90))
    will("job", "completed", *ids[:2])
    will("job", "in_progress", *ids[2:])
    child = NOTE.new_job(90, id=job_id(90))
    second = shop.store.turn([_completed(first[0], child), _completed(first[1])], demand(ME, 2)).claims
    acknowledge("job", "queued", job_id(90))
    acknowledge("job", "completed", *ids[:2])
    acknowledge("job", "in_progress", *ids[2:])
    will("job", "retrying", ids[2])
    will("job", "dead_letter", ids[3])
    failed = Settlement(claim=second[0], outcome=Retried(timedelta(minutes=1), "boom"))
    shop.store.turn([failed, Settlement(claim=second[1], outcome=DeadLettered("hopeless"))])
    acknowledge("job", "retrying", ids[2])
    acknowledge("job", "dead_letter", ids[3])


def _completed(claim: Claim, *children: Any) -> Settlement:
    return Settlement(claim=claim, outcome=Completed(), children=children, keeps_history=True)


def run_handlers(shop: Shop) -> None:
    """Whole turns of a worker: handlers whose effect, child and completion are one commit."""

    def tell(event: Event) -> None:
        if event.event == "completed" and event.job_type == "book":
            acknowledge("job", "completed", event.job_id)

    shop.app.events.subscribe(tell)
    for status in ("in_progress", "completed"):
        will("job", status, job_id(1), job_id(2))
    drain(shop.app)


def retry(shop: Shop) -> None:
    for number in (1, 2):
        will("job", "queued", job_id(number))
        shop.app.retry(job_id(number))
        acknowledge("job", "queued", job_id(number))


def manage(shop: Shop) -> None:
    """Run now, cancel, delete, prune."""
    will("job", "queued", job_id(3))
    shop.store.run_now(job_id(3))
    acknowledge("job", "queued", job_id(3))
    will("job", "cancelled", job_id(5))
    shop.app.cancel(job_id(5))
    acknowledge("job", "cancelled", job_id(5))
    will("job", GONE, job_id(1))
    shop.store.delete(job_id(1))
    acknowledge("job", GONE, job_id(1))
    will("job", GONE, job_id(4))
    shop.store.prune(Retention(completed=timedelta(minutes=1)))
    acknowledge("job", GONE, job_id(4))


def sweep(shop: Shop) -> None:
    lost = [job_id(number) for number in (1, 2, 3)]
    will("job", "queued", *lost)
    will("job", "cancelled", job_id(6))
    swept = shop.store.sweep(["note"])
    assert (len(swept.requeued), len(swept.expired)) == (3, 1), swept
    acknowledge("job", "queued", *lost)
    acknowledge("job", "cancelled", job_id(6))
    will("job", "queued", job_id(4), job_id(5))
    shop.store.recover(DEAD, [job_id(4)])
    acknowledge("job", "queued", job_id(4), job_id(5))


def migrate(shop: Shop) -> None:
    shop.store.migrate()


def work_on_files(final: str) -> Callable[[Shop], None]:
    def work(shop: Shop) -> None:
        def tell(event: Event) -> None:
            if event.event == "completed":
                acknowledge("job", "completed", event.job_id)
                acknowledge("file", final, "new/deep/x")

        shop.app.events.subscribe(tell)
        for status in ("in_progress", "completed"):
            will("job", status, job_id(2))
        drain(shop.app)

    return work
