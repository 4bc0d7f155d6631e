"""Real processes and real signals, over a SQLite file: what no fake can show."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import pytest

from onward.app import Onward
from onward.cli.worker_process import _say_where
from onward.clock import FakeClock
from onward.drivers.memory import MemoryStore
from onward.errors import StoreUnavailable
from onward.jobs import Job
from onward.outcome import MOST_LOSSES
from onward.status import Status
from onward.telemetry.log import LifecycleLog
from onward.turn import Swept
from tests.worker.process_app import JOBS, LEASE, Work

ROOT = Path(__file__).parents[2]
PATIENCE = 40.0
LOOK_EVERY = 0.01
GRACE = 1.0
SWEEP, POLL = 0.5, 0.1
MARGIN = 5.0
"""Seconds that a busy machine may take to give a process its turn."""


class Site:
    """A folder with a store, an effects log, and the workers started in it."""

    def __init__(self, folder: Path) -> None:
        self.url = f"sqlite:///{folder / 'jobs.db'}"
        self.effects = folder / "effects.log"
        self.effects.touch()
        self.app = Onward(self.url, jobs=JOBS.values())
        self.app.store.open()
        self.workers: list[subprocess.Popen[str]] = []

    def start(self, *, processes: int = 1, app: str = "tests.worker.process_app:app", **options: Any) -> subprocess.Popen[str]:
        stderr = options.pop("stderr", subprocess.PIPE)
        options = {"grace": f"{GRACE}s", "poll": f"{POLL}s", "sweep": f"{SWEEP}s", "processes": processes, **options}
        flags = [f"--{name}" if value is True else f"--{name}={value}" for name, value in options.items()]
        command = [sys.executable, "-m", "onward", "-A", app, "worker", *flags]
        environment = {**os.environ, "ONWARD_URL": self.url, "EFFECTS": str(self.effects), "PYTHONPATH": str(ROOT / "src")}
        worker = subprocess.Popen(
            command, cwd=ROOT, env=environment, text=True, stdout=subprocess.DEVNULL, stderr=stderr, start_new_session=True
        )
        self.workers.append(worker)
        return worker

    def enqueue(self, name: str, number: int = 0, **options: Any) -> str:
        return self.app.enqueue(JOBS[name], Work(number), **options).id

    def lines(self) -> list[str]:
        return self.effects.read_text().splitlines()

    def pids(self, beginning: str = "start") -> list[int]:
        return [int(line.split()[-1]) for line in self.lines() if line.startswith(beginning)]

    def wait_for(self, condition: Callable[[], bool]) -> None:
        """Another process can only be asked, so ask."""
        until = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < until, f"it did not happen; the log has {self.lines()[-5:]}"
            time.sleep(LOOK_EVERY)

    def wait_for_line(self, beginning: str, count: int = 1) -> None:
        self.wait_for(lambda: sum(line.startswith(beginning) for line in self.lines()) >= count)

    def wait_until(self, job_id: str, status: Status) -> Job:
        self.wait_for(lambda: self.app.get(job_id).status is status)
        return self.app.get(job_id)

    def close(self) -> None:
        for worker in self.workers:
            if worker.poll() is None:
                worker.terminate()
                try:
                    worker.wait(GRACE + 5)
                except subprocess.TimeoutExpired:
                    worker.kill()
            worker.communicate()
        self.app.close()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.close()


def end(worker: subprocess.Popen[str], number: int = signal.SIGTERM) -> float:
    """Send a signal, wait, and give the seconds that the end took. Fails when it takes longer than our patience."""
    began = time.monotonic()
    worker.send_signal(number)
    worker.wait(PATIENCE)
    return time.monotonic() - began


def read_until(worker: subprocess.Popen[str], words: str) -> None:
    """Read what a worker logs until it says this. One that never does is ended, and so is what it logs."""
    assert worker.stderr is not None
    watchdog = threading.Timer(PATIENCE, worker.kill)
    watchdog.start()
    said = []
    try:
        while line := worker.stderr.readline():
            said.append(line)
            if words in line:
                return
    finally:
        watchdog.cancel()
    raise AssertionError(f"the worker never said {words!r}, but {''.join(said[-10:])}")


# -- many workers ----------------------------------------------------------------------------------------------------


def test_two_processes_start_each_of_5000_jobs_exactly_once(site: Site) -> None:
    """Two claimers, sixteen slots: a claim is one statement, so no job is taken twice and none is left."""
    site.app.enqueue_many([JOBS["together"].new_job(Work(number)) for number in range(5000)])
    worker = site.start(processes=2, concurrency=8, drain=True)
    assert worker.wait(PATIENCE) == 0
    starts = Counter(line.split()[1] for line in site.lines())
    assert len(site.lines()) == len(starts) == 5000
    assert len(set(site.pids())) == 2
    assert len(site.app.find(status="completed", limit=6000)) == 5000


# -- death -----------------------------------------------------------------------------------------------------------


def test_a_killed_worker_process_has_its_job_run_again_at_once(site: Site) -> None:
    """The supervisor knows that it is dead and waits for no lease: here nobody sweeps."""
    job_id = site.enqueue("first_try_waits")
    site.start(sweep="1h")
    site.wait_for_line("start")
    os.kill(site.pids()[0], signal.SIGKILL)
    job = site.wait_until(job_id, Status.COMPLETED)
    assert (job.fence, job.lost_leases, len(set(site.pids()))) == (2, 1, 2)


def test_a_killed_supervisor_and_worker_have_their_job_run_within_the_lease(site: Site) -> None:
    """Nobody is left who knows, so the sweep of another worker finds the lease run out: by the store's own instants, soon after that."""
    job_id = site.enqueue("first_try_waits")
    worker = site.start()
    site.wait_for_line("start")
    read_until(site.start(), "serves every queue")
    worker.kill()
    os.kill(site.pids()[0], signal.SIGKILL)
    worker.wait(PATIENCE)
    dead = site.app.get(job_id)
    assert dead.status is Status.IN_PROGRESS
    assert dead.lease_until is not None
    job = site.wait_until(job_id, Status.COMPLETED)
    assert (job.lost_leases, len(set(site.pids()))) == (1, 2)
    assert job.started_at is not None
    late = (job.started_at - dead.lease_until).total_seconds()
    assert 0 < late <= 1.1 * SWEEP + POLL + MARGIN


