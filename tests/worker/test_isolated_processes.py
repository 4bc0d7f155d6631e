"""Isolated jobs in processes of their own: what they do to these harms nobody, and nothing that a context offers is missing there."""

from __future__ import annotations

import errno
import logging
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from onward.app import Onward
from onward.definition import define_job
from onward.drivers.memory import MemoryStore
from onward.errors import InvalidDefinition
from onward.inspection import JobFilter
from onward.status import Status
from onward.testing.factories import make_new_job
from onward.worker.isolated_messages import Notice, Progressed, Ready, Report, Started, write_line
from onward.worker.isolated_process import IsolatedProcess
from onward.worker.worker import Worker
from tests.worker.conftest import Gate, work_off
from tests.worker.isolated_app import JOBS, make_app
from tests.worker.process_app import Work

NAME = "tests.worker.isolated_app:app"
PATIENCE = 120.0


class Site:
    """An application over a SQLite file, with a worker embedded in this process that knows how to isolate."""

    def __init__(self, app: Onward, effects: Path) -> None:
        self.app = app
        self.effects = effects
        self.folder = os.getcwd()
        self.worker = app.worker(application=NAME, poll=0.02, grace=2, timeout_grace=0.5, concurrency=4)

    def enqueue(self, name: str, number: int = 0, **options: object) -> str:
        return self.app.enqueue(JOBS[name], Work(number), **options).id  # type: ignore[arg-type]

    def lines(self, beginning: str) -> list[str]:
        return [line for line in self.effects.read_text().splitlines() if line.startswith(beginning)]

    def wait_for(self, condition: Callable[[], bool]) -> None:
        until = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < until, f"it did not happen; the log has {self.effects.read_text()[-500:]}"
            time.sleep(0.01)

    def wait_for_end(self, job_id: str) -> None:
        self.wait_for(lambda: self.app.get(job_id).status.is_final)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    effects = tmp_path / "effects.log"
    effects.touch()
    monkeypatch.setenv("ONWARD_URL", f"sqlite:///{tmp_path / 'jobs.db'}")
    monkeypatch.setenv("EFFECTS", str(effects))
    root = Path(__file__).parents[2]
    monkeypatch.setenv("PYTHONPATH", f"{root / 'src'}:{root}")
    with make_app() as app:
        made = Site(app, effects)
        made.worker.start()
        yield made
        made.worker.stop(grace=0)


