"""Rows that somebody wrote by hand and that nobody can read hide nothing that stands behind them. Postgres refuses such rows itself."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from onward.app import Onward
from onward.definition import define_job
from onward.status import Status

note = define_job("note", lambda: None)


@pytest.mark.parametrize("unreadable", [1, 120])
def test_a_verb_for_many_reaches_what_stands_behind_rows_that_cannot_be_read(tmp_path: Path, unreadable: int) -> None:
    """A whole portion of them is no end."""
    app = Onward(f"sqlite:///{tmp_path}/jobs.db", jobs=[note])
    good = app.enqueue_many([note.new_job(None) for _ in range(3)])
    bad = app.enqueue_many([note.new_job(None) for _ in range(unreadable)])
    with closing(sqlite3.connect(tmp_path / "jobs.db")) as connection, connection:
        connection.executemany("UPDATE onward_jobs SET created_at = 'yesterday' WHERE id = ?", [(one.id,) for one in bad])
    for limit in (1, 50, 1000):
        assert [job.id for job in app.find(limit=limit)] == [one.id for one in reversed(good)][:limit]
    assert app.bulk("cancel", status="queued").done == 3
    assert {one.refresh().status for one in good} == {Status.CANCELLED}