def test_a_worker_ends_when_its_supervisor_is_killed(site: Site) -> None:
    """An orphan would go on claiming with nobody to stop it."""
    site.enqueue("never")
    worker = site.start()
    site.wait_for_line("start")
    child = site.pids()[0]
    worker.kill()
    worker.wait(PATIENCE)
    site.wait_for(lambda: not _is_alive(child))


def test_a_job_that_kills_its_process_is_dead_lettered_and_its_neighbours_are_not(site: Site) -> None:
    """Only a claim that ran alone is blamed; so it takes at most one claim more than it has tries."""
    poison = site.enqueue("kills_its_process")
    neighbours = [site.enqueue("quick", number) for number in range(20)]
    site.start(concurrency=4)
    job = site.wait_until(poison, Status.DEAD_LETTER)
    assert job.fence <= job.max_attempts + 1
    for neighbour in neighbours:
        site.wait_until(neighbour, Status.COMPLETED)


@pytest.mark.parametrize("drain", [{}, {"drain": True}], ids=["goes on", "drains"])
@pytest.mark.parametrize("losses", [0, MOST_LOSSES - 1], ids=["by the worker", "by the supervisor"])
def test_whoever_finds_a_dead_letter_the_application_is_told_of_it_once(site: Site, losses: int, drain: dict[str, bool]) -> None:
    """A worker sees the death of an isolated process, a supervisor that of the worker itself, and runs no code of the application."""
    job_id = site.enqueue("kills_its_process")
    if losses:
        with site.app.transaction() as connection:
            connection.execute("UPDATE onward_jobs SET lost_leases = ?, max_attempts = 1", [losses])
    site.start(app="tests.worker.process_app:telling_app", **drain)
    job = site.wait_until(job_id, Status.DEAD_LETTER)
    site.wait_for_line(f"told dead_lettered {job_id}")
    later = site.enqueue("quick", 7)
    site.start()
    site.wait_until(later, Status.COMPLETED)
    told = [line for line in site.lines() if line.startswith("told dead_lettered")]
    assert len(told) == 1
    assert repr(job.error)[:40] in told[0]