def is_alive(pid: int) -> bool:
    """False also for one that is dead and not reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def pid_of(line: str) -> int:
    return int(line.split()[-1])


@pytest.mark.parametrize("name", ["tells_where", "tells_where_awaited"])
def test_an_isolated_job_runs_in_another_process_which_is_used_again(site: Site, name: str) -> None:
    """Loading an application takes longer than most jobs."""
    for number in range(3):
        job_id = site.enqueue(name, number)
        site.wait_for_end(job_id)
        assert (site.app.get(job_id).status, site.app.get(job_id).result) == (Status.COMPLETED, str(os.getpid()))
    pids = {pid_of(line) for line in site.lines("start")}
    assert len(pids) == 1
    assert os.getpid() not in pids
    site.worker.stop()
    site.wait_for(lambda: not any(map(is_alive, pids)))


def test_isolated_jobs_run_beside_others_and_each_other(site: Site) -> None:
    """Each has a process to itself, so nobody has to wait for nobody."""
    waiting = [site.enqueue("reports_and_waits") for _ in range(2)]
    site.wait_for(lambda: len(site.lines("start")) == 2)
    quick = site.enqueue("quick", 1)
    site.wait_for_end(quick)
    assert len({pid_of(line) for line in site.lines("start")}) == 2
    assert [site.app.get(one).status for one in waiting] == [Status.IN_PROGRESS] * 2
    for one in waiting:
        site.app.cancel(one)
        site.wait_for_end(one)


def test_all_that_a_context_collects_comes_back(site: Site) -> None:
    """Result, progress, counts and children, of which one has a key for a time."""
    job_id = site.enqueue("uses_its_context", owner="ada")
    site.wait_for_end(job_id)
    job = site.app.get(job_id)
    assert (job.status, job.progress) == (Status.COMPLETED, '{"at":1}')
    assert job.result == f'{{"attempt":1,"owner":"ada","worker":"{site.worker.lease_owner}"}}'
    (attempt,) = site.app.history(job_id)
    assert (attempt.processed, attempt.failed) == (3, 1)
    site.wait_for(lambda: site.lines("quick 7") != [])
    first, second = sorted(site.app.store.find(JobFilter(types=("quick",)), limit=5), key=lambda one: one.scheduled_at)
    assert (first.idempotency_key, first.owner) == ("child", "ada")
    with sqlite3.connect(site.app.store.url.removeprefix("sqlite:///")) as connection:
        assert connection.execute("SELECT scope FROM onward_jobs WHERE id = ?", (first.id,)).fetchone() == ("7200.0",)
    connection.close()
    assert (second.scheduled_at - second.created_at).total_seconds() == 3600


@pytest.mark.parametrize(
    ("name", "status", "attempts", "error"),
    [
        ("fails", Status.DEAD_LETTER, 2, "ValueError: not today"),
        ("snoozes", Status.COMPLETED, 1, None),
        ("exits", Status.DEAD_LETTER, 2, "SystemExit: 4"),
    ],
)
def test_an_ending_means_there_what_it_means_here(site: Site, name: str, status: Status, attempts: int, error: str | None) -> None:
    job_id = site.enqueue(name)
    site.wait_for_end(job_id)
    job = site.app.get(job_id)
    assert (job.status, job.attempts, (job.error or "").partition("\n")[0] or None) == (status, attempts, error)


def test_progress_is_seen_while_it_runs_and_a_stop_is_heard(site: Site) -> None:
    job_id = site.enqueue("reports_and_waits")
    site.wait_for(lambda: site.app.get(job_id).progress == '"half"')
    site.app.cancel(job_id)
    site.wait_for_end(job_id)
    # It came to an end of its own, and what completes stays completed.
    assert (site.app.get(job_id).status, site.app.get(job_id).result) == (Status.COMPLETED, '"stopped"')


def test_a_cancelled_async_handler_cleans_up_there(site: Site) -> None:
    job_id = site.enqueue("waits_awaited")
    site.wait_for(lambda: site.lines("start") != [])
    site.app.cancel(job_id)
    site.wait_for_end(job_id)
    assert site.app.get(job_id).status is Status.CANCELLED
    assert site.lines("cleaned up") != []


def test_a_job_that_is_cancelled_while_its_process_loads_the_application_never_begins(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Loading may take a minute; the process is kept for the next job."""
    may_load, load = threading.Event(), IsolatedProcess.wait_until_ready
    monkeypatch.setattr(IsolatedProcess, "wait_until_ready", lambda process, seconds: may_load.wait(PATIENCE) and load(process, seconds))
    job_id = site.enqueue("waits_awaited")
    site.wait_for(lambda: site.app.get(job_id).status is Status.IN_PROGRESS)
    site.app.cancel(job_id)
    site.wait_for(lambda: all(run.cancel_requested_at for run in site.worker.slots.held()))
    with caplog.at_level(logging.INFO):
        may_load.set()
        site.wait_for_end(job_id)
        assert site.app.get(job_id).status is Status.CANCELLED
        site.wait_for_end(site.enqueue("tells_where"))
    assert "before it began" not in caplog.text
    (start,) = site.lines("start")
    assert start.startswith("start 0")


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("is_killed", "SIGKILL"),
        ("breaks_memory", "SIGSEGV"),
        ("leaves", "exit code 3"),
        ("aborts", "SIGABRT"),
        ("leaves_a_child_and_dies", "exit code 1"),
        ("closes_everything", "exit code 1"),
        ("is_ended_by_a_signal_without_a_name", "signal 40"),
        ("writes_into_the_connection", "SIGKILL"),
    ],
)
def test_a_death_is_recorded_as_what_it_was(site: Site, name: str, how: str) -> None:
    """It costs its own tries and nothing else; its neighbours do not notice, and what it started is gone with it."""
    neighbour = site.enqueue("reports_and_waits")
    site.wait_for(lambda: len(site.lines("start")) == 1)
    job_id = site.enqueue(name)
    site.wait_for_end(job_id)
    job = site.app.get(job_id)
    assert (job.status, job.attempts, job.fence, job.lost_leases) == (Status.DEAD_LETTER, 2, 2, 0)
    assert (job.error or "").partition("\n")[0] == f"IsolatedProcessDied: its process died: {how}"
    assert [attempt.outcome for attempt in site.app.history(job_id)] == ["retried", "dead_lettered"]
    assert site.app.get(neighbour).status is Status.IN_PROGRESS
    for line in site.lines("left"):
        site.wait_for(lambda line=line: not is_alive(int(line.split()[1])))  # type: ignore[misc]
    site.app.cancel(neighbour)


