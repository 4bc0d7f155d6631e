"""What clients and persons do: enqueue, cancel, retry, run now, delete."""

from __future__ import annotations

from onward.status import Verb
from tests.model.changes import ASK_TO_STOP, DELETE, ENQUEUE, cancelled, change, enqueued
from tests.model.rules import Rules
from tests.model.state import CANCELLED, CLAIMABLE, DEAD_LETTER, IN_PROGRESS, NOBODY, QUEUED, Row, Scope, State
from tests.model.step import Step, Steps


def steps(state: State, scope: Scope, rules: Rules) -> Steps:
    """Give what clients and persons can do next."""
    for job, row in enumerate(state.rows):
        if row is None:
            yield from _enqueue(state, scope, rules, job)
        else:
            yield from _act(state, scope, rules, job, row)


def _enqueue(state: State, scope: Scope, rules: Rules, job: int) -> Steps:
    is_repeat = state.pasts[job].is_gone
    if job >= scope.jobs or (is_repeat and "enqueue again" not in scope.acts):
        return
    is_free = state.holder == NOBODY or not scope.has_key
    if rules.key_is_looked_up_first:
        if job not in state.doubters:
            if is_free:
                looked = state._replace(doubters=(*state.doubters, job))
                yield Step(("a client sees that the key is free, for {job}", 0, job, ""), looked, is_help=True)
            return
        state = state._replace(doubters=tuple(one for one in state.doubters if one != job))
    elif not is_free:
        return
    if scope.has_key:
        state = state._replace(holder=job)
    after, done = change(state, rules, job, ENQUEUE, enqueued(scope))
    text = "a client repeats the enqueue of {job}, whose row is gone" if is_repeat else "a client enqueues {job}"
    yield Step((text, 0, job, ""), after, (done,), is_help=True)


def _act(state: State, scope: Scope, rules: Rules, job: int, row: Row) -> Steps:
    if "cancel" in scope.acts and row.status in CLAIMABLE:
        after, done = change(state, rules, job, Verb.CANCEL, cancelled(row, "cancelled", state))
        yield Step(("a person cancels {job}", 0, job, ""), after, (done,), is_help=True)
    if "cancel" in scope.acts and row.status == IN_PROGRESS and not row.cancel:
        after, done = change(state, rules, job, ASK_TO_STOP, row._replace(cancel=True))
        yield Step(("a person asks the running {job} to stop", 0, job, ""), after, (done,), is_help=True)
    if "run now" in scope.acts and row.status in CLAIMABLE and (row.due > 0 or row.status != QUEUED):
        after, done = change(state, rules, job, Verb.RUN_NOW, row._replace(status=QUEUED, due=0))
        yield Step(("a person runs {job} now", 0, job, ""), after, (done,), is_help=True)
    if "delete" in scope.acts and row.status != IN_PROGRESS:
        after, done = change(state, rules, job, DELETE, None)
        yield Step(("a person deletes {job}", 0, job, ""), after, (done,), is_help=True)
    if state.retries and row.status in (DEAD_LETTER, CANCELLED):
        yield from _retry(state, scope, rules, job, row)


def _retry(state: State, scope: Scope, rules: Rules, job: int, row: Row) -> Steps:
    if scope.has_key and state.holder not in (NOBODY, job) and rules.takes_key_again():
        return
    if scope.has_key and state.holder == NOBODY:
        state = state._replace(holder=job)
    state = state._replace(retries=state.retries - 1)
    expiry = None if row.expiry is not None and row.expiry <= 0 else row.expiry
    again = row._replace(
        status=QUEUED, due=0, expiry=expiry, attempts=0, lost=0, releases=0, snoozes=0, cancel=False, error=None
    )  # fmt: skip
    after, done = change(state, rules, job, Verb.RETRY_BY_HAND, again)
    yield Step(("a person retries {job}", 0, job, ""), after, (done,), is_help=True)
