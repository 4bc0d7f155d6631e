"""The machine: every public verb of a store, time, crashes and late messages, in any order, on several stores together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from itertools import product
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule
from msgspec.structs import replace

from onward.actions import NewAction
from onward.driver import Store, Within
from onward.inspection import BulkVerb, JobFilter
from onward.jobs import NewJob, OnDuplicate
from onward.status import Status
from onward.turn import Claim, Demand, Extension, Settlement, Turn
from tests.state_machine import strategies as asked
from tests.state_machine.definitions import MAIL, WORK, Number
from tests.state_machine.lockstep import Lockstep, answer_of
from tests.state_machine.periodic import PeriodicRules
from tests.state_machine.stores import Place, SharedClock
from tests.state_machine.waits import WaitRules

T = TypeVar("T")

ENOUGH = 100
"""Slots for whatever is due."""


class RolledBack(Exception):
    """The caller of a transaction thought better of it."""


class StoresAgree(PeriodicRules, WaitRules):
    """Whatever is asked of them in whatever order, all stores give the same answers, and hold the same jobs."""

    def __init__(self, places: Sequence[Place], clock: SharedClock) -> None:
        super().__init__()
        self.clock = clock
        self.together = Lockstep(places, clock)
        self.requests: list[NewJob] = []
        self.claims: list[Claim] = []
        """Every claim that was ever made: a worker that was frozen or is dead may still send something in its name."""
        self.settlements: list[Settlement] = []
        self.acted = self.done = self.refused = 0
        """How many verbs for many there were, and what they did and refused, with what pauses and resumes changed."""

    def teardown(self) -> None:
        if not self.together.has_differed:
            self.together.look_closely(product(asked.OWNERS, asked.TYPES, asked.KEYS))

    def do(self, what: str, verb: Any) -> Any:
        """Call a verb on all, and look at what has become of the jobs."""
        answer = self.together.each(what, verb)
        self.together.look()
        if any(job.breaker or job.concurrency_key for job in self.together.jobs.values()):
            self.look_at_what_is_waited_for()
        return answer

    # -- enqueue ---------------------------------------------------------------------------------------------------------

    def ask(self, wish: dict[str, Any]) -> NewJob:
        job = asked.new_job(asked.job_id(len(self.requests)), wish, self.clock.now())
        self.requests.append(job)
        return job

    @initialize(wishes=st.lists(asked.requests, min_size=1, max_size=3))
    def begin(self, wishes: list[dict[str, Any]]) -> None:
        for wish in wishes:
            self.enqueue(wish)

    @rule(wish=asked.requests)
    def enqueue(self, wish: dict[str, Any]) -> None:
        jobs = [self.ask(wish)]
        self.do("enqueue", lambda store: store.enqueue(jobs))

    @rule(wishes=st.lists(asked.requests, min_size=1, max_size=3), again=st.none() | asked.picks, on_duplicate=asked.on_duplicate)
    def enqueue_many(self, wishes: list[dict[str, Any]], again: int | None, on_duplicate: OnDuplicate) -> None:
        """Several at once; the last may be one that was asked for before, or ask for the same under an id of its own."""
        jobs = [self.ask(wish) for wish in wishes]
        if again is not None:
            jobs.append(_pick(self.requests, again) if again % 2 else self._copy(again, on_duplicate))
        self.do("enqueue many", lambda store: store.enqueue(jobs))

    @rule(pick=asked.picks, on_duplicate=asked.on_duplicate, deletes=st.booleans())
    def enqueue_a_copy(self, pick: int, on_duplicate: OnDuplicate, deletes: bool) -> None:
        if deletes:
            job_id = self._original(pick).id
            self.do("delete", lambda store: store.delete(job_id))
        jobs = [self._copy(pick, on_duplicate)]
        self.do("enqueue a copy", lambda store: store.enqueue(jobs))

    def _copy(self, pick: int, on_duplicate: OnDuplicate) -> NewJob:
        copied = replace(self._original(pick), id=asked.job_id(len(self.requests)), on_duplicate=on_duplicate)
        self.requests.append(copied)
        return copied

    def _original(self, pick: int) -> NewJob:
        """Choose a request, if there is one, with a key."""
        return _pick([one for one in self.requests if one.key] or self.requests, pick)

    @rule(groups=st.lists(st.lists(asked.requests, min_size=1, max_size=2), min_size=2, max_size=3))
    def enqueue_each(self, groups: list[list[dict[str, Any]]]) -> None:
        requests = [[self.ask(wish) for wish in group] for group in groups]
        self.do("enqueue each", lambda store: [str(one) if isinstance(one, Exception) else one for one in store.enqueue_each(requests)])

    @rule(pick=asked.picks, payload=st.integers(1, 2))
    def enqueue_an_id_again(self, pick: int, payload: int) -> None:
        before = _pick(self.requests, pick)
        again = asked.new_job(before.id, {"payload": payload, "type": before.type, "owner": before.owner}, self.clock.now())
        self.do("enqueue an id again", lambda store: store.enqueue([again]))

    @rule(value=st.integers(1, 2), options=asked.app_options, is_mail=st.booleans())
    def enqueue_by_application(self, value: int, options: dict[str, Any], is_mail: bool) -> None:
        definition = MAIL if is_mail else WORK
        job = definition.new_job(Number(value), id=asked.job_id(len(self.requests)), **options)
        self.requests.append(job)

        def act(app: Any) -> Any:
            handle = app.enqueue(definition, Number(value), id=job.id, **options)
            return handle.id, handle.is_new, handle.payload_differs, handle.refresh()

        self.together.each_app("app.enqueue", act)
        self.together.look()

    # -- in a transaction ------------------------------------------------------------------------------------------------

    @rule(verbs=st.lists(asked.joined, min_size=1, max_size=4), commits=st.booleans())
    def transaction(self, verbs: list[dict[str, Any]], commits: bool) -> None:
        acts = [self._joined(one) for one in verbs]

        def run(store: Store) -> list[Any]:
            answers: list[Any] = []
            try:
                with store.transaction() as connection:
                    within = store.within(connection)
                    answers.extend(answer_of(partial(act, store, within)) for act in acts)
                    if not commits:
                        raise RolledBack
            except RolledBack:
                answers.append("rolled back")
            return answers

        self.do("transaction", run)

    def _joined(self, verb: dict[str, Any]) -> Callable[[Store, Within], Any]:
        kind = verb["kind"]
        claim = self._claim(verb)
        if kind in ("confirm", "settle") and claim is not None:
            settlement = Settlement(claim=claim, outcome=verb["outcome"])
            return lambda _, within: within.confirm(claim) if kind == "confirm" else within.settle(settlement)
        if kind in ("get", "cancel", "retry"):
            job_id = self._id(verb["pick"])
            return lambda _, within: getattr(within, kind)(job_id)
        if kind == "outside":
            return lambda store, _: store.count(JobFilter())
        jobs = [self.ask(verb["request"])]
        return lambda _, within: within.enqueue(jobs)

    # -- workers ---------------------------------------------------------------------------------------------------------

    @rule(endings=st.lists(asked.endings, max_size=3), demand=st.none() | asked.demands)
    def turn(self, endings: list[dict[str, Any]], demand: dict[str, Any] | None) -> None:
        settlements = self._settlements(endings)
        self._turn(settlements, None if demand is None else self._demand(demand, settlements))

    @rule(demand=asked.demands)
    def claim(self, demand: dict[str, Any]) -> None:
        self._turn((), self._demand(demand, ()))

    @rule(demand=asked.demands, endings=st.lists(asked.endings, min_size=1, max_size=2))
    def claim_and_settle(self, demand: dict[str, Any], endings: list[dict[str, Any]]) -> None:
        self.claim(demand)
        self._turn(self._settlements(endings), None)

    @rule(pick=asked.picks)
    def send_a_turn_again(self, pick: int) -> None:
        """The answer was lost: its worker sends the same again."""
        if self.settlements:
            self._turn((_pick(self.settlements, pick),), None)

    def _turn(self, settlements: tuple[Settlement, ...], demand: Demand | None) -> None:
        turn: Turn = self.do("turn", lambda store: _without_moment(store.turn(settlements, demand), demand))
        self.claims.extend(turn.claims)
        self.settlements.extend(settlements)
        assert len(turn.settled) + len(turn.lost) == len(settlements)

    def _settlements(self, endings: list[dict[str, Any]]) -> tuple[Settlement, ...]:
        made = []
        for ending in endings:
            claim = self._claim(ending)
            children = tuple(self.ask(wish) for wish in ending.get("children", ()))
            fields = {name: value for name, value in ending.items() if name not in ("pick", "is_late", "children")}
            if claim is not None:
                made.append(Settlement(claim=claim, children=children, **fields))
        return tuple(made)

    def _demand(self, demand: dict[str, Any], settlements: Sequence[Settlement]) -> Demand:
        types = {name: asked.LEASES[name] for name in demand.get("types", asked.TYPES)}
        # How many rows that it does not want a turn moves aside behind the last one that it takes is a store's own affair.
        now, children = self.clock.now(), [child for one in settlements for child in one.children]
        jobs = self.together.jobs.values()
        has_unknown = not {job.type for job in jobs} | {child.type for child in children} <= set(types)
        has_late = any(not job.status.is_final and job.expires_at is not None and job.expires_at <= now for job in jobs)
        slots = ENOUGH if has_unknown or has_late or any(child.at for child in children) else demand["slots"]
        asks = {name: demand[name] for name in ("queues", "unblocks", "constraints") if name in demand}
        return Demand(lease_owner=demand["worker"], slots=slots, types=types, **asks)

    def _claim(self, wish: dict[str, Any]) -> Claim | None:
        """Choose a claim: one that holds, or any that ever was."""
        choice = self.claims if wish["is_late"] else self._valid_claims()
        return _pick(choice, wish["pick"]) if choice else None

    def _valid_claims(self) -> list[Claim]:
        jobs = self.together.jobs
        return [one for one in self.claims if (row := jobs.get(one.id)) and (row.fence, row.status) == (one.fence, Status.IN_PROGRESS)]

    @rule(renewals=st.lists(asked.extensions, min_size=1, max_size=3))
    def extend(self, renewals: list[dict[str, Any]]) -> None:
        claims = [(self._claim(one), one) for one in renewals]
        extensions = [Extension(claim, one["progress"], one["began_isolated"]) for claim, one in claims if claim is not None]
        distinct = list({one.claim.id: one for one in extensions}.values())
        self.do("extend", lambda store: store.extend(distinct))

    @rule(worker=st.sampled_from(asked.WORKERS), begun=st.integers(0, 3))
    def crash(self, worker: str, begun: int) -> None:
        """The process is dead; its claims stay in the machine's list, since what it has sent may still arrive."""
        held = self.do("held", lambda store: sorted(store.held(worker), key=lambda job: job.id))
        assert {(job.id, job.fence) for job in held} <= {(claim.id, claim.fence) for claim in self.claims}
        started = [job.id for place, job in enumerate(held) if place % 2 == begun % 2 or begun > 1]
        self.do("recover", lambda store: store.recover(worker, started))

    @rule(types=st.sampled_from([(), ("work",), asked.TYPES]))
    def sweep(self, types: tuple[str, ...]) -> None:
        self.do("sweep", lambda store: store.sweep(types))

    @rule(by=asked.seconds(11, 61), alone=st.booleans())
    def leases_run_out(self, by: timedelta, alone: bool) -> None:
        valid = [Extension(one, began_isolated=True) for one in self._valid_claims() if alone]
        self.do("begin alone", lambda store: store.extend(valid))
        self.clock.fake.advance(by)
        self.sweep(())

    @rule(
        by=asked.seconds(11, 61), worker=st.sampled_from(asked.WORKERS), ending=asked.endings, sends=st.sampled_from(["renewal", "outcome"])
    )
    def freeze_and_thaw(self, by: timedelta, worker: str, ending: dict[str, Any], sends: str) -> None:
        """A worker stops for longer than its lease; another one takes its jobs over; then the first one goes on as if nothing had been."""
        claim = self._claim(ending | {"is_late": False})
        self.clock.fake.advance(by)
        self.sweep(asked.TYPES)
        self.claim({"worker": worker, "slots": ENOUGH})
        if claim is not None and sends == "renewal":
            self.do("late renewal", lambda store: store.extend([Extension(claim, began_isolated=True)]))
        elif claim is not None:
            self._turn((Settlement(claim=claim, outcome=ending["outcome"]),), None)

    # -- persons ---------------------------------------------------------------------------------------------------------

    def _id(self, pick: int) -> str:
        """Choose a job: mostly one that is there."""
        there = sorted(self.together.jobs)
        if there and pick < 9:
            return _pick(there, pick)
        return _pick(self.requests, pick).id

    @rule(verb=st.sampled_from(["cancel", "retry", "run_now", "delete"]), pick=asked.picks, owner=asked.owners)
    def by_a_person(self, verb: str, pick: int, owner: str | None) -> None:
        job_id = self._id(pick)
        self.do(verb, lambda store: getattr(store, verb)(job_id, owner=owner))

    @rule(pick=asked.picks)
    def cancel(self, pick: int) -> None:
        job_id = self._id(pick)
        self.do("cancel", lambda store: store.cancel(job_id))

    @rule(pick=asked.picks)
    def retry_what_has_ended(self, pick: int) -> None:
        ended = sorted(job.id for job in self.together.jobs.values() if job.status in (Status.DEAD_LETTER, Status.CANCELLED))
        if ended:
            self.do("retry", lambda store: store.retry(_pick(ended, pick)))

    @rule(verb=st.sampled_from(["cancel", "retry", "run_now", "delete"]), picks=st.lists(asked.picks, max_size=4, unique=True))
    def by_a_person_for_many(self, verb: BulkVerb, picks: list[int]) -> None:
        job_ids = list(dict.fromkeys(self._id(pick) for pick in picks))
        action = NewAction(id=asked.job_id(self.acted), actor="", verb=verb, filter="{}", matched=len(job_ids))
        self.acted += 1
        self.together.each("begin", lambda store: store.begin_action(action))
        acted = self.do(f"{verb} many", lambda store: store.act(verb, job_ids, action=action.id))
        self.done += len(acted.done)
        self.refused += len(acted.refused)
        self._look_at_the_record()

    @rule(queue=st.sampled_from(asked.QUEUES), pauses=st.sampled_from([False, False, True]))
    def pause_or_resume(self, queue: str, pauses: bool) -> None:
        self.done += self.do("pause" if pauses else "resume", lambda store: store.pause(queue) if pauses else store.resume(queue))
        self.together.each("queues", lambda store: store.queues())
        self._look_at_the_record()

    def _look_at_the_record(self) -> None:
        """Its sums are what was answered. Pauses and resumes have an id that each store makes itself."""
        sums = self.together.each("actions", lambda store: [(one.done, one.refused) for one in store.actions(limit=1000)])
        assert (sum(done for done, _ in sums), sum(refused for _, refused in sums)) == (self.done, self.refused)

    @rule(where=asked.filters, limit=st.sampled_from([1, 50]), pick=asked.picks, owner=st.sampled_from(asked.OWNERS))
    def read(self, where: JobFilter, limit: int, pick: int, owner: str) -> None:
        job_id = self._id(pick)
        together = self.together
        together.each("get", lambda store: store.get(job_id, owner=owner))
        together.each("find", lambda store: store.find(where, limit=limit, before=job_id))
        together.each("count", lambda store: store.count(where))
        together.each("find_active", lambda store: store.find_active(asked.TYPES, where.key or "a", owner=owner))
        together.each("cancel_requested", lambda store: store.cancel_requested(_pick(asked.WORKERS, pick)))
        together.each_app("app.get", lambda app: app.get_owned_job_or_not_found(job_id, "ada"))
        together.each_app("app.history", lambda app: app.history(job_id, owner=owner))
        together.each_app("app.find", lambda app: app.find(definition=WORK, owner=owner))
        together.each_app("app.find_active_job", lambda app: app.find_active_job(MAIL, "a", owner=owner))

    # -- upkeep and time -------------------------------------------------------------------------------------------------

    @rule(retention=asked.retentions)
    def prune(self, retention: Any) -> None:
        self.do("prune", lambda store: store.prune(retention))

    @rule(by=asked.steps)
    def advance(self, by: timedelta) -> None:
        self.clock.fake.advance(by)

    @rule(by=asked.clock_steps)
    def step(self, by: timedelta) -> None:
        self.clock.fake.step(by)

    @rule()
    def reopen(self) -> None:
        self.together.reopen()
        self.together.look()


def _without_moment(turn: Turn, demand: Demand | None) -> Turn:
    """Whether a store has looked for more once all slots are taken is its own affair, where jobs wait for others: nobody rests by it."""
    is_full = demand is not None and len(turn.claims) >= demand.slots
    return replace(turn, next_due=None) if is_full else turn


def _pick(choice: Sequence[T], pick: int) -> T:
    """Give one of these; 0 is the last."""
    return choice[-1 - pick % len(choice)]
