"""Callers: they enqueue in every way, and ask again under the same id while they do not know what came of it."""

from __future__ import annotations

from datetime import timedelta

from onward.errors import OnwardError
from onward.jobs import NewJob
from onward.testing.factories import make_new_job
from tests.simulation.world import AnswerLost, World

TYPES = ("plain", "plain", "effect", "effect", "parent", "flaky", "once", "alone")
TRIES = {"once": 1}
KEYS = ("a", "b")


class RolledBack(Exception):
    """The caller of a transaction thought better of it."""


def new_job(world: World, type_: str, key: str | None = None) -> NewJob:
    """What a caller asks for; a quarter is due later."""
    delay = timedelta(seconds=world.chance.choice((0, 0, 0, 7)))
    number = world.chance.randrange(6)
    job_id = world.new_id()
    return make_new_job(
        type_, number, id=job_id, delay=delay, max_attempts=TRIES.get(type_, 4), isolated=type_ == "alone", key=key, priority=number % 2
    )


class Client:
    """One caller, who does one thing after the other."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._unknown: tuple[str, list[NewJob]] | None = None
        """What was asked for and has to be asked again."""

    def step(self) -> None:
        """Enqueue something, or ask again."""
        if self._unknown is not None:
            return self._ask(*self._unknown)
        chance = self._world.chance
        verb = chance.choice(("enqueue", "enqueue", "many", "keyed", "keyed", "transaction"))
        count = chance.randint(2, 3) if verb == "many" else 1
        type_ = "keyed" if verb == "keyed" else "plain" if verb == "transaction" else chance.choice(TYPES)
        jobs = [new_job(self._world, type_, chance.choice(KEYS) if verb == "keyed" else None) for _ in range(count)]
        rolls_back = verb == "transaction" and chance.random() < 0.3
        for job in jobs:
            self._world.say("invoke", verb, job=job.id, type=job.type, key=job.key or "", rolled_back=rolls_back)
        if rolls_back:
            return self._roll_back(jobs[0])
        return self._ask(verb, jobs)

    def ask_for_one(self) -> None:
        """One plain job, now that nothing goes wrong: else there are histories, two in 50,000, in which nothing was accepted, or run."""
        job = new_job(self._world, "plain")
        self._world.say("invoke", "enqueue", job=job.id, type=job.type, key="")
        self._ask("enqueue", [job])

    @property
    def is_done(self) -> bool:
        return self._unknown is None

    def _ask(self, verb: str, jobs: list[NewJob]) -> None:
        try:
            if verb == "transaction":
                self._world.call(lambda: self._transaction(jobs[0]))
                holders = [""]
            else:
                accepted = self._world.call(lambda: self._world.store.enqueue(jobs))
                holders = [one.id if job.key else "" for job, one in zip(jobs, accepted, strict=True)]
        except AnswerLost:
            self._unknown = (verb, jobs)
            return
        except OnwardError as error:
            for job in jobs:
                self._world.say("fail", verb, job=job.id, key=job.key or "", detail=str(error)[:200])
            self._unknown = None
            return
        self._unknown = None
        for job, holder in zip(jobs, holders, strict=True):
            self._world.say("ok", verb, job=job.id, key=job.key or "", holder=holder)

    def _transaction(self, job: NewJob, *, rolls_back: bool = False) -> None:
        """A row of the caller's own, and its job."""
        with self._world.store.transaction() as connection:
            connection.execute("INSERT INTO orders (job_id) VALUES (?) ON CONFLICT DO NOTHING", [job.id])
            self._world.store.within(connection).enqueue([job])
            if rolls_back:
                raise RolledBack

    def _roll_back(self, job: NewJob) -> None:
        try:
            self._transaction(job, rolls_back=True)
        except RolledBack:
            self._world.say("fail", "transaction", job=job.id, detail="rolled back")
