"""One change of one row: how the row becomes another, what follows for the key, and what the judge is to remember of it."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

from onward import outcome as code
from onward.outcome import Ending
from onward.status import Status, Verb
from tests.model.rules import Rules
from tests.model.state import BACK_OFF, CANCELLED, NOBODY, QUEUED, RENEWED, Past, Row, Scope, State

T = TypeVar("T")

ENQUEUE, CHILD, DELETE, EXTEND, BEGIN_ALONE, ASK_TO_STOP, TOLD = (
    "enqueue", "enqueue as a child", "delete", "extend", "begin alone", "ask to stop", "told that it is stored",
)  # fmt: skip
"""What may happen to a row beside the verbs of ``onward.status``. The last changes nothing: it is the store's answer to a repeated turn."""


class Change(NamedTuple):
    """What happened to a job, for the judge."""

    job: int
    verb: str
    fence: int | None
    """Of the claim in whose name it was done; None where it was not a worker's doing."""
    before: Row | None
    after: Row | None
    past: Past
    """What had happened before."""
    ending: str | None = None
    """How the claim ended by it: as the history names it."""


def put(items: tuple[T, ...], place: int, item: T) -> tuple[T, ...]:
    """Give the tuple with one item replaced."""
    return (*items[:place], item, *items[place + 1 :])


def change(
    state: State, rules: Rules, job: int, verb: str, after: Row | None, *, fence: int | None = None, ending: str | None = None
) -> tuple[State, Change]:
    """Write a row, with the key and the past that go with it."""
    done = Change(job, verb, fence, state.rows[job], after, state.pasts[job], ending)
    holder, look = state.holder, state.look
    if holder == job and (after is None or rules.frees_key(after.status)):
        holder = NOBODY
    if look is not None and look.job == job and verb in (EXTEND, BEGIN_ALONE):
        look = look._replace(row=look.row._replace(lease=RENEWED))
    return state._replace(rows=put(state.rows, job, after), pasts=put(state.pasts, job, follow(done)), holder=holder, look=look), done


def follow(done: Change) -> Past:
    """Say what has happened to a job after this change as well."""
    past, verb = done.past, done.verb
    if verb == Verb.CLAIM:
        assert done.after is not None
        return past._replace(
            top=max(past.top, done.after.fence),
            ending=None,
            has_begun=False,
            was_alone=False,
            is_elsewhere=False,
            claims=past.claims + 1,
        )
    if verb == BEGIN_ALONE:
        return past._replace(was_alone=True) if done.fence == past.top else past
    if verb == Verb.RETRY_BY_HAND:
        return past._replace(claims=0, given_back=0, losses=0, kills=0, releases=0, snoozes=0)
    if verb == DELETE:
        return past._replace(is_gone=True)
    if verb in (ENQUEUE, CHILD):
        return past._replace(is_gone=False)
    if done.ending is None or verb == TOLD:
        return past
    return _follow_ending(done)


def _follow_ending(done: Change) -> Past:
    past, verb = done.past._replace(ending=done.ending), done.verb
    if verb == Verb.LOSE:
        is_free = not past.was_alone and past.losses + 1 < code.MOST_LOSSES
        kills = past.kills + (past.has_begun and not past.is_elsewhere)
        return past._replace(losses=past.losses + 1, kills=kills, given_back=past.given_back + is_free)
    if verb == Verb.RELEASE:
        return past._replace(releases=past.releases + past.has_begun, given_back=past.given_back + 1)
    if verb == Verb.SNOOZE:
        return past._replace(snoozes=past.snoozes + 1, given_back=past.given_back + 1)
    if verb == Verb.COMPLETE:
        return past._replace(has_completed=True)
    return past


def end(row: Row, ending: Ending, state: State, fence: int) -> Row:
    """Give the row that an ending leaves."""
    is_final = ending.status.is_final
    return row._replace(
        status=ending.status.value,
        attempts=ending.attempts,
        lost=ending.lost_leases,
        releases=ending.releases,
        snoozes=ending.snoozes,
        isolated=ending.isolated,
        error=ending.error,
        fence=fence,
        owner=NOBODY,
        lease=0,
        due=0 if is_final else (BACK_OFF if ending.delay else row.due),
        expiry=None if is_final and not state.retries else row.expiry,
    )


VERB_OF_LOSS = {Status.QUEUED: Verb.LOSE, Status.DEAD_LETTER: Verb.LOSE, Status.CANCELLED: Verb.CANCEL}
"""A loss of a job that a person asked to cancel is drawn as the arrow "cancel"."""


def enqueued(scope: Scope) -> Row:
    """Give the row that an enqueue stores."""
    return Row(QUEUED, due=0, expiry=scope.expiry, isolated=scope.is_isolated)


def cancelled(row: Row, error: str, state: State) -> Row:
    """Give the row of a waiting job that is cancelled."""
    return row._replace(status=CANCELLED, error=error, due=0, expiry=row.expiry if state.retries else None)
