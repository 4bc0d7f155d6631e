"""What keeps the store well: sweep and recovery of claims, the end of what expired; and the clock."""

from __future__ import annotations

from onward.outcome import EXPIRED, LEASE_RAN_OUT, PROCESS_DIED
from onward.status import Verb
from tests.model.changes import VERB_OF_LOSS, cancelled, change, end
from tests.model.rules import Rules
from tests.model.state import CLAIMABLE, DIED_RUNNING, DIED_WAITING, IN_PROGRESS, RENEWED, Look, Row, Scope, State
from tests.model.step import Step, Steps

GIVE_BACK = "the process died before it began"
_TEXTS = {
    LEASE_RAN_OUT: "the sweep takes {job} back, whose lease ran out",
    PROCESS_DIED: "the recovery takes {job} back, which had begun when its process died",
    GIVE_BACK: "the recovery gives {job} back, which had not begun when its process died",
}
_READS = {
    LEASE_RAN_OUT: "a sweep reads {job}, whose lease ran out",
    PROCESS_DIED: "a recovery reads {job}, which had begun when its process died",
    GIVE_BACK: "a recovery reads {job}, which had not begun when its process died",
}


def steps(state: State, scope: Scope, rules: Rules) -> Steps:
    """Give what sweep, recovery and clock can do next."""
    for job, row in enumerate(state.rows):
        if row is None:
            continue
        if row.status in CLAIMABLE and rules.has_expired(row):
            after, done = change(state, rules, job, Verb.CANCEL, cancelled(row, EXPIRED, state))
            yield Step(("{job} is cancelled: it expired", 0, job, ""), after, (done,))
        for why in _reasons(state, row, rules):
            look = Look(why, job, row)
            if "two steps" not in scope.acts:
                yield from _act(state, rules, look)
            elif state.look is None:
                yield Step((_READS[why], 0, job, ""), state._replace(look=look))
    if state.look is not None:
        yield from _act(state._replace(look=None), rules, state.look)
    if scope.has_time:
        yield Step(("a tick passes", 0, 0, ""), move(state, -1))
    if state.steps_back:
        yield Step(("the clock goes back a tick", 0, 0, ""), move(state._replace(steps_back=state.steps_back - 1), 1))


def _reasons(state: State, row: Row, rules: Rules) -> list[str]:
    reasons = [LEASE_RAN_OUT] if rules.may_sweep(row) else []
    if row.status == IN_PROGRESS and row.owner == DIED_RUNNING:
        reasons.append(PROCESS_DIED)
    if row.status == IN_PROGRESS and row.owner == DIED_WAITING and state.give_backs:
        reasons.append(GIVE_BACK)
    return reasons


def _act(state: State, rules: Rules, look: Look) -> Steps:
    row, seen = state.rows[look.job], look.row
    if not rules.may_lose(row, seen) or (look.why == GIVE_BACK and not state.give_backs):
        yield Step(("what was read of {job} does not stand any more", 0, look.job, ""), state)
        return
    assert row is not None
    if look.why == GIVE_BACK:
        state = state._replace(give_backs=state.give_backs - 1)
        written = rules.given_back(seen)
        verb = Verb.CANCEL if written.name == "cancelled" else Verb.RELEASE
    else:
        written = rules.lost(seen, look.why)
        verb = VERB_OF_LOSS[written.status]
    left = end(row, written, state, rules.fence_after_loss(row))
    after, done = change(state, rules, look.job, verb, left, fence=seen.fence, ending=written.name)
    yield Step((_TEXTS[look.why], 0, look.job, ""), after, (done,))


def move(state: State, by: int) -> State:
    """Let time pass; a negative number of ticks brings everything nearer. What is long over is not told apart."""
    floor = -state.steps_back
    rows = tuple(None if row is None else _moved(row, by, floor) for row in state.rows)
    look = state.look and state.look._replace(row=_moved(state.look.row, by, floor))
    return state._replace(rows=rows, look=look)


def _moved(row: Row, by: int, floor: int) -> Row:
    expiry = None if row.expiry is None else max(row.expiry + by, floor)
    if row.lease == RENEWED:
        return row
    if row.status == IN_PROGRESS:
        return row._replace(lease=max(row.lease + by, floor), expiry=expiry)
    if row.status in CLAIMABLE:
        return row._replace(due=max(row.due + by, floor), expiry=expiry)
    return row if expiry == row.expiry else row._replace(expiry=expiry)