@pytest.mark.parametrize("number", [1, 2])
def test_its_transaction_is_one_commit_there_too(site: Site, number: int) -> None:
    """Also when the process dies right behind it: the job is completed, and the death is told with the completion."""
    job_id = site.enqueue("writes_in_its_transaction", number)
    site.wait_for_end(job_id)
    job = site.app.get(job_id)
    assert (job.status, job.fence) == (Status.COMPLETED, 1)
    with sqlite3.connect(site.app.store.url.removeprefix("sqlite:///")) as connection:
        assert connection.execute("SELECT number FROM effects").fetchall() == [(number,)]
    connection.close()
    site.wait_for(lambda: len(site.lines("quick 9")) == 1)


@pytest.mark.parametrize("name", ["holds_the_gil", "starts_a_program_and_holds"])
def test_one_that_does_not_end_at_its_limit_is_killed_with_all_it_started(site: Site, name: str, caplog: pytest.LogCaptureFixture) -> None:
    """No thread could be ended; a process can, and its slot is free again."""
    job_id = site.enqueue(name)
    site.wait_for_end(job_id)
    job = site.app.get(job_id)
    assert (job.status, job.attempts) == (Status.DEAD_LETTER, 2)
    assert (job.error or "").startswith("TimeoutError: timed out after 1s")
    assert "did not end at its limit of 1s; its process is killed" in caplog.text
    assert "died" not in caplog.text
    pids = [pid_of(line) for line in site.lines("start")] + [int(line.split()[1]) for line in site.lines("left")]
    site.wait_for(lambda: not any(map(is_alive, pids)))
    assert not site.worker.slots.has_too_many_stuck


@pytest.mark.parametrize("name", ["reports_and_waits", "waits_awaited", "holds_the_gil"])
def test_a_stop_ends_within_its_grace_whatever_runs_there(site: Site, name: str) -> None:
    """What does not end is killed, and its job is given back."""
    job_id = site.enqueue(name)
    site.wait_for(lambda: site.lines("start") != [])
    pid = pid_of(site.lines("start")[0])
    assert site.worker.stop(grace=0.2) == 0
    job = site.app.get(job_id)
    expected = (Status.COMPLETED, 1) if name == "reports_and_waits" else (Status.QUEUED, 0)
    assert (job.status, job.attempts) == expected
    site.wait_for(lambda: not is_alive(pid))


def test_a_process_that_ends_while_idle_costs_no_try(site: Site) -> None:
    """Whatever ended it, no job ran there."""
    first = site.enqueue("tells_where")
    site.wait_for_end(first)
    os.kill(pid_of(site.lines("start")[0]), signal.SIGKILL)
    second = site.enqueue("tells_where")
    site.wait_for_end(second)
    assert (site.app.get(second).status, site.app.get(second).attempts, site.app.get(second).snoozes) == (Status.COMPLETED, 1, 0)
    assert len({pid_of(line) for line in site.lines("start")}) == 2


def test_what_a_handler_leaves_behind_is_not_blamed_on_the_next(site: Site) -> None:
    """A thread or an alarm that ends the process later must find it without a job."""
    for name in ("leaves_a_thread", "leaves_an_alarm"):
        site.wait_for_end(site.enqueue(name))
        waits = site.enqueue("takes_two_seconds")
        site.wait_for_end(waits)
        assert (site.app.get(waits).status, site.app.get(waits).attempts) == (Status.COMPLETED, 1)


@pytest.mark.parametrize("is_seen", [True, False])
def test_idle_processes_that_have_ended_delay_nobody(site: Site, monkeypatch: pytest.MonkeyPatch, is_seen: bool) -> None:
    """There may be as many of them as there are slots, and their end may come just behind the look at each."""
    if not is_seen:
        monkeypatch.setattr(IsolatedProcess, "is_usable", lambda self: True)
    together = [site.enqueue("takes_two_seconds") for _ in range(4)]
    for job_id in together:
        site.wait_for_end(job_id)
    for pid in {pid_of(line) for line in site.lines("start")}:
        os.kill(pid, signal.SIGKILL)
    after = site.enqueue("tells_where")
    site.wait_for_end(after)
    assert (site.app.get(after).status, site.app.get(after).snoozes) == (Status.COMPLETED, 0)


