"""``SQLiteStore``: every verb of a store over one SQLite file. The verbs are operations; the file runs them."""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime, timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

from msgspec.structs import replace

from onward.actions import Action, NewAction
from onward.admission import Constraint
from onward.clock import Clock
from onward.driver import AsyncWithin, Capabilities, Within
from onward.drivers.borrowed import find_bridge
from onward.drivers.sql import actions, people, periodic, pruning, queues, rollups, sweep
from onward.drivers.sql.act import act
from onward.drivers.sql.enqueue import enqueue, is_plain
from onward.drivers.sql.metrics import count_totals
from onward.drivers.sql.recheck import Cursors, portions, recheck
from onward.drivers.sql.rows import write_instant, write_new_job
from onward.drivers.sql.sight import VerbsOfSight
from onward.drivers.sql.statements import Operation, load_statements, run
from onward.drivers.sql.turn import turn
from onward.drivers.sqlite.claim import claim
from onward.drivers.sqlite.columns import column_lists
from onward.drivers.sqlite.connection import close_quietly, connect
from onward.drivers.sqlite.courtesy import Courtesy
from onward.drivers.sqlite.examine import examine
from onward.drivers.sqlite.file import SQLiteFile
from onward.drivers.sqlite.file_system import file_system_of
from onward.drivers.sqlite.free_space import give_back, pages_to_give_back
from onward.drivers.sqlite.migrate import migration_sql, migrations, version
from onward.drivers.sqlite.misdated import set_aside_misdated
from onward.drivers.sqlite.questions import question_sql, questions
from onward.drivers.sqlite.transaction import transaction
from onward.drivers.sqlite.url import PREFIX, TIMEOUT, write_url
from onward.drivers.sqlite.vendor_errors import is_refusal, translate
from onward.drivers.sqlite.waker import Waker
from onward.drivers.sqlite.within import BRIDGES, Joined
from onward.drivers.wakers import Wakers
from onward.errors import BreakerOpen, DuplicateJob, InvalidSetting, OnwardError, ValueRefused
from onward.inspection import STUCK_AFTER, Acted, Answer, BulkVerb, Finding, JobFilter, Question, Queue, Retention
from onward.jobs import Accepted, Attempt, Job, NewJob
from onward.moments import PeriodicChange, PeriodicLook, PeriodicWritten
from onward.pruning import Due, Ended, Gone, Look
from onward.rollups import Rollup, Tally
from onward.status import Status
from onward.turn import Demand, Extended, Extension, Settlement, Swept, Turn

T = TypeVar("T")
# Longer than a waiting process sleeps between two tries, so that it finds the lock free once in every gap.
PAUSE_BETWEEN_TURNS = 0.0004
FILES = ("statements.sql", "periodic.sql", "waits.sql", "metrics.sql", "alerts.sql", "lookout.sql", "failures.sql", "attempts.sql")
_PREFIX = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,39}", re.ASCII)


