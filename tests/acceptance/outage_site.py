"""A store in a Postgres of its own, real workers on it, and a load that knows what became of each job that it asked for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import psutil

from onward import Onward, OutcomeUnknown
from onward.errors import StoreError
from onward.ids import new_id
from tests.acceptance.outage_app import JOBS
from tests.acceptance.worker_process import WorkerProcess
from tests.postgres_wheel import OwnServer

PATIENCE = 40.0
LOOK_EVERY = 0.02
SOON = 1.0
"""Seconds from an enqueue to the start of the job, when a worker is idle."""
TABLES = (
    "CREATE TABLE effects (job_id text, fence bigint)",
    "CREATE TABLE completions (job_id text, fence bigint)",
    """CREATE FUNCTION note_completion() RETURNS trigger LANGUAGE plpgsql AS
       $$ BEGIN INSERT INTO public.completions VALUES (NEW.id, NEW.fence); RETURN NULL; END $$""",
    """CREATE TRIGGER note_completion AFTER INSERT OR UPDATE ON onward.jobs
       FOR EACH ROW WHEN (NEW.status = 'completed') EXECUTE FUNCTION note_completion()""",
)
"""They stop nothing that is done twice, and count it. Writing the row of a completed job again counts as well."""


class Site:
    """``server`` is looked at directly, and ``app`` reaches it directly, whatever stands between it and the workers."""

    def __init__(self, home: Path, server: OwnServer) -> None:
        self.home = home
        self.server = server
        self.app = Onward(server.url, jobs=JOBS.values(), migrate=True)
        self.app.store.open()
        for statement in TABLES:
            server.execute(statement)

    def work(self, *, processes: int = 2, concurrency: int = 8) -> WorkerProcess:
        """Start a worker. Its poll is so rare that it hides nothing."""
        options = ("--processes", str(processes), "--concurrency", str(concurrency), "--poll", "20s", "--sweep", "1s", "--grace", "1s")
        return WorkerProcess(self.home, *options, app="tests.acceptance.outage_app:app")

    def check_that_jobs_start_soon(self) -> None:
        """The workers are idle and their poll is far away, so only a notification can be this quick; three in a row are no chance."""
        for number in range(1, 4):
            job_id = self.app.enqueue(JOBS["plain"], number).id
            self.wait_for_status(job_id, "completed")
            waited = self.one("SELECT extract(epoch FROM started_at - created_at) FROM onward.jobs WHERE id = %s", job_id)
            assert waited < SOON

    def wait_for(self, condition: Callable[[], Any], what: str, seconds: float = PATIENCE) -> None:
        """Another process can only be asked, so ask."""
        until = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < until, f"it took more than {seconds:g} s until {what}"
            time.sleep(LOOK_EVERY)

    def one(self, sql: str, *parameters: Any) -> Any:
        """The one value that a query gives."""
        return self.server.execute(sql, list(parameters))[0][0]

    def column(self, sql: str) -> list[Any]:
        return [row[0] for row in self.server.execute(sql)]

    def status(self, job_id: str) -> str:
        return str(self.one("SELECT status FROM onward.jobs WHERE id = %s", job_id))

    def starts(self) -> list[tuple[str, int]]:
        """The id and the process of each start of a handler, as they came."""
        log = self.home / "effects.log"
        found = [line.split() for line in log.read_text().splitlines()] if log.exists() else []
        return [(job_id, int(pid)) for _, job_id, _, pid in found]

    def pids(self, *, after: int = 0) -> set[int]:
        """The worker processes that have started a handler since there were ``after`` starts."""
        return {pid for _, pid in self.starts()[after:]}

    def wait_for_start(self, job_id: str, seconds: float = PATIENCE) -> None:
        self.wait_for(lambda: job_id in {started for started, _ in self.starts()}, f"{job_id} was started", seconds)

    def wait_for_status(self, job_id: str, status: str, seconds: float = PATIENCE) -> None:
        self.wait_for(lambda: self.status(job_id) == status, f"{job_id} was {status}", seconds)

    def listeners(self) -> int:
        """How many workers listen for notifications, by what the server says."""
        return int(self.one("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'onward listener'"))


class Load(threading.Thread):
    """Enqueues jobs one after the other, and asks again, with the same id, whenever it cannot know. Use in a ``with`` block."""

    MOST = 5000

    def __init__(self, app: Onward) -> None:
        super().__init__(name="load", daemon=True)
        self.app = app
        self.accepted: list[str] = []
        self.refused: list[str] = []
        self.unknown: list[str] = []
        """Asked again until accepted, so each is in ``accepted`` as well in the end."""
        self.surprises: list[BaseException] = []
        """Errors that no application could be asked to expect."""
        self._ending = threading.Event()

    @property
    def troubles(self) -> int:
        return len(self.refused) + len(self.unknown)

    def run(self) -> None:
        for number in range(self.MOST):
            if self._ending.is_set():
                return
            try:
                self._enqueue(number)
            except BaseException as surprise:
                self.surprises.append(surprise)
                return
            self._ending.wait(0.005)

    def _enqueue(self, number: int) -> None:
        job_id, is_unknown = new_id(), False
        definition = JOBS["write" if number % 2 else "plain"]
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            try:
                self.app.enqueue(definition, number, id=job_id)
            except OutcomeUnknown:
                is_unknown = True
                self.unknown.append(job_id)
            except StoreError:
                if not is_unknown:
                    self.refused.append(job_id)
                    self._ending.wait(0.05)
                    return
            else:
                self.accepted.append(job_id)
                return
            self._ending.wait(0.05)
        raise TimeoutError(f"it never became known what became of {job_id}")

    def end(self) -> None:
        self._ending.set()
        self.join(PATIENCE)
        assert not self.is_alive()
        assert not self.surprises, self.surprises

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self.join(PATIENCE)
        self.app.close()


def cpu_seconds(supervisor: int) -> float:
    """The processor time that a supervisor and its worker processes have used so far."""
    root = psutil.Process(supervisor)
    return sum(times.user + times.system for times in (one.cpu_times() for one in (root, *root.children(recursive=True))))