def test_a_process_that_exits_with_0_in_mid_job_is_replaced(site: Site) -> None:
    """``os._exit(0)`` in a handler looks like a good end from outside, and is none."""
    job_id = site.enqueue("leaves")
    site.start()
    assert site.wait_until(job_id, Status.COMPLETED).lost_leases == 1


def test_a_frozen_process_cannot_complete_what_another_took_over(site: Site) -> None:
    """After SIGCONT its handler ends and its completion comes: refused and told, since another holds the newest fence."""
    job_id = site.enqueue("ends_when_told")
    first = site.start()
    site.wait_for_line("start")
    frozen = site.pids()[0]
    with site.app.transaction():
        # With the write lock here it cannot be frozen with that lock in its hands, and keep everyone from the store.
        os.kill(frozen, signal.SIGSTOP)
        site.wait_for(lambda: _state(frozen) == "T")
    try:
        site.start()
        job = site.wait_until(job_id, Status.COMPLETED)
        site.effects.with_suffix(".log.go").touch()
    finally:
        os.kill(frozen, signal.SIGCONT)
    read_until(first, "its outcome is not")
    site.wait_for_line("end 1")
    assert [line.split()[1] for line in site.lines() if line.startswith("end")] == ["2", "1"]
    after = site.app.get(job_id)
    assert (after.fence, after.lost_leases, after.updated_at) == (2, 1, job.updated_at)


# -- signals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("handler", ["never", "holds_the_gil"])
def test_a_stop_ends_within_the_grace_and_gives_the_job_back(site: Site, handler: str) -> None:
    """Whatever the handler does: exit 0, the job is queued, and the try does not count."""
    job_id = site.enqueue(handler)
    worker = site.start()
    site.wait_for_line("start")
    took = end(worker)
    job = site.app.get(job_id)
    assert (worker.returncode, job.status, job.attempts, job.releases, job.lost_leases) == (0, Status.QUEUED, 0, 1, 0)
    assert took <= GRACE + 1


def test_five_deploys_in_the_middle_of_a_job_cost_it_no_try(site: Site) -> None:
    """Each stop gives the job back, counted apart from its tries: three of them would else have made a dead letter of a good job."""
    job_id = site.enqueue("sixth_claim_ends")
    for deploys in range(1, 6):
        worker = site.start(grace="100ms")
        site.wait_for_line("start", deploys)
        end(worker)
        job = site.app.get(job_id)
        assert (worker.returncode, job.status, job.attempts, job.releases) == (0, Status.QUEUED, 0, deploys)
    site.start()
    job = site.wait_until(job_id, Status.COMPLETED)
    assert (job.max_attempts, job.attempts, job.releases, job.lost_leases) == (3, 1, 5, 0)
    assert [one.outcome for one in site.app.history(job_id)] == ["released"] * 5


def test_a_process_that_left_its_group_is_killed_at_the_end_of_the_grace(site: Site) -> None:
    """A handler may move its process; a supervisor that only knew the group would wait for it for ever."""
    site.enqueue("moves_to_another_group")
    worker = site.start()
    site.wait_for_line("start")
    took = end(worker)
    assert worker.returncode == 0
    assert took <= GRACE + 1 + MARGIN
    assert not _is_alive(site.pids()[0])


