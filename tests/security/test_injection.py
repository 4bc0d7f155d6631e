"""Stored text stays text: no row moves a terminal's cursor, adds a line to a log, or passes for another event."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from onward.app import Onward
from onward.cli.main import cli
from onward.events import Event
from onward.telemetry.log import describe
from onward.testing.factories import make_new_job

ROOT = Path(__file__).parents[2]
HOSTILE = "\x1b]0;owned\x07\x1b[2J\r\n2026-01-01 00:00:00 ERROR onward: forged\x9b31m\u202egnp\u2028next\x7f"
"""A title for the terminal, a cleared screen, a line that looks like ours, a colour in one byte, text that runs backwards."""
COLUMNS = ("type", "queue", "owner", "idempotency_key", "error", "result", "progress", "metadata", "payload", "lease_owner", "breaker")
ASKED = (
    *(("jobs", "list"), ("jobs", "list", "--json"), ("stats",), ("stats", "--json"), ("doctor",), ("doctor", "--json")),
    *(
        ("jobs", "show"),
        ("jobs", "show", "--json"),
        ("jobs", "show", "--full", "--raw"),
        ("jobs", "run"),
        ("jobs", "cancel"),
        ("jobs", "retry"),
    ),
)
LOG_LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} [A-Z]+ \S+: ")


def controls(text: str) -> set[str]:
    """What is neither a printable character nor the end of a line."""
    return {character for character in text if not character.isprintable() and character != "\n"}


class Shop:
    """A store in a file whose rows are written by hand, and one that is like it and harmless."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "jobs.db"
        self.url = f"sqlite:///{self.path}"
        (folder / "shop.py").write_text("from onward import Onward, define_job\napp = Onward(jobs=[define_job('work', lambda: None)])\n")
        self.folder = folder

    def fill(self, text: str, **also: Any) -> list[str]:
        """One job for each column, with ``text`` in it. Gives their ids."""
        with Onward(self.url) as app:
            jobs = [make_new_job() for _ in COLUMNS]
            app.store.enqueue(jobs)
        connection = sqlite3.connect(self.path)
        with connection:
            for column, job in zip(COLUMNS, jobs, strict=True):
                changed = {column: text, **also}
                names = ", ".join(f"{name} = ?" for name in changed)
                connection.execute(f"UPDATE onward_jobs SET {names} WHERE id = ?", [*changed.values(), job.id])
        connection.close()
        return [job.id for job in jobs]

    def ask(self, *command: str) -> str:
        answer = CliRunner().invoke(cli, ["-u", self.url, *command])
        assert answer.exception is None or isinstance(answer.exception, SystemExit), answer.output
        return answer.output

    def run_worker(self) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "onward", "-A", "shop:app", "worker", "--drain"],
            cwd=self.folder,
            env={
                **{name: value for name, value in os.environ.items() if not name.startswith("ONWARD_")},
                "PYTHONPATH": str(ROOT / "src"),
                "ONWARD_URL": self.url,
            },
            capture_output=True,
            timeout=60,
            check=False,
        )
        return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


@pytest.mark.parametrize("status", ["queued", "dead_letter", "in_progress"])
def test_the_command_line_shows_no_stored_text_as_a_command(shop: Shop, status: str) -> None:
    """Whoever can enqueue must not write on the screen, or the clipboard, of the person who looks."""
    ids = shop.fill(HOSTILE, status=status, finished_at="2026-01-01T00:00:00.000000Z" if status == "dead_letter" else None)
    for command in ASKED:
        for job_id in ids if command[:2] in (("jobs", "show"), ("jobs", "run"), ("jobs", "cancel"), ("jobs", "retry")) else [""]:
            said = shop.ask(*command, *([job_id] if job_id else []))
            assert said
            assert controls(said) == set(), f"{command}: {said!r}"


def test_no_stored_text_adds_a_line_to_a_list(shop: Shop) -> None:
    """A row that looks like two is a job that is not there, or hides one that is."""
    ids = shop.fill(HOSTILE)
    assert len(shop.ask("jobs", "list").splitlines()) == len(ids) + 2
    assert [json.loads(line)["id"] for line in shop.ask("jobs", "list", "--json").split("\n") if line] == ids[::-1]


def test_an_id_written_by_hand_is_shown_harmlessly(shop: Shop) -> None:
    """It is what the next command is to be pasted with."""
    (job_id, *_) = shop.fill("harmless")
    connection = sqlite3.connect(shop.path)
    with connection:
        connection.execute("UPDATE onward_jobs SET id = ? WHERE id = ?", (f"~{HOSTILE}", job_id))
    connection.close()
    said = shop.ask("jobs", "list", "--limit", "1")
    assert "--before" in said
    assert controls(said) == set()


@pytest.mark.parametrize(
    "field",
    [
        "error",
        "correlation_id",
        *(name for name in ("job_type", "queue", "worker_id")),
    ],
)
def test_a_line_of_the_log_has_no_stored_text_as_a_command(field: str) -> None:
    """JSON escapes the old control characters only; a colour can be one byte, and a direction mark turns a line around."""
    event = Event(**{"event": "cancelled", "job_id": "x", "job_type": "work", field: HOSTILE})  # type: ignore[arg-type]
    line = msgspec.json.encode(describe(event, at="2026-01-01T00:00:00Z")).decode()
    assert controls(line) == set()


def test_a_worker_logs_no_stored_text_as_a_command(shop: Shop) -> None:
    """Rows that expired, whose lease ran out, or whose type nobody knows are written about before anybody has looked at them."""
    past = "2026-01-01T00:00:00.000000Z"
    shop.fill(HOSTILE)
    shop.fill(HOSTILE, expires_at=past)
    shop.fill(HOSTILE, status="in_progress", fence=1, attempts=1, lease_until=past, started_at=past)
    done = shop.run_worker()
    assert done.returncode == 0, done.stderr
    assert controls(done.stdout) == set()
    assert controls(done.stderr) == set()
    # What goes on behind the first line is set in, so that it cannot pass for one.
    assert [line for line in done.stderr.splitlines() if not LOG_LINE.match(line) and not line.startswith(" ")] == []
    assert "forged" in done.stderr
    assert all(json.loads(line)["event"] for line in done.stdout.split("\n") if line)


def test_what_could_be_a_command_is_recognised() -> None:
    """The look itself must see each of them."""
    assert controls(HOSTILE) == set("\x1b\x07\r\x9b\u202e\u2028\x7f")
    assert controls("two\nlines, and ünïcode") == set()
