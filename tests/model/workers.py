"""What processes do: claim, begin, renew, settle, die, and arrive late."""

from __future__ import annotations

from onward.outcome import Completed
from onward.status import Verb
from tests.model.changes import BEGIN_ALONE, CHILD, EXTEND, TOLD, Change, change, end, enqueued, put
from tests.model.rules import RELEASED, Rules
from tests.model.state import (
    ALONE,
    DIED_RUNNING,
    DIED_WAITING,
    ELSEWHERE,
    IN_PROGRESS,
    LEASE,
    NOBODY,
    RUNNING,
    RUNS,
    SENT,
    WAITING,
    Claim,
    Row,
    Scope,
    State,
)
from tests.model.step import Step, Steps


def steps(state: State, scope: Scope, rules: Rules) -> Steps:
    """Give what each process can do next."""
    for process, claims in enumerate(state.processes):
        yield from _claim(state, scope, rules, process)
        for claim in claims:
            yield from _begin(state, scope, rules, process, claim)
            yield from _renew(state, rules, process, claim)
            yield from _settle(state, scope, rules, process, claim)
            if rules.children_come_first and claim.phase in RUNS and claim.job == 0 and scope.has_child:
                enqueued_first = _child(state, scope, rules, claim)
                if enqueued_first:
                    yield Step(("{process}'s handler of {job} enqueues its child", process, claim.job, ""), *_one(enqueued_first))
        if claims and "crash" in scope.acts:
            yield from _die(state, scope, process)
    if state.late is not None:
        yield from _arrive(state, scope, rules, state.late)


def _one(done: tuple[State, Change]) -> tuple[State, tuple[Change]]:
    return done[0], (done[1],)


# -- claim -------------------------------------------------------------------------------------------------------------


def _claim(state: State, scope: Scope, rules: Rules, process: int) -> Steps:
    claims = state.processes[process]
    if len(claims) >= scope.slots or _runs_alone(state, process):
        return
    for job, row in enumerate(state.rows):
        if row is None:
            continue
        if rules.may_claim(row):
            after, done = change(state, rules, job, Verb.CLAIM, rules.claimed(row, process, -1 if state.steps_back else 0))
            claimed = after.rows[job]
            assert claimed is not None
            yield Step(("{process} claims {job}", process, job, ""), _keep(after, process, claims, job, claimed), (done,))
            if "unknown" in scope.acts:
                yield Step(("{process} claims {job}, and the answer is lost", process, job, ""), after, (done,))
        elif "unknown" in scope.acts and row.status == IN_PROGRESS and row.owner == process and not _knows(claims, job, row.fence):
            text = "{process} asks what it holds, and takes up {job}"
            yield Step((text, process, job, ""), _keep(state, process, claims, job, row))


def _knows(claims: tuple[Claim, ...], job: int, fence: int) -> bool:
    return any(one.job == job and one.row.fence == fence for one in claims)


def _keep(state: State, process: int, claims: tuple[Claim, ...], job: int, row: Row) -> State:
    # As claimed, but for what does not matter to the process: so states that differ in nothing else are one.
    claim = Claim(job, row._replace(owner=NOBODY, lease=0, due=0, expiry=None))
    return state._replace(processes=put(state.processes, process, (*claims, claim)))


def _without(state: State, process: int, claim: Claim, instead: Claim | None = None) -> State:
    claims = tuple(one for one in state.processes[process] if one is not claim)
    return state._replace(processes=put(state.processes, process, claims if instead is None else (*claims, instead)))


# -- begin, renew ------------------------------------------------------------------------------------------------------


def _begin(state: State, scope: Scope, rules: Rules, process: int, claim: Claim) -> Steps:
    others = [one for one in state.processes[process] if one is not claim]
    if claim.phase == WAITING and claim.row.isolated and scope.has_own_processes:
        yield _run(state, process, claim, "{process} begins {job} in a process of its own", ELSEWHERE)
    elif claim.phase == WAITING and not claim.row.isolated:
        if not _runs_alone(state, process):
            yield _run(state, process, claim, "{process} begins {job}")
    elif claim.phase == WAITING and all(one.phase == WAITING for one in others):
        row = state.rows[claim.job]
        if rules.may_begin_alone(row, claim):
            assert row is not None
            written = row._replace(ran_isolated=True, lease=LEASE)
            after, done = change(state, rules, claim.job, BEGIN_ALONE, written, fence=claim.row.fence)
            said = _without(after, process, claim, claim._replace(phase=ALONE))
            yield Step(("{process} says that {job} begins alone", process, claim.job, ""), said, (done,))
        else:
            lost = _without(state, process, claim)
            yield Step(("{process} says that {job} begins alone, and learns that its claim is lost", process, claim.job, ""), lost)
    elif claim.phase == ALONE:
        yield _run(state, process, claim, "{process} begins {job}, alone")


def _runs_alone(state: State, process: int) -> bool:
    """Say whether the process belongs to an isolated handler, so that nothing may begin beside it."""
    return any(one.phase == ALONE or (one.phase == RUNNING and one.row.isolated) for one in state.processes[process])


def _run(state: State, process: int, claim: Claim, text: str, phase: str = RUNNING) -> Step:
    past = state.pasts[claim.job]
    if claim.row.fence == past.top:
        began = past._replace(has_begun=True, is_elsewhere=phase == ELSEWHERE)
        state = state._replace(pasts=put(state.pasts, claim.job, began))
    return Step((text, process, claim.job, ""), _without(state, process, claim, claim._replace(phase=phase)))


