"""The model store of examples/files: accepted writes win in the order of their acceptance, whatever order their jobs run in."""

from __future__ import annotations

import json
import re
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from onward import InvalidPayload
from onward.turn import Claim, Demand
from tests.files.runs import run_claim

THIRTEEN = [
    *("id", "type", "payload", "status", "priority", "attempts", "max_attempts", "last_error", "locked_by", "locked_at"),
    *("created_at", "claimed_at", "completed_at"),
]


class Application:
    """The example, freshly imported over a home of its own."""

    def __init__(self) -> None:
        from examples.files import database, handlers, home, models, questions
        from examples.files.app import app

        self.app, self.handlers, self.home, self.database, self.questions = app, handlers, home, database, questions
        self.models = models.Models(app)
        self.check = models.ModelCheck()
        self.jobs_table = "onward.jobs" if database.is_postgres(home.URL) else "onward_jobs"

    def connect(self) -> Any:
        """Connect to the database as the application does. The caller closes it."""
        return self.database.connect(self.home.URL)

    def claim_all(self) -> list[Claim]:
        """Claim everything that is due, in the order of acceptance."""
        demand = Demand(lease_owner="test:1:aa", slots=100, types=self.app.definitions.leases())
        return sorted(self.app.store.turn(demand=demand).claims, key=lambda claim: claim.id)

    def run(self, *claims: Claim) -> list[str]:
        return [run_claim(self.app.store, claim, *self.app.definitions) for claim in claims]

    def run_everything(self) -> None:
        while claims := self.claim_all():
            self.run(*claims)

    def discrepancies(self) -> list[str]:
        return [line for one in self.app.reconcilers for line in one.reconcile(self.app.store).discrepancies]


