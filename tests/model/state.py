"""What the model knows: rows of the store, claims in the memory of processes, and what has happened, as plain values.

Time is counted in ticks and relative to now, so that a state does not depend on when it is: a lease of 1 runs out with the next tick.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from onward.status import Status

QUEUED, RETRYING, IN_PROGRESS = Status.QUEUED.value, Status.RETRYING.value, Status.IN_PROGRESS.value
COMPLETED, DEAD_LETTER, CANCELLED = Status.COMPLETED.value, Status.DEAD_LETTER.value, Status.CANCELLED.value
CLAIMABLE = frozenset(one.value for one in Status if one.is_claimable)
FINAL = frozenset(one.value for one in Status if one.is_final)

LEASE = 1
"""Ticks. It is the longest lease as well: one that ends later was given before the clock went back."""
BACK_OFF = 1
"""Ticks that a failed or snoozed job waits."""
RENEWED = 1000
"""Stands for a lease that was read before it was renewed: it is not the row's any more, however long both of them have been over."""
NOBODY = -1
DIED_WAITING, DIED_RUNNING = -2, -3
"""Who holds a claim whose process is dead: by the map of started jobs its handler had not begun, or it had."""

# How far a claim is in the process that made it.
WAITING, ALONE, RUNNING, ELSEWHERE, SENT = "waiting", "alone", "running", "running elsewhere", "sent"
"""Its handler has not begun; the store was told that it begins alone; it runs; it runs in a process of its own, whose death the worker
outlives; it ended and the answer of the store was lost."""
RUNS = (RUNNING, ELSEWHERE)


class Row(NamedTuple):
    """A job in the store."""

    status: str
    due: int
    """Ticks until it may run."""
    expiry: int | None
    """Ticks until it may not run any more."""
    attempts: int = 0
    fence: int = 0
    lost: int = 0
    releases: int = 0
    snoozes: int = 0
    isolated: bool = False
    ran_isolated: bool = False
    cancel: bool = False
    """A person asked the running job to stop."""
    owner: int = NOBODY
    lease: int = 0
    error: str | None = None


class Claim(NamedTuple):
    """A claim as a process holds it: the row as it was claimed, which may be a stale one by now."""

    job: int
    row: Row
    phase: str = WAITING
    ending: str | None = None
    """How its handler ended, where that was sent already."""


class Past(NamedTuple):
    """What has happened to a job. Only the judge reads it: no rule of the protocol may depend on it."""

    top: int = 0
    """The highest fence there ever was."""
    ending: str | None = "none yet"
    """How the newest claim ended; None while it has not."""
    has_begun: bool = False
    """The handler of the newest claim has begun."""
    was_alone: bool = False
    """It began when no other handler was in its process."""
    is_elsewhere: bool = False
    """It began in a process of its own, so that it cannot harm its worker."""
    claims: int = 0
    given_back: int = 0
    losses: int = 0
    kills: int = 0
    """Losses of claims whose handler had begun in the worker's process, and may have killed it."""
    releases: int = 0
    """Of handlers that had begun."""
    snoozes: int = 0
    has_completed: bool = False
    is_gone: bool = False


class Look(NamedTuple):
    """What a sweeper or supervisor has read and not acted upon yet."""

    why: str
    job: int
    row: Row


class State(NamedTuple):
    rows: tuple[Row | None, ...]
    pasts: tuple[Past, ...]
    holder: int
    """The job that holds the key, or ``NOBODY``."""
    processes: tuple[tuple[Claim, ...], ...]
    late: Claim | None
    """What a process sent before it died, and what has not arrived yet."""
    look: Look | None
    doubters: tuple[int, ...]
    """Clients that saw the key free and have not enqueued yet; only where a planted fault lets them."""
    retries: int
    """How often a person may still retry a job."""
    give_backs: int
    """How often a claim whose handler has not begun may still be given back: nothing else bounds it."""
    steps_back: int
    """How many ticks the clock may still go back."""


@dataclass(frozen=True)
class Scope:
    """How much there is in a search: everything that may happen in it, in every order, is looked at."""

    name: str
    jobs: int = 1
    """Enqueued by clients."""
    has_child: bool = False
    """The first job enqueues one more with its completion."""
    processes: int = 2
    slots: int = 1
    """Claims that a process holds at once."""
    max_attempts: int = 1
    has_key: bool = True
    """All jobs, the child included, are enqueued under one key."""
    is_isolated: bool = False
    """By its definition, and not only after a loss."""
    has_own_processes: bool = False
    """Isolated handlers run in processes of their own; else they have the worker's to themselves."""
    expiry: int | None = None
    """Ticks after the enqueue."""
    endings: tuple[str, ...] = ("returned", "failed", "released")
    acts: frozenset[str] = frozenset()
    """What else may happen: see ``ACTS``."""
    has_time: bool = True
    """Without it no lease runs out and nothing becomes due, so that a search of other things is short."""
    retries: int = 0
    give_backs: int = 0
    steps_back: int = 0

    @property
    def total(self) -> int:
        return self.jobs + self.has_child

    @property
    def child(self) -> int:
        return self.jobs


ACTS = frozenset({"cancel", "run now", "delete", "crash", "late", "unknown", "two steps", "enqueue again"})
"""A person cancels, runs now, deletes; a process dies; what it sent arrives later; an answer of the store is lost; sweep and recovery read
first and write later, with others in between; a client repeats a request whose job is gone.

A frozen process needs no act of its own: it takes no step while others do, and any later one when it thaws."""


def start(scope: Scope) -> State:
    """Give the empty store."""
    return State(
        rows=(None,) * scope.total,
        pasts=(Past(),) * scope.total,
        holder=NOBODY,
        processes=((),) * scope.processes,
        late=None,
        look=None,
        doubters=(),
        retries=scope.retries,
        give_backs=scope.give_backs,
        steps_back=scope.steps_back,
    )
