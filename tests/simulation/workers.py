"""Worker processes: they claim, run handlers, renew, settle, are frozen, and die, at any moment between two calls of the store."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from onward.errors import LeaseLost, OutcomeUnknown
from onward.jobs import NewJob
from onward.outcome import Completed, Outcome, Released, decide
from onward.retry import RetryPolicy
from onward.turn import Claim, Demand, Extension, Settlement
from tests.simulation.clients import TYPES, new_job
from tests.simulation.world import LEASE, AnswerLost, Mail, World

ALL_TYPES = (*dict.fromkeys(TYPES), "keyed", "child")
DEMANDED = {name: timedelta(seconds=LEASE) for name in ALL_TYPES}
SLOTS = 3
POLICY = RetryPolicy(base="2s", backoff="fixed", jitter=0, max_attempts=4)


class Crash(BaseException):
    """The process dies inside a transaction."""


class Run:
    """One claim in the memory of its process."""

    def __init__(self, claim: Claim) -> None:
        self.claim = claim
        self.has_begun = False
        self.settlement: Settlement | None = None


class Worker:
    """One process. A claim lives in its memory only, and is gone with it."""

    def __init__(self, world: World, number: int) -> None:
        self.owner = f"host:{number}:{world.chance.randrange(16**8):08x}"
        self.is_dead = False
        self._world = world
        self._runs: dict[tuple[str, int], Run] = {}
        self._is_in_doubt = False
        self._sleeps = 0

    def step(self) -> None:
        """Do one thing, whichever."""
        if self._sleeps:
            self._sleeps -= 1
        elif self._world.happens(0.03):
            self._freeze()
        elif self._world.happens(0.04):
            self.die()
        else:
            self._act()

    def wake(self) -> None:
        """A frozen one goes on."""
        self._sleeps = 0

    def die(self) -> None:
        """What it has sent may still arrive."""
        self.is_dead = True
        self._world.say("fault", "crash")
        self._world.dead.append((self.owner, [run.claim.id for run in self._runs.values() if run.has_begun]))
        for run in self._runs.values():
            if self._world.happens(0.3):
                self._post(run)

    def _freeze(self) -> None:
        """It does nothing for a while, and knows nothing of that when it goes on."""
        self._world.say("fault", "freeze")
        self._sleeps = self._world.chance.randint(5, 30)

    def _post(self, run: Run) -> None:
        settlement = run.settlement
        if settlement is None:
            extension = Extension(run.claim, began_isolated=run.claim.job.isolated)
            self._world.mail.append(Mail("renewal", lambda: self._world.store.extend([extension])))
        else:
            self._world.mail.append(Mail("outcome", lambda: self._world.store.turn([settlement])))

    # -- steps ---------------------------------------------------------------------------------------------------------

    def _act(self) -> None:
        chance, runs, is_healed = self._world.chance, list(self._runs.values()), self._world.is_healed
        waiting = [run for run in runs if not run.has_begun and run.settlement is None]
        neighbours = [run for run in waiting if not run.claim.job.isolated]
        running = [run for run in runs if run.has_begun and run.settlement is None]
        try:
            if self._is_in_doubt:
                self._look()
            elif running and (is_healed or chance.random() < 0.5):
                self._end(chance.choice(running))
            elif neighbours and (is_healed or chance.random() < 0.7):
                self._begin(chance.choice(neighbours))
            elif waiting and not neighbours and not running:
                self._begin_alone(waiting[0], runs)
            elif runs and not is_healed and chance.random() < 0.3:
                self._renew(runs)
            else:
                self._turn()
        except AnswerLost:
            self._is_in_doubt = True

    def _look(self) -> None:
        """After a lost answer: what does the store say that this process holds?"""
        held = {(job.id, job.fence): job for job in self._world.call(lambda: self._world.store.held(self.owner))}
        for key in [key for key, run in self._runs.items() if key not in held and run.settlement is None]:
            del self._runs[key]
        for key, job in held.items():
            if key not in self._runs:
                self._runs[key] = Run(Claim(job, timedelta(seconds=LEASE)))
        self._is_in_doubt = False

    def _turn(self, *, claims: bool = True) -> None:
        """Settle what has ended, claim what is due, or both."""
        settlements = [run.settlement for run in self._runs.values() if run.settlement is not None]
        room = SLOTS - len(self._runs) if claims else 0
        demand = Demand(lease_owner=self.owner, slots=room, types=DEMANDED) if room > 0 and self._world.chance.random() < 0.8 else None
        if not settlements and demand is None:
            return
        turn = self._world.call(lambda: self._world.store.turn(settlements, demand))
        for settlement in (*turn.settled, *turn.lost):
            self._runs.pop((settlement.claim.id, settlement.claim.fence), None)
        for claim in turn.claims:
            self._runs[claim.id, claim.fence] = Run(claim)

    def _renew(self, runs: list[Run]) -> None:
        extended = self._world.call(lambda: self._world.store.extend([Extension(run.claim) for run in runs if run.settlement is None]))
        for run in runs:
            if run.claim.id in extended.lost:
                self._runs.pop((run.claim.id, run.claim.fence), None)

    def _begin(self, run: Run) -> None:
        run.has_begun = True
        self._world.say("started", run.claim.job.type, job=run.claim.id, fence=run.claim.fence)

    def _begin_alone(self, run: Run, runs: list[Run]) -> None:
        """An isolated job begins when nothing else is here: what waits is given back, and the store is told first."""
        if len(runs) > 1:
            for other in runs:
                if other is not run and other.settlement is None:
                    other.settlement = Settlement(claim=other.claim, outcome=Released(), keeps_history=True)
            return self._turn(claims=False)
        extended = self._world.call(lambda: self._world.store.extend([Extension(run.claim, began_isolated=True)]))
        if run.claim.id in extended.lost:
            del self._runs[run.claim.id, run.claim.fence]
            return None
        return self._begin(run)

    # -- handlers ------------------------------------------------------------------------------------------------------

    def _end(self, run: Run) -> None:
        """The handler returns, or raises."""
        job, chance = run.claim.job, self._world.chance
        number = int(job.payload)
        fails = (job.type == "once" and number % 3 == 0) or (job.type == "flaky" and job.attempts <= 1 + number % 2)
        if fails or self._world.happens(0.1):
            outcome = decide(job, RuntimeError("boom"), POLICY, self._world.clock.now(), chance)
            run.settlement = Settlement(claim=run.claim, outcome=outcome, keeps_history=True)
        elif job.type == "effect" or (job.type == "parent" and number % 2):
            self._end_in_transaction(run)
        else:
            run.settlement = self._completion(run, decide(job, None, POLICY, self._world.clock.now(), chance))
            self._say_ended(run)

    def _completion(self, run: Run, outcome: Outcome) -> Settlement:
        children: tuple[NewJob, ...] = ()
        if run.claim.job.type == "parent":
            children = (new_job(self._world, "child"),)
            self._world.say("invoke", "child", job=children[0].id, type="child", parent=run.claim.id, fence=run.claim.fence)
        return Settlement(claim=run.claim, outcome=outcome, children=children, keeps_history=True)

    def _say_ended(self, run: Run) -> None:
        self._world.say("ended", run.claim.job.type, job=run.claim.id, fence=run.claim.fence)

    def _end_in_transaction(self, run: Run) -> None:
        """The handler's row, its children and its completion are one commit; the process may die in the midst."""
        settlement = self._completion(run, Completed())
        try:
            self._world.call(lambda: self._commit(run, settlement))
        except Crash:
            return self.die()
        except AnswerLost:
            # What the handler is told: it fails, and the store knows whether its job is completed all the same.
            failure = decide(
                run.claim.job, OutcomeUnknown("the commit was not answered"), POLICY, self._world.clock.now(), self._world.chance
            )
            run.settlement = Settlement(claim=run.claim, outcome=failure, keeps_history=True)
            raise
        except LeaseLost:
            pass
        del self._runs[run.claim.id, run.claim.fence]
        return None

    def _commit(self, run: Run, settlement: Settlement) -> None:
        store = self._world.store
        with store.transaction() as connection:
            within = store.within(connection)
            within.confirm(run.claim)
            self._write(connection, run)
            if self._world.happens(0.05):
                raise Crash
            self._say_ended(run)
            within.settle(settlement)

    def _write(self, connection: Any, run: Run) -> None:
        connection.execute("INSERT INTO effects (job_id, fence) VALUES (?, ?)", [run.claim.id, run.claim.fence])