@pytest.fixture(params=["sqlite", "postgres"])
def example(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Application]:
    """On each backend. The URL of Postgres says something to libpq and something to Onward, and has a zone of its own."""
    monkeypatch.setenv("EXAMPLE_FILES_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("EXAMPLE_FILES_URL", raising=False)
    if request.param == "postgres":
        url = request.getfixturevalue("postgres_database")
        options = "connections=20&options=-ctimezone%3DAsia/Tokyo"
        monkeypatch.setenv("EXAMPLE_FILES_URL", f"{url}{'&' if '?' in url else '?'}{options}")
    for name in [name for name in sys.modules if name.startswith("examples.files")]:
        monkeypatch.delitem(sys.modules, name)
    application = Application()
    yield application
    application.app.close()
    for name in [name for name in sys.modules if name.startswith("examples.files")]:
        del sys.modules[name]


def test_a_write_is_accepted_first_and_on_disk_later(example: Application) -> None:
    """A read says that a newer write is pending; after its job it says so no more."""
    handle = example.models.write({"id": "a", "text": "one"})
    reading = example.models.read("a")
    assert reading.model is None
    assert reading.is_pending
    assert reading.newer is not None
    assert reading.newer.id == handle.id
    example.run_everything()
    reading = example.models.read("a")
    assert (reading.model, reading.newer) == ({"id": "a", "text": "one"}, None)
    assert example.models.list() == ["a"]
    example.models.write({"id": "a", "text": "two"})
    reading = example.models.read("a")
    assert (reading.model, reading.is_pending) == ({"id": "a", "text": "one"}, True)


def test_the_companion_is_queued_only_when_its_model_is_placed(example: Application) -> None:
    """One logical operation, two files: the second is promised in the commit of the first."""
    example.models.write({"id": "a", "system": "S", "text": "two words"})
    (claim,) = example.claim_all()
    assert claim.job.type == "write_model"
    example.run(claim)
    (claim,) = example.claim_all()
    assert claim.job.type == "write_summary"
    example.run(claim)
    assert (example.home.MODELS / "summaries/a.txt").read_text() == "a (S): 2 words, begins 'two words'\n"


def test_the_later_write_wins_when_the_jobs_run_in_the_wrong_order(example: Application) -> None:
    """The older one completes without touching the file, and queues no companion."""
    example.models.write({"id": "a", "text": "older"})
    example.models.write({"id": "a", "text": "newer"})
    older, newer = example.claim_all()
    assert example.run(newer, older) == ["completed", "completed"]
    assert example.models.read("a").model == {"id": "a", "text": "newer"}
    assert example.handlers.is_superseded(example.app.get(older.id).progress)
    (claim,) = example.claim_all()
    assert claim.job.type == "write_summary"
    example.run(claim)
    assert example.discrepancies() == []


def test_a_deletion_and_a_write_keep_their_order_too(example: Application) -> None:
    """Deleted last: gone, also if the write runs last. Written last: there."""
    example.models.write({"id": "a"})
    example.models.delete("a")
    example.models.delete("b")
    example.models.write({"id": "b"})
    write_a, delete_a, delete_b, write_b = example.claim_all()
    example.run(delete_a, write_a, write_b, delete_b)
    example.run_everything()
    assert example.models.list() == ["b"]
    assert [path.name for path in (example.home.MODELS / "summaries").iterdir()] == ["b.txt"]
    assert example.discrepancies() == []


def test_the_last_accepted_write_wins_among_many_writers_and_a_real_worker(example: Application) -> None:
    """Eight writers, eight slots, five models: what was accepted last is what is on disk."""
    worker = threading.Thread(target=(running := example.app.worker(concurrency=8, poll="50ms")).run)
    worker.start()

    def write(writer: int) -> None:
        for number in range(12):
            example.models.write({"id": f"m{number % 5}", "text": f"{writer}/{number}"})

    writers = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in writers:
        thread.start()
    for thread in writers:
        thread.join()
    while any(row[2] for row in example.questions.ask("outstanding")[1]):
        assert running.wait_until_idle(60)
    running.stop()
    worker.join()
    last: dict[str, tuple[int, Any]] = {}
    jobs = example.app.find(definition=example.handlers.write_model, limit=200)
    assert len(jobs) == 8 * 12
    for job in jobs:
        payload = example.handlers.write_model.codec.decode(job.payload)
        last[payload.id] = max(last.get(payload.id, (0, None)), (payload.version, payload.content))
    for model_id, (version, content) in last.items():
        assert version in range(1, 8 * 12 + 1)
        assert example.models.read(model_id).model == json.loads(content)
        assert example.models.read(model_id).newer is None
    assert example.discrepancies() == []


def test_a_write_that_is_not_accepted_leaves_no_trace(example: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    """Version and job are one commit: when the job is refused, no version is missing later."""

    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError("no")

    with monkeypatch.context() as patch:
        patch.setattr(example.app, "enqueue", refuse)
        with pytest.raises(RuntimeError, match="no"):
            example.models.write({"id": "a"})
    assert example.models.read("a").newer is None
    example.models.write({"id": "a"})
    (job,) = example.app.find()
    assert json.loads(job.payload)["version"] == 1


def test_a_failed_write_is_told_apart_from_a_pending_one(example: Application) -> None:
    """Nobody should wait for a write that will not come."""
    (example.home.MODELS / "a.json").mkdir()
    example.models.write({"id": "a"})
    (claim,) = example.claim_all()
    (outcome,) = example.run(claim)
    assert "only regular files" in outcome
    (example.home.MODELS / "a.json").rmdir()
    reading = example.models.read("a")
    assert reading.has_failed
    assert not reading.is_pending


@pytest.mark.parametrize("model_id", ["", "../x", "a/b", ".", "a\0", "a" * 65, 7, None])
def test_an_id_that_is_no_file_name_is_refused(example: Application, model_id: object) -> None:
    """Nothing is stored."""
    with pytest.raises(InvalidPayload, match="id"):
        example.models.write({"id": model_id})
    assert example.app.find() == []


def test_reconcile_sees_a_model_that_was_changed_by_hand(example: Application) -> None:
    """And one that is missing; both in one line."""
    for model_id in ("a", "b"):
        example.models.write({"id": model_id})
    example.run_everything()
    (example.home.MODELS / "a.json").write_text("{}")
    (example.home.MODELS / "b.json").unlink()
    assert [line.split(" ")[0:2] for line in example.discrepancies()] == [["differs:", "a.json"], ["missing:", "b.json"]]


def test_the_view_has_the_thirteen_columns_and_the_four_words(example: Application) -> None:
    """The document's own vocabulary, over the one table."""
    with closing(example.connect()) as connection:
        assert [column[0] for column in connection.execute("SELECT * FROM jobs").description] == THIRTEEN
        example.models.write({"id": "a"})
        example.models.write({"id": "b"})
        example.models.write({"id": "c"})
        (example.home.MODELS / "b.json").mkdir()
        done, failed, running = example.claim_all()
        example.run(done, failed)
        example.models.write({"id": "d"})
        statuses = dict(connection.execute("SELECT id, status FROM jobs WHERE type = 'write_model'"))
        assert [statuses[claim.id] for claim in (done, failed, running)] == ["completed", "failed", "claimed"]
        assert list(statuses.values()).count("pending") == 1
        locked = connection.execute("SELECT locked_by, locked_at = claimed_at FROM jobs WHERE status = 'claimed'").fetchall()
        assert locked == [("test:1:aa", 1)]
        assert connection.execute("SELECT count(*) FROM jobs WHERE completed_at IS NOT NULL AND locked_at IS NULL").fetchone() == (2,)


def test_the_view_writes_instants_as_the_same_text_on_every_backend(example: Application) -> None:
    """What reads the view need not know where it is: ISO text in UTC, six digits of a second, whatever the session's zone."""
    example.models.write({"id": "a"})
    (claim,) = example.claim_all()
    columns = "created_at, claimed_at, locked_at, completed_at"
    with closing(example.connect()) as connection:
        created, claimed, locked, completed = connection.execute(f"SELECT {columns} FROM jobs").fetchone()
        assert (locked, completed) == (claimed, None)
        example.run(claim)
        completed = connection.execute("SELECT completed_at FROM jobs WHERE type = 'write_model'").fetchone()[0]
    job = example.app.get(claim.id)
    for written, instant in ((created, job.created_at), (claimed, job.started_at), (completed, job.finished_at)):
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", written)
        assert datetime.fromisoformat(written) == instant


def test_processes_that_start_at_once_all_find_the_view_and_the_table(example: Application) -> None:
    """Each of them makes what is not there; on Postgres IF NOT EXISTS alone lets one of two fail."""
    with closing(example.connect()) as connection:
        connection.execute("DROP VIEW jobs")
        connection.execute("DROP TABLE file_versions")
    start = threading.Barrier(6)

    def install(_: int) -> None:
        start.wait(30)
        example.database.install(example.app, example.home.URL)

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(install, range(6)))
    example.models.write({"id": "a"})
    assert example.models.read("a").is_pending


def test_each_question_is_one_query_over_the_view(example: Application) -> None:
    """Six questions, answered from nothing but ``jobs``."""
    for model_id in ("a", "b", "c"):
        example.models.write({"id": model_id})
    (example.home.MODELS / "b.json").mkdir()
    done, failed, _running = example.claim_all()
    example.run(done, failed)
    for _ in range(2):
        example.app.enqueue(example.handlers.write_summary, example.handlers.WriteSummary("z", 1, ""))
    ask = example.questions.ask
    assert ask("outstanding")[1] == [("write_model", "claimed", 1), ("write_summary", "pending", 3)]
    ((failed_id, kind, attempts, _, error),) = ask("failed")[1]
    assert (failed_id, kind, attempts) == (failed.id, "write_model", 1)
    assert "only regular files" in str(error)
    assert ask("stuck")[1] == []
    assert [row[:2] for row in ask("durations")[1]] == [("write_model", 1)]
    assert [(row[0], row[2]) for row in ask("duplicates")[1]] == [("write_summary", 2)]
    assert [row[:3] for row in ask("last-hour")[1]] == [("write_model", "completed", 1), ("write_model", "failed", 1)]
    with closing(example.connect()) as connection:
        connection.execute(f"UPDATE {example.jobs_table} SET started_at = '2026-01-01T00:00:00.000000Z' WHERE status = 'in_progress'")
        connection.execute(f"UPDATE {example.jobs_table} SET finished_at = '2026-01-01T00:00:00.000000Z' WHERE status = 'completed'")
    assert [row[:3] for row in ask("last-hour")[1]] == [("write_model", "failed", 1)]
    assert [row[1:3] for row in ask("stuck")[1]] == [("write_model", "test:1:aa")]