def test_what_a_handler_left_running_ends_with_its_process(site: Site) -> None:
    """After a good end too: nobody would ever stop it."""
    site.enqueue("leaves_a_process")
    worker = site.start()
    site.wait_for_line("start")
    (left,) = [int(line.split()[1]) for line in site.lines() if line.startswith("left")]
    assert _is_alive(left)
    end(worker)
    assert worker.returncode == 0
    site.wait_for(lambda: not _is_alive(left))


def test_the_copy_of_a_worker_that_a_fork_made_ends_with_its_handler(site: Site) -> None:
    """It has the claims of its parent in its memory, and must neither run nor settle any of them."""
    jobs = [site.enqueue("forks")] + [site.enqueue("quick", number) for number in range(1, 4)]
    site.start(concurrency=1)
    for job_id in jobs:
        site.wait_until(job_id, Status.COMPLETED)
    site.wait_for_line("child")
    (child,) = site.pids("child")
    site.wait_for(lambda: not _is_alive(child))
    assert len(set(site.pids())) == 1
    assert len(site.pids()) == 4


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_both_signals_let_a_running_job_end(site: Site, number: int) -> None:
    """Containers send one, people the other. Supervisor and process both say which it was."""
    job_id = site.enqueue("in_three_steps")
    worker = site.start(grace=f"{2 * PATIENCE}s")
    site.wait_for_line("step 0")
    end(worker, number)
    assert (worker.returncode, site.app.get(job_id).status) == (0, Status.COMPLETED)
    assert [line.split()[1] for line in site.lines()] == ["0", "1", "2"]
    assert worker.stderr is not None
    said = worker.stderr.read()
    # The supervisor acts before it says so.
    told = sorted(re.findall(r"(SIG\w+): (stopping|no new jobs)", said))
    assert told == [(signal.Signals(number).name, what) for what in ("no new jobs", "stopping")]
    assert len(set(re.findall(r"SIG[A-Z]+", said))) == 1


def test_an_async_handler_may_clean_up_at_the_end_of_the_grace(site: Site) -> None:
    """Cancelled, not cut off: half-done files can be removed."""
    job_id = site.enqueue("cleans_up")
    worker = site.start()
    site.wait_for_line("start")
    took = end(worker)
    job = site.app.get(job_id)
    assert (job.status, job.attempts, job.releases) == (Status.QUEUED, 0, 1)
    assert site.lines()[-1].startswith("cleaned up")
    assert took <= GRACE + 1


def test_leases_are_renewed_while_the_worker_stops(site: Site) -> None:
    """The grace is longer than the lease: without a heartbeat another worker would take the job from under it."""
    job_id = site.enqueue("never")
    worker = site.start(grace=f"{2.5 * LEASE}s")
    site.wait_for_line("start")
    other = site.start()
    end(worker)
    job = site.app.get(job_id)
    assert job.lost_leases == 0
    end(other)


def test_a_second_sigint_quits_at_once(site: Site) -> None:
    """Pressed twice, Ctrl-C means now; the job goes back all the same."""
    job_id = site.enqueue("never")
    worker = site.start(grace=f"{2 * PATIENCE}s")
    site.wait_for_line("start")
    worker.send_signal(signal.SIGINT)
    read_until(worker, "no new jobs")
    end(worker, signal.SIGINT)
    job = site.app.get(job_id)
    assert (worker.returncode, job.status, job.attempts) == (130, Status.QUEUED, 0)


def test_one_ctrl_c_after_the_other_does_not_put_the_end_off(site: Site) -> None:
    """Each asks for the end at once; a kill that waited anew after each would never come."""
    site.enqueue("holds_the_gil")
    worker = site.start()
    site.wait_for_line("start")
    began = time.monotonic()
    while worker.poll() is None and time.monotonic() < began + GRACE + 1 + MARGIN:
        worker.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            worker.wait(0.2)
    assert worker.poll() == 130