def test_a_process_finds_the_application_where_its_worker_did(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a handler has made of the current directory since."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    job_id = site.enqueue("tells_its_folder")
    site.wait_for_end(job_id)
    assert site.app.get(job_id).result == f'"{site.folder}"'


def test_no_room_for_a_process_costs_no_try(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Descriptors may be short for a while."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr("onward.worker.isolated_process.subprocess.Popen", refuse)
    job_id = site.enqueue("tells_where")
    site.wait_for(lambda: site.app.get(job_id).snoozes == 1)
    assert (site.app.get(job_id).status, site.app.get(job_id).attempts) == (Status.QUEUED, 0)


def test_an_application_that_cannot_be_loaded_costs_no_try(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job is tried again later; a person reads in the log why."""
    (tmp_path / "broken_application.py").write_text("raise RuntimeError('no configuration here')")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(Path(__file__).parents[2] / "src")]))
    monkeypatch.syspath_prepend(tmp_path)
    with Onward(f"sqlite:///{tmp_path / 'jobs.db'}", jobs=JOBS.values()) as app:
        job_id = app.enqueue(JOBS["tells_where"], Work()).id
        app.worker(application="broken_application:app", drain=True, poll=0.02).run()
        job = app.get(job_id)
    assert (job.status, job.attempts, job.snoozes) == (Status.QUEUED, 0, 1)
    assert "did not load the application" in caplog.text


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("app", "is module:attribute"),
        ("__main__:app", "is module:attribute"),
        (":app", "is module:attribute"),
        ("tests.worker.no_such_module:app", "there is no module"),
        ("no_such_package.jobs:app", "there is no module"),
        ("tests.worker.isolated_app:ap", "has no 'ap'"),
    ],
)
def test_a_name_that_leads_nowhere_is_refused_at_once(name: str, told: str) -> None:
    """Found out by the first isolated job, it would only be a line in a log."""
    with Onward("memory://") as app, pytest.raises(InvalidDefinition, match=told):
        app.worker(application=name)


def test_without_a_name_isolated_jobs_run_here_and_alone(make_worker: Callable[..., Worker], store: MemoryStore) -> None:
    """An embedded worker, or a store that lives in this process."""
    gate = Gate()
    worker = make_worker(define_job("work", gate, isolated=True), store=store, application=NAME)
    store.enqueue([make_new_job("work", 1, isolated=True), make_new_job("work", 2, isolated=True)])
    worker.producer.tick()
    gate.wait()
    assert len(gate.contexts) == 1
    gate.open.set()
    work_off(worker)


@pytest.mark.parametrize("victim", ["worker process", "supervisor and worker process"])
def test_nothing_outlives_a_killed_worker(site: Site, victim: str) -> None:
    """The handler holds the GIL, so it hears of nothing; and it has started a program in its own process group."""
    site.worker.stop()
    command = [sys.executable, "-m", "onward", "-A", NAME, "worker", "--grace=1s"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as supervisor:
        job_id = site.enqueue("starts_a_program_and_holds" if victim == "worker process" else "holds_the_gil")
        site.wait_for(lambda: site.lines("start") != [])
        worker = int(str(site.app.get(job_id).lease_owner).split(":")[1])
        pids = [pid_of(line) for line in site.lines("start")] + [int(line.split()[1]) for line in site.lines("left")]
        if victim != "worker process":
            supervisor.kill()
        os.kill(worker, signal.SIGKILL)
        site.wait_for(lambda: not any(map(is_alive, pids)))
        site.app.cancel(job_id)
        supervisor.terminate()


REPORTS_AND_GARBAGE = """
import socket, sys, time
connection = socket.socket(fileno=int(sys.argv[1]))
connection.sendall(bytes.fromhex(sys.argv[2]))
time.sleep(60)
"""


def test_what_was_reported_before_garbage_counts(tmp_path: Path) -> None:
    """Both may be read at once: that the handler had begun must not be lost with what it wrote there."""
    data = write_line(Ready()) + write_line(Started()) + b"garbage\n" + write_line(Progressed("1"))
    process = IsolatedProcess(
        lambda descriptor: [sys.executable, "-I", "-S", "-c", REPORTS_AND_GARBAGE, str(descriptor), data.hex()], str(tmp_path)
    )
    heard: list[Report] = []
    assert process.run(Notice("stop"), heard.append) is None
    assert heard == [Ready(), Started()]
    assert process.end() == "SIGKILL"