def _renew(state: State, rules: Rules, process: int, claim: Claim) -> Steps:
    if claim.phase == SENT:
        return
    row = state.rows[claim.job]
    if not rules.may_extend(row, claim):
        lost = _without(state, process, claim)
        yield Step(("{process} renews its claim {more} of {job}, and learns that it is lost", process, claim.job, _name(claim)), lost)
    elif row is not None and row.lease != LEASE:
        done = change(state, rules, claim.job, EXTEND, row._replace(lease=LEASE), fence=claim.row.fence)
        yield Step(("{process} renews its claim {more} of {job}", process, claim.job, _name(claim)), *_one(done))


def _name(claim: Claim) -> str:
    return str(claim.row.fence)


# -- settle ------------------------------------------------------------------------------------------------------------


def _settle(state: State, scope: Scope, rules: Rules, process: int, claim: Claim) -> Steps:
    for ending in _endings(scope, claim):
        if claim.phase in (WAITING, ALONE) and not state.give_backs:
            continue
        settled = _send(state, scope, rules, claim, ending)
        again = " again" if claim.phase == SENT else ""
        how = f"{ending}, claim {_name(claim)}"
        after, changes = settled
        told = _without(after, process, claim)
        yield Step((f"{{process}} settles {{job}}{again}: {{more}}{_refused(changes)}", process, claim.job, how), told, changes)
        if "unknown" in scope.acts and claim.phase in RUNS:
            untold = _without(after, process, claim, claim._replace(phase=SENT, ending=ending))
            text = "{process} settles {job}: {more}, and the answer is lost"
            yield Step((text, process, claim.job, how), untold, changes)


def _endings(scope: Scope, claim: Claim) -> tuple[str, ...]:
    if claim.phase == SENT:
        assert claim.ending is not None
        return (claim.ending,)
    return scope.endings if claim.phase in RUNS else (RELEASED,)


def _refused(changes: tuple[Change, ...]) -> str:
    return "" if changes else " (refused)"


def _send(state: State, scope: Scope, rules: Rules, claim: Claim, ending: str) -> tuple[State, tuple[Change, ...]]:
    """What the store makes of a settlement. Without changes it is refused."""
    row, fence = state.rows[claim.job], claim.row.fence
    # A claim that never began is given back as it is; for the others the worker chooses by the code's rule.
    outcome = rules.outcome(claim, ending)
    if not rules.may_settle(row, claim):
        if not rules.is_stored(row, claim, outcome):
            return state, ()
        return state, (Change(claim.job, TOLD, fence, row, row, state.pasts[claim.job], outcome.name),)
    assert row is not None
    written = rules.settled(row, claim, outcome)
    verb = Verb.CANCEL if written.name == "cancelled" else outcome.verb
    if claim.phase in (WAITING, ALONE):
        state = state._replace(give_backs=state.give_backs - 1)
    left = end(row, written, state, row.fence)
    after, done = change(state, rules, claim.job, verb, left, fence=fence, ending=written.name)
    changes = [done]
    if isinstance(outcome, Completed) and claim.job == 0 and scope.has_child and not rules.children_come_first:
        added = _child(after, scope, rules, claim)
        if added is not None:
            after, of_child = added
            changes.append(of_child)
    return after, tuple(changes)


def _child(state: State, scope: Scope, rules: Rules, claim: Claim) -> tuple[State, Change] | None:
    if state.rows[scope.child] is not None or state.pasts[scope.child].is_gone or (scope.has_key and state.holder != NOBODY):
        return None
    if scope.has_key:
        state = state._replace(holder=scope.child)
    return change(state, rules, scope.child, CHILD, enqueued(scope), fence=claim.row.fence)


# -- die, arrive late --------------------------------------------------------------------------------------------------


def _die(state: State, scope: Scope, process: int) -> Steps:
    """A process ends, by one of its handlers or from outside. The map of what had begun outlives it."""
    claims = state.processes[process]
    rows = list(state.rows)
    for job, row in enumerate(rows):
        if row is not None and row.status == IN_PROGRESS and row.owner == process:
            rows[job] = row._replace(owner=DIED_RUNNING if _is_marked(claims, job) else DIED_WAITING)
    dead = state._replace(rows=tuple(rows), processes=put(state.processes, process, ()))
    yield Step(("{process} dies, and starts anew", process, 0, ""), dead)
    if "late" in scope.acts and state.late is None:
        for claim in claims:
            if claim.phase in (*RUNS, SENT):
                text = "{process} dies, and starts anew; what it sent of claim {more} of {job} is under way"
                yield Step((text, process, claim.job, _name(claim)), dead._replace(late=claim))


def _is_marked(claims: tuple[Claim, ...], job: int) -> bool:
    """Say whether the map names the job: a mark is taken off when the same process claims its job anew."""
    of_job = [one for one in claims if one.job == job]
    return bool(of_job) and max(of_job, key=lambda one: one.row.fence).phase in (*RUNS, SENT)


def _arrive(state: State, scope: Scope, rules: Rules, claim: Claim) -> Steps:
    gone = state._replace(late=None)
    row = state.rows[claim.job]
    for ending in _endings(scope, claim):
        after, changes = _send(gone, scope, rules, claim, ending)
        text = f"a settlement of {{job}} arrives late: {{more}}{_refused(changes)}"
        yield Step((text, 0, claim.job, f"{ending}, claim {_name(claim)}"), after, changes)
    if claim.phase in RUNS and row is not None and rules.may_extend(row, claim) and row.lease != LEASE:
        done = change(gone, rules, claim.job, EXTEND, row._replace(lease=LEASE), fence=claim.row.fence)
        yield Step(("a renewal of claim {more} of {job} arrives late", 0, claim.job, _name(claim)), *_one(done))