def test_a_stop_ends_in_time_although_nobody_reads_what_is_logged(site: Site) -> None:
    """A log reader that stands still must not make of a worker one that only the kernel can end."""
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    job_id = site.enqueue("never")
    worker = site.start(stderr=writer)
    site.wait_for_line("start")
    os.set_blocking(writer, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writer, b"x")
    os.set_blocking(writer, True)
    took = end(worker)
    job = site.app.get(job_id)
    assert (worker.returncode, job.status, job.attempts) == (0, Status.QUEUED, 0)
    assert took <= GRACE + 1 + MARGIN
    os.close(reader)
    os.close(writer)


def test_a_stop_makes_no_new_store_where_the_file_was_moved_away(site: Site, tmp_path: Path) -> None:
    """It would be empty, and take jobs that are lost when the real file is put back."""
    worker = site.start()
    site.wait_until(site.enqueue("quick"), Status.COMPLETED)
    site.app.close()
    with site.app.transaction():  # nobody else has the write lock in its hands
        (tmp_path / "away").mkdir()
        for file in tmp_path.glob("jobs.db*"):
            file.rename(tmp_path / "away" / file.name)
    site.app.close()
    end(worker)
    assert list(tmp_path.glob("jobs.db*")) == []


def test_a_signal_at_the_very_start_is_honoured(site: Site) -> None:
    """A signal that falls into the imports must not be lost; before a handler is there the system's own way holds."""
    worker = site.start(grace=f"{2 * PATIENCE}s")
    end(worker)
    assert worker.returncode in (0, -signal.SIGTERM)


