"""Bugs that a run can be given on purpose, to see that the checker finds them. ``TORTURE_PLANTED`` names one; otherwise nothing happens."""

from __future__ import annotations

import itertools
import os
import random
import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from onward import JobContext, Onward, TransientJobError
from onward.ids import new_id

NAME = "TORTURE_PLANTED"
UNFENCED, EARLY_ACKNOWLEDGEMENT, EFFECT_OUTSIDE, FAST_CLOCK = (
    "unfenced",
    "early acknowledgement",
    "effect outside",
    "fast clock in the sweep",
)
UNREDACTED, UNPLACED, DISORDERED = "unredacted", "unplaced file", "last in, first out"
DEAF, MISCOUNTED = "deaf to pauses", "only the last portion is counted"
FORGETFUL, TWICE = "forgets who was cancelled", "fires what others have fired"
LIMITLESS, OVERTAKING, EAGER = "counts nobody who runs", "a retry loses its place", "a second probe"
CRASH = "sender crashes"
CAUGHT_BY = {
    CRASH: {"fleet"},
    UNFENCED: {"I6", "I7", "I9", "I10"},
    EARLY_ACKNOWLEDGEMENT: {"I1"},
    EFFECT_OUTSIDE: {"I10"},
    FAST_CLOCK: {"I5"},
    UNREDACTED: {"I20"},
    UNPLACED: {"I18"},
    DISORDERED: {"I14"},
    DEAF: {"I21"},
    MISCOUNTED: {"I22"},
    FORGETFUL: {"I24"},
    TWICE: {"I16"},
    LIMITLESS: {"I25"},
    OVERTAKING: {"I26"},
    EAGER: {"I27"},
}
"""For each, the invariants of which at least one must be found broken; ``fleet`` is what is seen while it runs."""
IN_EVERY_TEST_RUN = (UNFENCED, EARLY_ACKNOWLEDGEMENT, CRASH)
"""The others are planted by ``make torture-release``."""
NEEDS = {UNFENCED: "pause", DISORDERED: "kill every worker"}
"""The fault without which a bug does no harm; the others are found while workers are killed."""
NEED_A_PERSON = (DEAF, MISCOUNTED)
"""Bugs in what is done to many jobs at once."""
_requests = itertools.count(1)
_FENCE = " AND {table}.fence = ended.fence AND {table}.status = 'in_progress'"
_BEGUN = "(other.fence = 0) = 0 AND other.status IN ('queued', 'retrying', 'in_progress')"
CHANGED: dict[str, tuple[tuple[str, str, str], ...]] = {
    DISORDERED: (("due", "ORDER BY scheduled_at, id", "ORDER BY scheduled_at DESC, id DESC"),),
    DEAF: (("lanes", "WHERE asked.value NOT IN (SELECT name FROM onward_queues)", "WHERE true"),),
    MISCOUNTED: (("count_acted", "done = done + :done", "done = :done"),),
    LIMITLESS: (("running_of_keys", "status = 'in_progress'", "status = 'dead_letter'"),),
    OVERTAKING: tuple((name, _BEGUN, "other.status = 'in_progress'") for name in ("lines", "idle_lines")),
    EAGER: (("breaker_states", "job.status = 'in_progress'", "job.status = 'completed'"),),
}
"""Bugs that are no more than other words in statements: the statement, the words, and what stands for them."""


def is_planted(name: str) -> bool:
    """Say whether this process is to have the bug."""
    return os.environ.get(NAME) == name


def spoil(app: Onward) -> Onward:
    """Give the application back with its bug, if there is one for workers. Only on SQLite."""
    statements = getattr(app.store, "statements", None)
    if is_planted(UNFENCED):
        assert isinstance(statements, dict)
        for name in ("complete", "settle"):
            statements[name] = _changed(statements[name], _FENCE.format(table="onward_jobs"), "")
        from onward.worker.slots import Slots

        Slots.lose = lambda self, run: False  # type: ignore[method-assign]  # a worker's own deadline would hide it
    if is_planted(FAST_CLOCK):
        assert isinstance(statements, dict)
        fast = "lease_until <= strftime('%Y-%m-%dT%H:%M:%f000Z', :now, '+1.6 seconds')"
        statements["run_out"] = _changed(statements["run_out"], "lease_until <= :now", fast)
    if is_planted(FORGETFUL):
        assert isinstance(statements, dict)
        for name in ("asked_to_cancel", "cancel_requested"):
            statements[name] = _changed(statements[name], "cancel_requested_at IS NOT NULL", "cancel_requested_at < 0")
    if is_planted(TWICE):
        assert isinstance(statements, dict)
        version = " AND version = json_extract(asked.value, '$[10]')"
        statements["change_periodic"] = _changed(statements["change_periodic"], version, "")
        from onward import moments

        moments.moment_id = lambda name, moment: new_id()
    if os.environ.get(NAME) in CHANGED:
        assert isinstance(statements, dict)
        for name, old, new in CHANGED[os.environ[NAME]]:
            statements[name] = _changed(statements[name], old, new)
    if is_planted(UNREDACTED):
        from onward import redact

        redact.redact = lambda text: text
    return app


def _changed(text: str, old: str, new: str) -> str:
    assert old in text, f"the statement has no {old!r} to plant a bug in: {text}"
    return text.replace(old, new)


def transaction(context: JobContext) -> AbstractContextManager[Any]:
    """The context's transaction; with the bug, one that commits the effect by itself, and then the handler may fail."""
    return _committed_before(context) if is_planted(EFFECT_OUTSIDE) else context.transaction()


@contextmanager
def _committed_before(context: JobContext) -> Iterator[Any]:
    path = os.environ["ONWARD_URL"].removeprefix("sqlite:///").partition("?")[0]
    connection = sqlite3.connect(path, timeout=10)
    with connection:
        yield connection
    connection.close()
    if random.random() < 0.5:
        raise TransientJobError("after its effect")


def crashes() -> bool:
    """Say whether senders crash. Then they go on until they do, also when they are told to stop: a short run must have the bug."""
    return is_planted(CRASH)


def acknowledges_too_early() -> bool:
    """Say whether this enqueue is to be acknowledged without being stored: one in four, with the bug. With another, the fourth crashes.

    Counted, not drawn: a short run sends a few dozen requests, and each run must have the bug.
    """
    number = next(_requests)
    if crashes() and number == 4:
        raise RuntimeError("an error that no sender expects")
    return is_planted(EARLY_ACKNOWLEDGEMENT) and number % 4 == 1
