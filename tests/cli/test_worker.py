"""``onward worker`` as a real process: its lines, its end, and what it survives."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]
LONG = 60


@contextmanager
def working(shop: Path, environment: dict[str, str], *options: str) -> Iterator[subprocess.Popen[str]]:
    """A worker in the shop's folder; killed at the end if it still runs."""
    command = [sys.executable, "-m", "onward", "-A", "shop:app", "worker", *options]
    with subprocess.Popen(command, cwd=shop, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def next_line(process: subprocess.Popen[str], event: str) -> dict[str, object]:
    """Read lines until one tells of ``event``."""
    assert process.stdout is not None
    for line in process.stdout:
        read: dict[str, object] = json.loads(line)
        if read["event"] == event:
            return read
    raise AssertionError(f"no {event} before the end: {process.stderr and process.stderr.read()}")


def test_a_draining_worker_runs_all_that_is_due_and_tells_of_each_step(onward: Run, shop: Path) -> None:
    """Stdout is pure JSON lines in the order of what happened; talk goes to stderr."""
    done_id = onward("-A", "shop:app", "enqueue", "send-welcome", '{"user_id": "42"}').stdout.strip()
    dead_id = onward("-A", "shop:app", "enqueue", "broken").stdout.strip()
    done = onward("-A", "shop:app", "worker", "--drain")
    assert done.returncode == 0, done.stderr
    start, *lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert start["event"] == "worker_started"
    assert start["store"].endswith("shop.db")
    assert isinstance(start["schema"], int)
    assert start["newest_job_at"]
    assert [line["event"] for line in lines if line["job_id"] == done_id] == ["claimed", "completed"]
    claimed, dead = [line for line in lines if line["job_id"] == dead_id]
    assert (claimed["event"], claimed["job_type"], claimed["attempts"]) == ("claimed", "broken", 1)
    assert dead["event"] == "dead_lettered"
    assert "not\\x1b[31m today" in dead["error"]
    assert dead["duration_ms"] >= 0
    shown = {line["id"]: line["status"] for line in map(json.loads, onward("-A", "shop:app", "jobs", "list", "--json").stdout.splitlines())}
    assert shown == {done_id: "completed", dead_id: "dead_letter"}


def test_only_the_named_queues_are_served(onward: Run) -> None:
    """One lane must not wait for another."""
    onward("-A", "shop:app", "enqueue", "send-welcome", '{"user_id": "42"}')
    onward("-A", "shop:app", "enqueue", "broken")
    done = onward("-A", "shop:app", "worker", "--drain", "--queues", "mail,other")
    assert done.returncode == 0, done.stderr
    listed = map(json.loads, onward("-A", "shop:app", "jobs", "list", "--json").stdout.splitlines())
    assert {line["type"]: line["status"] for line in listed} == {"send-welcome": "completed", "broken": "queued"}


def test_max_jobs_ends_the_worker(onward: Run) -> None:
    """A leak in a handler is lived with by a fresh process now and then."""
    for number in range(3):
        onward("-A", "shop:app", "enqueue", "send-welcome", json.dumps({"user_id": str(number)}))
    done = onward("-A", "shop:app", "worker", "--max-jobs", "1", "--concurrency", "1", "--drain")
    assert done.returncode == 0, done.stderr
    assert [json.loads(line)["event"] for line in done.stdout.splitlines()].count("completed") == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_worker_in_good_order(shop: Path, environment: dict[str, str], number: signal.Signals) -> None:
    """Exit code 0: stopping is not a failure."""
    with working(shop, environment) as process:
        next_line(process, "worker_started")
        process.send_signal(number)
        assert process.wait(LONG) == 0
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()


def test_a_reader_of_stdout_that_leaves_does_not_stop_the_work(onward: Run, shop: Path, environment: dict[str, str]) -> None:
    """``onward worker | head`` loses lines, never jobs."""
    with working(shop, environment, "--poll", "100ms") as process:
        next_line(process, "worker_started")
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        onward("-A", "shop:app", "enqueue", "send-welcome", '{"user_id": "42"}')
        warnings = (line for line in process.stderr if "lifecycle log cannot be written" in line)
        assert next(warnings)
        process.send_signal(signal.SIGTERM)
        assert process.wait(LONG) == 0
    (job,) = map(json.loads, onward("-A", "shop:app", "jobs", "list", "--json").stdout.splitlines())
    assert job["status"] == "completed"


def test_a_worker_says_when_its_file_is_new_and_when_a_setting_is_not_used(onward: Run) -> None:
    """In a wrong directory a relative path leads to a new, empty file; and ONWARD_URL to nothing, where the application names its store."""
    first = onward("-A", "shop:app", "worker", "--drain", env={"ONWARD_URL": "sqlite:///other.db"})
    assert first.returncode == 0
    assert "shop.db: created a new, empty one" in first.stderr
    assert "ONWARD_URL names sqlite:///" in first.stderr
    assert "/other.db, but the application names its own store" in first.stderr
    second = onward("-A", "shop:app", "worker", "--drain", env={"ONWARD_URL": "sqlite:///shop.db"})
    assert "created" not in second.stderr
    assert "ONWARD_URL" not in second.stderr


def test_a_queue_that_is_nearly_one_of_the_applications_is_pointed_out(onward: Run) -> None:
    """A worker of a misspelt queue looks healthy and does nothing."""
    misspelt = onward("-A", "shop:app", "worker", "--drain", "--queues", "defualt,mail")
    assert misspelt.returncode == 0
    assert "declared for the queue 'defualt', which is served, and none was in it lately: is 'default' meant?" in misspelt.stderr
    assert "'mail'" not in misspelt.stderr
    assert "meant?" not in onward("-A", "shop:app", "worker", "--drain", "--queues", "default").stderr


def test_a_queue_that_nothing_is_in_is_pointed_out_beside_those_that_are(onward: Run, shop: Path) -> None:
    """It is served, for another application may use it later; a job that asked for it by name makes it known."""
    asked = ["-A", "shop:app", "worker", "--drain", "--queues"]
    assert onward("-A", "shop:app", "enqueue", "broken", "--queue", "bulk").returncode == 0
    strange = onward(*asked, "mial,bulk")
    assert strange.returncode == 0
    (line,) = [line for line in strange.stderr.splitlines() if "no job is declared for the queue" in line]
    assert line.endswith("the queue 'mial', which is served, and none was in it lately; known are bulk, default, mail")
    job_id = json.loads(onward("-A", "shop:app", "jobs", "list", "--json").stdout)["id"]
    assert onward("-A", "shop:app", "jobs", "delete", job_id, "--yes").returncode == 0
    assert "'bulk'" not in onward(*asked, "bulk").stderr, "it ended within the last day, which the rollups tell"


def test_the_supervisor_holds_nothing_that_only_reads_a_command_line(environment: dict[str, str]) -> None:
    """It is there once for each worker, for months, and does next to nothing."""
    code = "import sys, onward.cli.supervise; print({'click', 'msgspec', 'sqlite3', 'asyncio'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "set()\n"


def test_a_worker_keeps_its_process_id_and_its_command_line(shop: Path, environment: dict[str, str]) -> None:
    """Whoever started it waits for that process, and a list of processes shows what was typed."""
    command = [sys.executable, "-m", "onward", "-A", "shop:app", "worker", "--max-jobs", "1"]
    with subprocess.Popen(command, cwd=shop, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        assert '"worker_started"' in worker.stdout.readline()
        started = Path(f"/proc/{worker.pid}/cmdline")
        if started.exists():
            assert started.read_text().rstrip("\0").split("\0") == command
            assert "_ONWARD" not in Path(f"/proc/{_child_of(worker.pid)}/environ").read_text()
        worker.terminate()
        assert worker.wait(30) == 0


def _child_of(pid: int) -> int:
    (child,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(child)


ORDERS = """
from onward import JobContext, Onward, RetryPolicy, define_job


def order(payload: int, ctx: JobContext) -> None:
    ctx.logger.warning("on its way")
    if payload:
        ctx.enqueue(ordering, payload - 1)
    else:
        raise ValueError("sold out")


ordering = define_job("order", order, retry=RetryPolicy(1))
app = Onward("sqlite:///shop.db", jobs=[ordering])
"""


def test_every_line_of_one_order_has_its_id(onward: Run, shop: Path) -> None:
    """On both streams: what happened, what the handlers say, and why the last one failed."""
    (shop / "shop.py").write_text(ORDERS)
    onward("-A", "shop:app", "enqueue", "order", "1", "--metadata", '{"correlation_id": "order-7"}')
    done = onward("-A", "shop:app", "worker", "--drain")
    lines = [json.loads(line) for line in done.stdout.splitlines()[1:]]
    assert [line["event"] for line in lines] == ["claimed", "completed", "queued", "claimed", "dead_lettered"]
    assert {line["correlation_id"] for line in lines} == {"order-7"}
    said = [line for line in done.stderr.splitlines() if "on its way" in line or "sold out" in line]
    assert len([line for line in said if line.endswith("correlation id order-7)")]) == 3, done.stderr