def test_a_ctrl_c_while_the_modules_are_loaded_ends_without_a_traceback(tmp_path: Path) -> None:
    """The command says nothing and is gone. Its loading is held up here at the first module that is not the interpreter's own."""
    go = tmp_path / "reached"
    (tmp_path / "click.py").write_text(f"import time\nopen({str(go)!r}, 'w').close()\ntime.sleep(60)\n")
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT / 'src'}"}
    command = subprocess.Popen([sys.executable, "-m", "onward", "worker"], env=environment, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + PATIENCE
    while not go.exists():
        assert command.poll() is None
        assert time.monotonic() < until
        time.sleep(LOOK_EVERY)
    command.send_signal(signal.SIGINT)
    _, said = command.communicate(timeout=PATIENCE)
    assert (command.returncode, said) == (-signal.SIGINT, "")


EMBEDDED = """
import os, time
from tests.worker.process_app import app, JOBS, Work
app.enqueue(JOBS["never"], Work(1))
try:
    app.worker(grace="1h", poll="0.1s").run()
except KeyboardInterrupt:
    print("quit", app.find()[0].status.value, flush=True)
"""


def test_a_second_ctrl_c_quits_an_embedded_worker_at_once(site: Site) -> None:
    """No grace of an hour, no traceback from every corner: the job is back, and the program hears of it once."""
    environment = {**os.environ, "ONWARD_URL": site.url, "EFFECTS": str(site.effects), "PYTHONPATH": str(ROOT / "src")}
    program = subprocess.Popen(
        [sys.executable, "-c", "import logging; logging.basicConfig(level='INFO')\n" + EMBEDDED],
        cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    site.workers.append(program)
    site.wait_for_line("start")
    program.send_signal(signal.SIGINT)
    read_until(program, "press it again")
    program.send_signal(signal.SIGINT)
    said, logged = program.communicate(timeout=PATIENCE)
    assert said == "quit queued\n"
    assert "Traceback" not in logged
    assert program.returncode == 0


def test_a_signal_while_the_worker_process_still_imports_is_honoured(site: Site) -> None:
    """Nothing is claimed yet, so it may simply end; the supervisor must not start another."""
    worker = site.start(grace=f"{2 * PATIENCE}s")
    site.wait_for(lambda: bool(_children(worker.pid)))
    children = _children(worker.pid)
    end(worker)
    assert worker.returncode == 0
    assert not any(_is_alive(pid) for pid in children)


def test_a_stack_dump_is_written_on_request(site: Site) -> None:
    """To see where a worker hangs, without stopping it."""
    site.enqueue("never")
    worker = site.start()
    site.wait_for_line("start")
    worker.send_signal(signal.SIGUSR1)
    read_until(worker, "in never")
    assert worker.poll() is None


# -- what cannot start -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"drain": True}])
@pytest.mark.parametrize(
    ("app", "words"),
    [
        ("tests.worker.process_app:nothing", "has no 'nothing'"),
        ("tests.worker.nowhere:app", "there is no module 'tests.worker.nowhere'"),
        ("tests.worker.process_app:LEASE", "is an int, not an Onward application"),
    ],
)
def test_an_application_that_cannot_be_loaded_ends_the_supervisor(site: Site, app: str, words: str, options: dict[str, Any]) -> None:
    """Starting it again and again would hide a typing error in a loop."""
    worker = site.start(app=app, processes=2, **options)
    assert worker.wait(PATIENCE) == 4
    assert worker.stderr is not None
    said = worker.stderr.read()
    assert said.count(words) == 1
    assert "Traceback" not in said


@pytest.mark.parametrize("options", [{}, {"drain": True}])
def test_a_file_that_is_no_database_ends_the_command(tmp_path: Path, options: dict[str, Any]) -> None:
    """No waiting mends it, so it is said once, as any other mistake in the settings."""
    site = Site(tmp_path)
    site.app.close()
    (tmp_path / "jobs.db").write_text("a text, and no database\n" * 100)
    try:
        worker = site.start(**options)
        assert worker.wait(PATIENCE) == 3
        assert worker.stderr is not None
        errors = [line for line in worker.stderr.read().splitlines() if "INFO" not in line]
        assert len(errors) == 1
        assert "is not a SQLite database" in errors[0]
    finally:
        site.close()


def test_a_drain_ends_where_the_store_cannot_be_made(tmp_path: Path) -> None:
    """It would wait for a directory for ever, and the cron line behind it with it; a worker that serves may wait."""
    site = Site(tmp_path)
    site.url = f"sqlite:///{tmp_path}/nowhere/jobs.db"
    try:
        worker = site.start(drain=True)
        assert worker.wait(PATIENCE) == 3
        assert worker.stderr is not None
        assert "/nowhere does not exist" in worker.stderr.read()
        waiting = site.start()
        read_until(waiting, "failed (2 in a row)")
        assert waiting.poll() is None
    finally:
        site.close()


class ReadOnly(MemoryStore):
    """Can be read, and every write is refused."""

    def recover(self, lease_owner: str, started: Collection[str]) -> Swept:
        raise StoreUnavailable("it cannot be written")


def test_a_drain_ends_where_the_store_is_only_readable(capsys: pytest.CaptureFixture[str]) -> None:
    """It opens and reads well, so only a write shows it. What runs as root may write anything, hence no real file."""
    app = Onward(store=ReadOnly(clock=FakeClock()), jobs=JOBS.values())
    options = {"queues": (), "concurrency": 1, "drain": True}
    with pytest.raises(StoreUnavailable, match="cannot be written"):
        _say_where(app, options, LifecycleLog(sys.stdout))
    _say_where(app, {**options, "drain": False}, LifecycleLog(sys.stdout))
    assert "worker_started" in capsys.readouterr().out


def _children(parent: int) -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            # Behind the name, which may hold anything, come the state and the parent.
            if int((folder / "stat").read_text().rpartition(")")[2].split()[1]) == parent:
                found.append(int(folder.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def _is_alive(pid: int) -> bool:
    return _state(pid) not in ("Z", None)


def _state(pid: int) -> str | None:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return None