class SQLiteStore(VerbsOfSight):
    """Jobs in the SQLite file at ``path``, which may be the application's own; it becomes WAL.

    ``timeout`` is how long a write waits for other writers. ``relaxed`` is explained in ``onward.drivers.durability``. ``strict`` refuses
    callers' connections with ``synchronous`` below FULL.
    ``poll`` is how often ``wait`` looks by itself behind the file's events. ``file_system`` names the file system of a path; handed in,
    so that tests can say "nfs". Nothing is opened before the first use.
    """

    capabilities = Capabilities(name="sqlite", has_one_writer=True)

    def __init__(
        self,
        path: str | Path,
        *,
        clock: Clock,
        strict: bool = False,
        prefix: str = PREFIX,
        timeout: timedelta = TIMEOUT,
        allow_network_file_system: bool = False,
        relaxed: bool = False,
        poll: timedelta = timedelta(seconds=1),
        file_system: Callable[[Path], str] = file_system_of,
    ) -> None:
        if str(path) in ("", ":memory:"):
            raise InvalidSetting("SQLite gives each connection a :memory: of its own: use memory://, or give a file")
        if not _PREFIX.fullmatch(prefix):
            raise InvalidSetting(f"prefix must be letters, digits and _, beginning with a letter or _, not {prefix!r:.60}")
        self.path = Path(path).absolute()
        self.clock = clock
        self.strict = strict
        self.prefix = prefix
        self.timeout = timeout
        self.relaxed = relaxed
        self.url = write_url(
            self.path, prefix=prefix, timeout=timeout, allow_network_file_system=allow_network_file_system, relaxed=relaxed
        )
        package = files("onward.drivers.sqlite")
        text = "\n".join(package.joinpath(name).read_text(encoding="utf-8") for name in FILES)
        self.statements = load_statements(text, prefix=prefix, **column_lists())
        self._file = SQLiteFile(
            self.path,
            self.statements,
            prefix=prefix,
            timeout=timeout.total_seconds(),
            now_text=lambda: write_instant(clock.now()),
            file_system=lambda: "" if allow_network_file_system else file_system(self.path.parent),
        )
        self._waker = Wakers(lambda: Waker(self.path, self._file.has_news, poll=poll.total_seconds()))
        self._last_turn = 0.0
        self._rechecked = Cursors()
        self._courtesy = Courtesy()

    # -- every backend -----------------------------------------------------------------------------------------------

    def open(self) -> None:
        self._file.open()
        self.schema_version = self._file.schema_version

    def exists(self) -> bool:
        try:
            self.path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:  # something is there, or cannot be: `open` says what is wrong
            return True
        return True

    def needs_migration(self) -> bool:
        return self._found_version() < max(migrations())

    def migrate(self) -> None:
        self.open()

    def migration_sql(self) -> str:
        return migration_sql(self._found_version(), self.prefix, str(self.path))

    def _found_version(self) -> int:
        """Look without making or changing anything."""
        if not self.exists():
            return 0
        connection = connect(self.path, time.monotonic() + self.timeout.total_seconds())
        try:
            return version(connection, self.statements, self.prefix, str(self.path))
        finally:
            close_quietly(connection)

    def close(self) -> None:
        self._waker.wake()
        self._file.close()

    def enqueue_each(self, requests: Sequence[Sequence[NewJob]]) -> list[list[Accepted] | Exception]:
        try:
            answers = self._file.write(
                lambda cursor: self._accept(cursor, requests), lambda: tuple(job.id for request in requests for job in request)
            )
        except (BreakerOpen, DuplicateJob) as refusal:
            return [refusal]
        self._waker.wake()
        return answers

    def _accept(self, cursor: sqlite3.Cursor, requests: Sequence[Sequence[NewJob]]) -> list[list[Accepted] | Exception]:
        if len(requests) == 1:  # a refusal rolls back the whole transaction
            if len(requests[0]) == 1 and is_plain(requests[0][0]) and self._stored_at_once(cursor, requests[0][0]):
                return [[Accepted(requests[0][0].id)]]
            return [run(cursor, self.statements, enqueue(requests[0], self.clock.now()))]
        answers: list[list[Accepted] | Exception] = []
        for request in requests:
            cursor.execute("SAVEPOINT request")
            try:
                answers.append(run(cursor, self.statements, enqueue(request, self.clock.now())))
            except (BreakerOpen, DuplicateJob, ValueRefused, sqlite3.Error, UnicodeEncodeError, OverflowError) as error:
                if isinstance(error, sqlite3.Error) and not is_refusal(error):
                    raise
                cursor.execute("ROLLBACK TO request")
                answers.append(error if isinstance(error, OnwardError) else translate(error, str(self.path)))
            cursor.execute("RELEASE request")
        return answers

    def _stored_at_once(self, cursor: sqlite3.Cursor, job: NewJob) -> bool:
        """Store a job without a key. False where its id is taken: what that means is found out as for any other."""
        now = self.clock.now()
        cursor.execute(self.statements["enqueue_alone"], write_new_job(job, now, write_instant(now)))
        return bool(cursor.fetchall())

    def turn(self, settlements: Sequence[Settlement] = (), demand: Demand | None = None, tally: Tally | None = None) -> Turn:
        if demand is not None:
            self._waker.mine()
        # Another process can take SQLite's lock only while nobody holds it. Handlers mostly run in between, so this seldom sleeps.
        pause = max(self._last_turn + PAUSE_BETWEEN_TURNS - time.monotonic(), self._courtesy.begin())
        if pause > 0:
            time.sleep(pause)
        try:
            done = self._file.write(
                lambda cursor: run(cursor, self.statements, turn(settlements, demand, self.clock.now(), claim, tally)),
                lambda: tuple(one.claim.id for one in settlements),
                sees=demand is not None,
                # A child may answer somebody else's enqueue, who is told then that it is accepted.
                relaxed=self.relaxed and not any(one.children for one in settlements),
            )
        finally:
            self._last_turn = time.monotonic()
            self._courtesy.end()
        if tally is not None:
            tally.confirm()
        return done

    def extend(self, extensions: Sequence[Extension]) -> Extended:
        return self._write(lambda: sweep.extend(extensions, self.clock.now()))

    def wait(self, timeout: timedelta) -> bool:
        self._file.refuse_inside()
        return self._waker.mine().wait(timeout.total_seconds())

    def wake(self) -> None:
        self._waker.wake()

    @property
    def inside_transaction(self) -> bool:
        return self._file.is_inside

    # -- a database --------------------------------------------------------------------------------------------------

    def transaction(self, *, limit: timedelta | None = None) -> AbstractContextManager[Any]:
        return self._transaction(limit)

    @contextmanager
    def _transaction(self, limit: timedelta | None) -> Any:
        with transaction(self._file, limit, self.clock) as connection:
            yield connection
        self._waker.wake()

    def within(self, connection: Any) -> Within:
        joined: Within = find_bridge(connection, BRIDGES, "sync").join(connection, self._joined())
        return joined

    def within_async(self, connection: Any) -> AsyncWithin:
        joined: AsyncWithin = find_bridge(connection, BRIDGES, "async").join(connection, self._joined())
        return joined

    def _joined(self) -> Joined:
        return Joined(self.statements, self.clock, str(self.path), self.strict, self._file.open)

    def get(self, job_id: str, *, owner: str | None = None) -> Job:
        return self._read(lambda: people.get(job_id, owner))

    def find(self, where: JobFilter, *, limit: int = 50, before: str | None = None) -> list[Job]:
        return self._read(lambda: people.find(where, limit, before))

    def find_active(self, types: Sequence[str], key: str, *, owner: str) -> Job | None:
        return self._read(lambda: people.find_active(types, key, owner))

    def count(self, where: JobFilter) -> int:
        return self._read(lambda: people.count(where))

    def history(self, job_id: str) -> list[Attempt]:
        return self._read(lambda: people.history(job_id))

    def held(self, lease_owner: str) -> list[Job]:
        return self._read(lambda: people.held(lease_owner))

    def cancel_requested(self, lease_owner: str) -> frozenset[str]:
        return self._read(lambda: people.cancel_requested(lease_owner))

    def cancel(self, job_id: str, *, owner: str | None = None) -> Job:
        return self._write(lambda: people.cancel(job_id, owner, self.clock.now()))

    def retry(self, job_id: str, *, owner: str | None = None) -> Job:
        return self._write_and_wake(lambda: people.retry(job_id, owner, self.clock.now()))

    def run_now(self, job_id: str, *, owner: str | None = None) -> Job:
        return self._write_and_wake(lambda: people.run_now(job_id, owner, self.clock.now()))

    def delete(self, job_id: str, *, owner: str | None = None) -> None:
        return self._write(lambda: people.delete(job_id, owner, self.clock.now()))

    def act(
        self, verb: BulkVerb, job_ids: Sequence[str], statuses: Sequence[Status] = tuple(Status), *, action: str | None = None
    ) -> Acted:
        return self._write_and_wake(lambda: act(verb, job_ids, statuses, self.clock.now(), action))

    def pause(self, queue: str, *, actor: str = "") -> bool:
        return self._write(lambda: queues.pause(queue, actor, self.clock.now()))

    def resume(self, queue: str, *, actor: str = "") -> bool:
        return self._write_and_wake(lambda: queues.resume(queue, actor, self.clock.now()))

    def paused(self) -> dict[str, datetime]:
        return self._read(queues.paused)

    def queues(self) -> list[Queue]:
        return self._read(queues.queues)

    def _look_up(self, operation: Callable[[], Operation[T]]) -> T:
        return self._read(operation)

    def _change(self, operation: Callable[[datetime], Operation[T]]) -> T:
        return self._write_and_wake(lambda: operation(self.clock.now()))

    def _note(self, operation: Callable[[datetime], Operation[T]]) -> T:
        return self._write(lambda: operation(self.clock.now()))

    def due_periodic(self) -> PeriodicLook:
        return self._read(lambda: periodic.due_periodic(write_instant(self.clock.now())))

    def periodic(self, names: Collection[str] | None = None) -> PeriodicLook:
        return self._read(lambda: periodic.periodic(names, write_instant(self.clock.now())))

    def write_periodic(self, changes: Sequence[PeriodicChange]) -> list[PeriodicWritten]:
        return self._write_and_wake(lambda: periodic.write_periodic(changes, self.clock.now()))

    def delete_periodic(self, name: str) -> bool:
        return self._write(lambda: periodic.delete_periodic(name))

    def begin_action(self, action: NewAction) -> None:
        self._write(lambda: actions.begin(action, self.clock.now()))

    def end_action(self, action_id: str, *, was_stopped: bool = False) -> None:
        self._write(lambda: actions.end(action_id, self.clock.now(), was_stopped=was_stopped))

    def actions(self, *, limit: int = 50, before: str | None = None) -> list[Action]:
        return self._read(lambda: actions.actions(limit, before))

    def sweep(
        self, types: Collection[str] = (), *, constraints: Mapping[str, Constraint] | None = None, patience: timedelta = timedelta(0)
    ) -> Swept:
        swept = self._write(lambda: sweep.sweep(self.clock.now()))
        self._write(lambda: set_aside_misdated(self.clock.now()))
        unblocked = 0
        while types:  # in transactions of their own: other writers get between them
            batch = self._write(lambda: sweep.unblock(types, self.clock.now()))
            unblocked += batch
            if batch < sweep.UNBLOCKED_AT_ONCE:
                break
        for reasons in portions(self._rechecked):
            unblocked += self._write(lambda: recheck(self._rechecked, self.clock.now(), types, constraints, reasons))  # noqa: B023 - called at once
        if swept.requeued or unblocked:
            self._waker.wake()
        return replace(swept, unblocked=unblocked)

    def recover(self, lease_owner: str, started: Collection[str]) -> Swept:
        return self._write_and_wake(lambda: sweep.recover(lease_owner, started, self.clock.now()))

    def rollups(self, since: datetime) -> list[Rollup]:
        return self._read(lambda: rollups.rollups(since))

    def finished(self, look: Look) -> list[Ended]:
        return self._read(lambda: pruning.finished(look, self.clock.now()))

    def delete_finished(self, due: Due, *, relaxed: bool = False) -> Gone:
        began, count = self._file.write(lambda cursor: (time.monotonic(), self._delete(cursor, due)), relaxed=relaxed)
        return Gone(count, time.monotonic() - began)

    def _delete(self, cursor: sqlite3.Cursor, due: Due) -> int:
        return run(cursor, self.statements, pruning.delete_finished(due))

    def tidy(self, retention: Retention, *, limit: int = 1000) -> bool:
        while self._write(lambda: count_totals(self.clock.now())):
            pass  # other writers get between them
        while self._write(lambda: rollups.merge_rollups(self.clock.now(), retention.rollups, limit)):
            pass
        return self._write(lambda: pruning.tidy(retention, limit, self.clock.now()))

    def give_back(self) -> bool:
        pages = self._file.read(pages_to_give_back)
        if pages:
            self._file.write(lambda cursor: give_back(cursor, pages), relaxed=True)
        return pages > 0

    def answer(self, question: Question, *, stuck_after: timedelta = STUCK_AFTER) -> Answer:
        return self._file.read(lambda cursor: questions(cursor, self.statements, question, self.clock.now(), stuck_after))

    def question_sql(self, question: Question, *, stuck_after: timedelta = STUCK_AFTER) -> str:
        return question_sql(self.statements, question, stuck_after)

    def examine(self) -> list[Finding]:
        self._file.open()
        return self._file.read(lambda cursor: examine(cursor, self.statements, self.path, file_system_of(self.path.parent), self.prefix))

    def _read(self, operation: Callable[[], Operation[T]]) -> T:
        return self._file.read(lambda cursor: run(cursor, self.statements, operation()))

    def _write(self, operation: Callable[[], Operation[T]]) -> T:
        return self._file.write(lambda cursor: run(cursor, self.statements, operation()))

    def _write_and_wake(self, operation: Callable[[], Operation[T]]) -> T:
        result = self._write(operation)
        self._waker.wake()
        return result
