"""What people and programs ask of the jobs in a Postgres database: look, stop, hurry, repeat, forget, and pause their queues."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta
from typing import TypeVar

from onward.actions import Action, NewAction
from onward.drivers.postgres.database import LOOK_WITHIN, ONE_WAITS, TURN_WAITS, Database
from onward.drivers.postgres.questions import question_sql
from onward.drivers.postgres.statement_text import StatementText
from onward.drivers.postgres.waker import Waker
from onward.drivers.sql import actions, people, periodic, queues
from onward.drivers.sql.act import act
from onward.drivers.sql.lookout import worker_row
from onward.drivers.sql.sight import VerbsOfSight
from onward.drivers.sql.statements import Operation, Statement
from onward.drivers.wakers import Wakers
from onward.errors import StoreBusy
from onward.inspection import STUCK_AFTER, Acted, Answer, BulkVerb, JobFilter, Question, Queue, together
from onward.jobs import Attempt, Job
from onward.moments import PeriodicChange, PeriodicLook, PeriodicWritten
from onward.presence import Presence
from onward.status import Status

T = TypeVar("T")


class VerbsForPeople(VerbsOfSight):
    """The part of the store that no worker calls."""

    _database: Database
    _text: StatementText
    _waker: Wakers[Waker]

    def get(self, job_id: str, *, owner: str | None = None) -> Job:
        return self._database.read(lambda: people.get(job_id, owner))

    def find(self, where: JobFilter, *, limit: int = 50, before: str | None = None) -> list[Job]:
        return self._database.read(lambda: people.find(where, limit, before), patience=LOOK_WITHIN)

    def find_active(self, types: Sequence[str], key: str, *, owner: str) -> Job | None:
        return self._database.read(lambda: people.find_active(types, key, owner))

    def count(self, where: JobFilter) -> int:
        return self._database.read(lambda: people.count(where), patience=LOOK_WITHIN)

    def history(self, job_id: str) -> list[Attempt]:
        return self._database.read(lambda: people.history(job_id))

    def cancel(self, job_id: str, *, owner: str | None = None) -> Job:
        return self._database.write(lambda now: people.cancel(job_id, owner, now))

    def retry(self, job_id: str, *, owner: str | None = None) -> Job:
        return self._write_and_wake(lambda now: people.retry(job_id, owner, now))

    def run_now(self, job_id: str, *, owner: str | None = None) -> Job:
        return self._write_and_wake(lambda now: people.run_now(job_id, owner, now))

    def delete(self, job_id: str, *, owner: str | None = None) -> None:
        self._database.write(lambda now: people.delete(job_id, owner, now))

    def act(
        self, verb: BulkVerb, job_ids: Sequence[str], statuses: Sequence[Status] = tuple(Status), *, action: str | None = None
    ) -> Acted:
        try:
            return self._act(verb, job_ids, statuses, action, TURN_WAITS)
        except StoreBusy:  # somebody's open transaction holds one of them
            return together([self._act_alone(verb, one, statuses, action) for one in job_ids])

    def _act(self, verb: BulkVerb, job_ids: Sequence[str], statuses: Sequence[Status], action: str | None, waits: float) -> Acted:
        acted = self._database.write(lambda now: act(verb, job_ids, statuses, now, action), lock_timeout=waits)
        self._waker.wake()
        return acted

    def _act_alone(self, verb: BulkVerb, job_id: str, statuses: Sequence[Status], action: str | None) -> Acted:
        try:
            return self._act(verb, [job_id], statuses, action, ONE_WAITS)
        except StoreBusy:
            held = Acted(refused={job_id: f"job {job_id} is held by somebody else's transaction: try again when that has ended"})
            if action is not None:
                self._database.write(lambda _: actions.count(action, held))
            return held

    def pause(self, queue: str, *, actor: str = "") -> bool:
        is_new = self._database.write(lambda now: queues.pause(queue, actor, now))
        self._database.alone(Statement("outlast_claims"))
        return is_new

    def resume(self, queue: str, *, actor: str = "") -> bool:
        return self._write_and_wake(lambda now: queues.resume(queue, actor, now))

    def paused(self) -> dict[str, datetime]:
        return self._database.read(queues.paused)

    def queues(self) -> list[Queue]:
        return self._database.read(queues.queues, patience=LOOK_WITHIN)

    def due_periodic(self) -> PeriodicLook:
        return self._database.read(lambda: periodic.due_periodic(self._database.now_text()), is_spare=True)

    def periodic(self, names: Collection[str] | None = None) -> PeriodicLook:
        return self._database.read(lambda: periodic.periodic(names, self._database.now_text()))

    def write_periodic(self, changes: Sequence[PeriodicChange]) -> list[PeriodicWritten]:
        return self._write_and_wake(lambda now: periodic.write_periodic(changes, now))

    def delete_periodic(self, name: str) -> bool:
        return self._database.write(lambda _: periodic.delete_periodic(name))

    def begin_action(self, action: NewAction) -> None:
        self._database.write(lambda now: actions.begin(action, now))

    def end_action(self, action_id: str, *, was_stopped: bool = False) -> None:
        self._database.write(lambda now: actions.end(action_id, now, was_stopped=was_stopped))

    def actions(self, *, limit: int = 50, before: str | None = None) -> list[Action]:
        return self._database.read(lambda: actions.actions(limit, before))

    def answer(self, question: Question, *, stuck_after: timedelta = STUCK_AFTER) -> Answer:
        sql = question_sql(self._text.raw, question, stuck_after, self._database.now_text())
        columns, rows = self._database.ask(sql)
        return Answer(question, columns, rows)

    def question_sql(self, question: Question, *, stuck_after: timedelta = STUCK_AFTER) -> str:
        return question_sql(self._text.raw, question, stuck_after) + ";"

    def _look_up(self, operation: Callable[[], Operation[T]]) -> T:
        return self._database.read(operation, patience=LOOK_WITHIN)

    def _change(self, operation: Callable[[datetime], Operation[T]]) -> T:
        return self._write_and_wake(operation)

    def now(self) -> datetime:
        return self.due_periodic().now  # the cheapest look at the server's clock that there is

    def announce(self, presence: Presence) -> None:
        # What each of many idle workers says each minute is one statement; the first time, all of it.
        if not self._database.alone(Statement("see_worker", worker_row(presence, self._database.now_text()))):
            super().announce(presence)

    def _note(self, operation: Callable[[datetime], Operation[T]]) -> T:
        return self._database.write(operation, is_spare=True)

    def _write_and_wake(self, operation: Callable[[datetime], Operation[T]], *, is_spare: bool = False) -> T:
        result = self._database.write(operation, is_spare=is_spare)
        self._waker.wake()
        return result
