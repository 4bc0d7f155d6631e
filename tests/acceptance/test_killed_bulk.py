"""A verb for many jobs whose process is killed in the middle: the record says exactly what it did, and the same again does the rest."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from onward import Onward, define_job

MANY = 1000
NOTE = define_job("note", lambda: None, queue="notes")
PROGRAM = """
import os, signal, sys
from tests.acceptance.test_killed_bulk import NOTE
from onward import Onward

def kill(result):
    if result.done >= {after}:
        os.kill(os.getpid(), signal.SIGKILL)

Onward(sys.argv[1], jobs=[NOTE]).bulk("cancel", queue="notes", actor="ada", on_progress=kill)
"""
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("after", [1, 500])
def test_a_killed_one_has_counted_what_it_did(database_url: str, after: int) -> None:
    """Neither more nor less, whatever the moment: a count and its jobs are one commit."""
    with Onward(database_url, jobs=[NOTE], migrate=True) as app:
        app.enqueue_many([NOTE.new_job(None) for _ in range(MANY)])
        command = [sys.executable, "-c", PROGRAM.format(after=after), database_url]
        killed = subprocess.run(command, cwd=ROOT, timeout=60, check=False, env={"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"})
        assert killed.returncode == -signal.SIGKILL
        cancelled = len(app.find(status="cancelled", limit=MANY))
        (record,) = app.actions()
        assert 0 < cancelled < MANY
        assert (record.actor, record.matched, record.done, record.finished_at) == ("ada", MANY, cancelled, None)
        rest = app.bulk("cancel", queue="notes", actor="bob")
        assert (rest.matched, rest.done) == (MANY - cancelled, MANY - cancelled)
        assert sum(one.done for one in app.actions()) == len(app.find(status="cancelled", limit=2 * MANY)) == MANY
