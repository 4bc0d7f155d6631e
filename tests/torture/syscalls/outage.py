"""A program whose storage fails: it goes on after each error as an application does, and says what the error promised."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import suppress

from onward.errors import OutcomeUnknown, StoreError
from onward.testing import drain
from tests.torture.promises import GONE, acknowledge, say, will
from tests.torture.shop import BOOK, NOTE, SHIP, Shop, job_id

TRIES = 4
LAST = 99
LAST_TRIES = 40
"""How often the last enqueue is tried: a fault that lasts a while is over by then."""
LATER = ("in_progress", "retrying", "completed")
"""What a worker may have made of a job. The commit in its handler's own transaction may meet the fault, and then that try has failed."""


def meet_errors(shop: Shop) -> None:
    """Each way to enqueue, and turns of a worker, one after the other."""
    for number in range(1, 4):
        _enqueue(shop, number)
    _enqueue_together(shop, range(10, 20))
    _within(shop, 20)
    drain_what_goes(shop)
    shop.close()
    _enqueue(shop, 30)
    drain_what_goes(shop)
    for _ in range(LAST_TRIES):
        if _enqueue(shop, LAST, tries=1):
            break


def drain_what_goes(shop: Shop) -> None:
    """Turns of a worker, until one fails."""
    try:
        drain(shop.app)
    except OutcomeUnknown:
        say("note unknown")
    except StoreError as error:
        say(f"note {type(error).__name__}")


def _enqueue(shop: Shop, number: int, tries: int = TRIES) -> bool:
    job = BOOK if number % 2 else NOTE
    return _try([job_id(number)], lambda: shop.app.enqueue(job, number, id=job_id(number)), tries)


def _enqueue_together(shop: Shop, numbers: range) -> None:
    ids = [job_id(number) for number in numbers]
    say(f"together {' '.join(ids)}")
    jobs = [NOTE.new_job(number, id=job_id(number)) for number in numbers]
    _try(ids, lambda: shop.app.enqueue_many(jobs), TRIES)


def _try(ids: list[str], enqueue: Callable[[], object], tries: int) -> bool:
    """Enqueue. After an unknown outcome repeat it with the same ids; after any other error nothing may be stored."""
    is_unknown = False
    for _ in range(tries):
        # A worker may run it before the answer to a repetition is there.
        for status in ("queued", *LATER):
            will("job", status, *ids)
        try:
            enqueue()
        except OutcomeUnknown as error:
            if set(error.job_ids) != set(ids):
                raise AssertionError(f"it does not name what is unknown: {error.job_ids}") from error
            is_unknown = True
            say("note unknown")
        except StoreError as error:
            if "\n" in str(error):
                raise AssertionError("it is not one line") from error
            say(f"note {type(error).__name__}")
            if not is_unknown:
                acknowledge("job", GONE, *ids)
        else:
            acknowledge("job", "queued", *ids)
            for status in LATER:
                will("job", status, *ids)
            return True
    return False


def _within(shop: Shop, number: int) -> None:
    """The application's own transaction: its errors are SQLite's, and a commit that failed may have taken place."""
    id_ = job_id(number)
    for status in ("queued", *LATER):
        will("job", status, id_)
    for _ in range(TRIES):
        with suppress(sqlite3.Error, StoreError):
            connection = shop.connect()
            try:
                connection.execute("BEGIN IMMEDIATE")
                connection.execute("INSERT OR IGNORE INTO orders VALUES (?)", [id_])
                shop.app.enqueue(SHIP, number, id=id_, within=connection)
                connection.execute("COMMIT")
            finally:
                connection.close()
            acknowledge("job", "queued", id_)
            for status in LATER:
                will("job", status, id_)
            return
        say("note error of a caller's transaction")
