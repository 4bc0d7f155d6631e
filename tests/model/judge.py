"""What must hold: of every change, of every state, and of all states together. Each finding is one sentence."""

from __future__ import annotations

from onward import outcome as code
from onward.status import TRANSITIONS, Status, Verb
from tests.model.changes import CHILD, DELETE, TOLD, Change
from tests.model.state import CLAIMABLE, DEAD_LETTER, FINAL, IN_PROGRESS, NOBODY, QUEUED, Row, Scope, State
from tests.model.step import JOBS, Step

VERBS = frozenset(Verb)


def judge_step(before: State, step: Step, scope: Scope) -> str | None:
    """Say what is wrong with a step."""
    touched = set()
    for done in step.changes:
        touched.add(done.job)
        found = _writer(done) or _arrow(done) or _ending(done) or _claim(done, scope) or _counts(done, scope)
        if found:
            return found
    for job, (was, became) in enumerate(zip(before.rows, step.state.rows, strict=True)):
        if was is not became and job not in touched and _content(was) != _content(became):
            return f"{JOBS[job]} changed, and nothing says why"
    return None


def _content(row: Row | None) -> tuple[object, ...]:
    """What neither time nor the death of a process changes."""
    return () if row is None else (row.status, *row[3:11], row.error)


def _writer(done: Change) -> str | None:
    """Only the newest claim changes its job, or enqueues its children, and only until it has ended."""
    if done.fence is None or done.verb == TOLD:
        return None
    if done.verb == CHILD:
        return None  # whether it came with its parent's completion is seen in the state
    if done.fence != done.past.top:
        return f"the stale claim {done.fence} of {JOBS[done.job]} was accepted ({done.verb}): the newest is {done.past.top}"
    if done.past.ending is not None:
        return f"claim {done.fence} of {JOBS[done.job]} had ended ({done.past.ending}), and was accepted again ({done.verb})"
    return None


def _arrow(done: Change) -> str | None:
    """Only the arrows of the one table."""
    if done.verb == DELETE:
        return f"{JOBS[done.job]} was deleted while it ran" if done.before is not None and done.before.status == IN_PROGRESS else None
    if done.before is None or done.after is None or done.verb == TOLD:
        return None
    if done.verb not in VERBS:
        return None if done.before.status == done.after.status == IN_PROGRESS else f"{done.verb}: {JOBS[done.job]} does not run"
    ends = TRANSITIONS.get((Status(done.before.status), Verb(done.verb)), ())
    if done.after.status not in ends:
        return f"no arrow leads from {done.before.status} by '{done.verb}' to {done.after.status}"
    if done.verb != Verb.CLAIM and done.after.fence != done.before.fence:
        return f"the fence of {JOBS[done.job]} changed from {done.before.fence} to {done.after.fence} by '{done.verb}'"
    return None


def _ending(done: Change) -> str | None:
    """One result a run; a request to cancel is honoured; a loss is held against nobody who may be innocent of it."""
    past, after = done.past, done.after
    if done.verb == TOLD and (past.top, past.ending) != (done.fence, done.ending) and not _is_cancel_instead(done):
        return f"a worker was told that claim {done.fence} of {JOBS[done.job]} is stored as {done.ending}: it ended as {past.ending}"
    if done.ending is None or done.before is None or after is None or done.verb == TOLD:
        return None
    if done.before.cancel and done.verb not in (Verb.COMPLETE, Verb.CANCEL):
        return f"a person asked {JOBS[done.job]} to stop, and it went to {after.status}"
    if done.verb == Verb.LOSE and after.status == DEAD_LETTER and not (past.was_alone or past.losses + 1 >= code.MOST_LOSSES):
        return f"{JOBS[done.job]} is dead-lettered for a loss, and its handler had not run alone in its process"
    return None


def _is_cancel_instead(done: Change) -> bool:
    """A request to cancel changes what is stored, and the answer says so."""
    return done.before is not None and done.before.cancel and (done.past.top, done.past.ending) == (done.fence, "cancelled")


def _claim(done: Change, scope: Scope) -> str | None:
    """Never early, never what is cancelled or expired; with a fence that no claim had before; not more often than promised."""
    before, after, past = done.before, done.after, done.past
    if done.verb != Verb.CLAIM:
        return None
    assert before is not None
    assert after is not None
    if before.status not in CLAIMABLE or (before.expiry is not None and before.expiry <= 0) or before.due > 0:
        return f"{JOBS[done.job]} was claimed while it was {before.status}, due in {before.due}, expiring in {before.expiry}"
    if after.fence <= past.top:
        return f"{JOBS[done.job]} was claimed with fence {after.fence}, and there was a claim {past.top} before"
    if past.claims + 1 > scope.max_attempts + past.given_back:
        return f"{JOBS[done.job]} was claimed {past.claims + 1} times: {scope.max_attempts} tries, {past.given_back} given back"
    return None


def _counts(done: Change, scope: Scope) -> str | None:
    """What is given back has a bound, and so has what a job can do to processes."""
    past, name = done.past, JOBS[done.job]
    if done.verb == Verb.RELEASE and past.has_begun and past.releases + 1 >= code.MOST_RELEASES:
        return f"{name} was released {past.releases + 1} times with its try"
    if done.verb == Verb.SNOOZE and past.snoozes + 1 > code.MOST_SNOOZES:
        return f"{name} was snoozed {past.snoozes + 1} times"
    if done.verb == Verb.LOSE and past.has_begun and past.kills + 1 > scope.max_attempts + 1:
        return f"the handler of {name} was lost {past.kills + 1} times: {scope.max_attempts} tries and one more are promised"
    if done.verb == Verb.LOSE and done.after is not None and done.after.status == QUEUED:
        is_free = done.before is not None and done.after.attempts < done.before.attempts
        if is_free and past.losses + 1 >= code.MOST_LOSSES:
            return f"{name} was lost {past.losses + 1} times, and its try given back"
    return None


def judge_state(state: State, scope: Scope) -> str | None:
    """Say what is wrong with a state: one live job a key; a child only behind its parent's completion."""
    if scope.has_key:
        live = [job for job, row in enumerate(state.rows) if row is not None and row.status not in FINAL]
        if len(live) > 1:
            return "two live jobs have the same key"
        if live and state.holder != live[0]:
            return f"{JOBS[live[0]]} is live and does not hold its key"
        if not live and state.holder != NOBODY:
            return f"{JOBS[state.holder]} holds the key, and is not live"
    if scope.has_child and state.rows[scope.child] is not None and not state.pasts[0].has_completed:
        return f"{JOBS[scope.child]} is there, and its parent has not completed"
    return None


def is_done(state: State) -> bool:
    """Say whether every accepted job has come to an end."""
    return all(row is None or row.status in FINAL for row in state.rows)
