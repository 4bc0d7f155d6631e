"""The podcasts example over HTTP, with a real API process and real worker processes, on each database that it can live in."""

from __future__ import annotations

import io
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import wave
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from examples.podcasts.audio import RATE, frames_of, notes_of
from examples.podcasts.processes import Processes, until
from examples.podcasts.stand_in_voice import StandInVoice
from onward import Job, Onward
from onward.reasons import FAILED

EXAMPLE = Path(__file__).parents[2] / "examples" / "podcasts"
SCRIPT = "Good evening. Tonight we talk about queues!"
MISSING_JOB = "01HZZZZZZZZZZZZZZZZZZZZZZZ"
MISSING_EPISODE = "00000000-0000-4000-8000-000000000000"


class Running:
    """The application, its voice, and a look behind the API."""

    def __init__(self, processes: Processes, voice: StandInVoice, stack: ExitStack) -> None:
        self.processes, self.voice, self._stack = processes, voice, stack
        self.url, self.audio = processes.url, processes.home / "audio"

    def sign_up(self, name: str) -> httpx.Client:
        return self._stack.enter_context(closing(self.processes.sign_up(name)))

    def jobs(self) -> list[Job]:
        with Onward(self.url) as store:
            return store.find()

    def worker_of(self, job_id: str) -> int:
        """The process that holds the job."""
        with Onward(self.url) as store:
            owner = store.get(job_id).lease_owner
        assert owner is not None
        return int(owner.split(":")[1])

    def take_away(self, job_id: str) -> None:
        """Take the job from the process that holds it, as if its lease had run out."""
        with Onward(self.url) as app:
            owner = app.get(job_id).lease_owner
            assert owner is not None
            app.store.recover(owner, [job_id])

    def named_audio(self, episode_id: str) -> str:
        """The file that the episode's row names."""
        if self.url.startswith("sqlite"):
            with closing(sqlite3.connect(self.url.removeprefix("sqlite:///"))) as connection:
                return str(connection.execute("SELECT audio FROM episodes WHERE id = ?", [episode_id.replace("-", "")]).fetchone()[0])
        with psycopg.connect(self.url) as postgres:
            return str(postgres.execute("SELECT audio FROM episodes WHERE id = %s", [episode_id]).fetchall()[0][0])

    def files_of(self, episode_id: str) -> list[Path]:
        return sorted((self.audio / episode_id).glob("*"))


@pytest.fixture(params=["sqlite", "postgres"])
def running(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Running]:
    url = f"sqlite:///{tmp_path}/podcasts.db" if request.param == "sqlite" else request.getfixturevalue("postgres_database")
    with ExitStack() as stack:
        voice = stack.enter_context(StandInVoice())
        processes = stack.enter_context(Processes(tmp_path, url, voice.address))
        yield Running(processes, voice, stack)
        # Before the clients are closed, so that a process that fell over is not mistaken for one that was stopped.
        assert processes.stop()[1:] in ([], [0])


def draft(client: httpx.Client, script: str = SCRIPT) -> str:
    episode = client.post("/episodes", json={"title": "Evening", "script": script})
    assert (episode.status_code, episode.json()["state"]) == (201, "draft")
    return str(episode.json()["id"])


def start(client: httpx.Client, episode_id: str) -> dict[str, Any]:
    answer = client.post(f"/episodes/{episode_id}/generate")
    assert answer.status_code == 202, answer.text
    job: dict[str, Any] = answer.json()
    return job


def episode_of(client: httpx.Client, episode_id: str) -> dict[str, Any]:
    episode: dict[str, Any] = client.get(f"/episodes/{episode_id}").raise_for_status().json()
    return episode


def job_of(client: httpx.Client, job_id: str) -> dict[str, Any]:
    job: dict[str, Any] = client.get(f"/jobs/{job_id}").raise_for_status().json()
    return job


def ended(client: httpx.Client, job_id: str) -> dict[str, Any]:
    """The job, once it has ended."""

    def look() -> dict[str, Any] | None:
        job = job_of(client, job_id)
        return job if job["status"] in ("completed", "failed") else None

    return until(look, f"job {job_id} has not ended")


def check_audio(client: httpx.Client, episode_id: str, script: str = SCRIPT) -> None:
    """The audio is a WAV file of the script's length that can be heard."""
    answer = client.get(f"/episodes/{episode_id}/audio")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "audio/wav")
    with wave.open(io.BytesIO(answer.content)) as audio:
        assert (audio.getnchannels(), audio.getsampwidth(), audio.getframerate()) == (1, 2, RATE)
        assert audio.getnframes() == frames_of(notes_of(script))
        assert max(audio.readframes(audio.getnframes())) > 100
    assert episode_of(client, episode_id)["seconds"] == frames_of(notes_of(script)) / RATE


@contextmanager
def nobody_can_commit(url: str, episode_id: str) -> Iterator[None]:
    """Hold what the commit that makes the episode ready must have: the write lock of SQLite, the episode's row of Postgres."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield
    else:
        with psycopg.connect(url) as postgres:
            postgres.execute("SELECT 1 FROM episodes WHERE id = %s FOR UPDATE", [episode_id])
            yield


def execute(url: str, sqlite: str, postgres: str) -> None:
    """Change the database behind the application's back."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection, connection:
            connection.executescript(sqlite)
    else:
        with psycopg.connect(url) as connection:
            connection.execute(postgres)


def test_the_story_of_two_users_two_workers_one_of_them_killed_and_fifty_callers(running: Running) -> None:
    """Fifty callers start one episode at once and share one job; its worker is killed in the middle, and the other one finishes it."""
    ada, bob = running.sign_up("ada"), running.sign_up("bob")
    hers, his = draft(ada), draft(bob, "Just a few words.")
    running.processes.start_worker()
    running.voice.hold(SCRIPT)

    with ThreadPoolExecutor(50) as callers:
        started = list(callers.map(lambda _: start(ada, hers), range(50)))
    (job_id,) = {job["id"] for job in started}
    running.voice.wait_until_asked(SCRIPT)
    assert [job.id for job in running.jobs()] == [job_id]
    assert start(ada, hers) == {"id": job_id, "status": "processing", "attempts": 1, "reason": None}
    assert episode_of(ada, hers)["state"] == "generating"

    killed = running.worker_of(job_id)
    os.kill(killed, signal.SIGKILL)
    running.voice.wait_until_asked(SCRIPT, times=2)
    assert running.worker_of(job_id) != killed
    assert episode_of(ada, hers)["state"] == "generating"
    assert ended(bob, start(bob, his)["id"])["status"] == "completed"
    running.voice.release(SCRIPT)

    assert ended(ada, job_id)["status"] == "completed"
    assert episode_of(ada, hers)["state"] == episode_of(bob, his)["state"] == "ready"
    check_audio(ada, hers)
    check_audio(bob, his, "Just a few words.")
    assert len(running.jobs()) == 2
    again = ada.post(f"/episodes/{hers}/generate")
    assert (again.status_code, again.json()) == (409, {"detail": "This episode is ready."})


def test_a_worker_killed_between_file_and_commit_leaves_no_ready_episode_and_no_second_file(running: Running) -> None:
    """The commit that completes the job is what makes the episode ready; the file of the killed run is nobody's, and removed."""
    ada = running.sign_up("ada")
    episode_id = draft(ada)
    running.processes.start_worker()
    running.voice.hold(SCRIPT)
    job_id = start(ada, episode_id)["id"]
    running.voice.wait_until_asked(SCRIPT)
    with nobody_can_commit(running.url, episode_id):
        running.voice.release(SCRIPT)
        (written,) = until(lambda: running.files_of(episode_id), "no file was written")
        size = 44 + 2 * frames_of(notes_of(SCRIPT))
        until(lambda: written.stat().st_size == size, "the file is not whole")
        assert episode_of(ada, episode_id)["state"] == "generating"
        assert ada.get(f"/episodes/{episode_id}/audio").status_code == 409
        os.kill(running.worker_of(job_id), signal.SIGKILL)
    assert ended(ada, job_id)["status"] == "completed"
    assert episode_of(ada, episode_id)["state"] == "ready"
    check_audio(ada, episode_id)
    (left,) = running.files_of(episode_id)
    assert left != written
    assert running.voice.times_asked(SCRIPT) == 2


def test_a_run_whose_claim_was_taken_away_changes_nothing_when_it_comes_back(running: Running) -> None:
    """Ready and completed are one commit behind the fence, so that the file that the episode names is never changed under its owner."""
    ada = running.sign_up("ada")
    episode_id = draft(ada)
    running.processes.start_worker(concurrency=1)  # so that the process that is still at it cannot be the one that takes it again
    running.voice.hold(SCRIPT)
    job_id = start(ada, episode_id)["id"]
    running.voice.wait_until_asked(SCRIPT)
    running.take_away(job_id)
    running.voice.wait_until_asked(SCRIPT, times=2)
    running.voice.release(SCRIPT, request=2)
    assert ended(ada, job_id)["status"] == "completed"
    (written,) = running.files_of(episode_id)
    named = f"{episode_id}/{written.name}"
    assert running.named_audio(episode_id) == named

    running.voice.release(SCRIPT)
    until(lambda: '"event":"lease_lost"' in (running.processes.home / "worker.log").read_text(), "nobody lost a lease")
    assert running.named_audio(episode_id) == named
    assert written.exists()
    check_audio(ada, episode_id)


def test_a_fault_between_change_and_commit_leaves_neither_state_nor_job(running: Running) -> None:
    """The episode's new state and its job are one transaction: here the database refuses the state after the job was enqueued."""
    ada = running.sign_up("ada")
    episode_id = draft(ada)
    execute(
        running.url,
        "CREATE TRIGGER no_start BEFORE UPDATE ON episodes BEGIN SELECT RAISE(ABORT, 'not today'); END;",
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not today'; END $$;"
        "CREATE TRIGGER no_start BEFORE UPDATE ON episodes FOR EACH ROW EXECUTE FUNCTION refuse()",
    )
    # With a connection of its own: a server closes the one on which it fell over.
    refused = httpx.post(f"{running.processes.address}/episodes/{episode_id}/generate", headers=ada.headers)
    assert refused.status_code == 500
    assert "not today" not in refused.text
    assert running.jobs() == []
    assert (episode_of(ada, episode_id)["state"], episode_of(ada, episode_id)["job_id"]) == ("draft", None)

    execute(running.url, "DROP TRIGGER no_start", "DROP TRIGGER no_start ON episodes")
    running.processes.start_worker()
    assert ended(ada, start(ada, episode_id)["id"])["status"] == "completed"
    check_audio(ada, episode_id)


def test_each_kind_of_error_ends_as_its_row_of_the_table_says(running: Running) -> None:
    """Transient: tried again. Terminal and unknown: failed at once. The owner reads a safe reason; the stack stays in the job."""
    ada = running.sign_up("ada")
    running.processes.start_worker()
    answers = {
        "Passing trouble.": [(503, b"secret: the disk of host 10.0.0.7 is full")],
        "Lasting trouble.": [(503, b"")] * 3,
        "Rude words.": [(422, b"secret rule 17")],
        "A bug.": [(200, b'{"notes": "secret"}')],
    }
    for script, planned in answers.items():
        running.voice.answer(script, *planned)
    episodes = {script: draft(ada, script) for script in answers}
    started = {script: start(ada, episode_id)["id"] for script, episode_id in episodes.items()}
    seen = {script: ended(ada, job_id) for script, job_id in started.items()}
    assert {script: (job["status"], job["attempts"]) for script, job in seen.items()} == {
        "Passing trouble.": ("completed", 2),
        "Lasting trouble.": ("failed", 3),
        "Rude words.": ("failed", 1),
        "A bug.": ("failed", 1),
    }
    assert [job["reason"] for job in seen.values()] == [
        None,
        FAILED,
        "The voice does not speak this script.",
        FAILED,
    ]
    for script, episode_id in episodes.items():
        shown = episode_of(ada, episode_id)
        assert shown["state"] == ("ready" if script == "Passing trouble." else "failed")
        assert shown["reason"] == seen[script]["reason"]

    (stack,) = (job.error for job in running.jobs() if job.id == started["A bug."])
    assert stack is not None
    assert "ValidationError" in stack
    assert "voice.py" in stack
    for answer in (ada.get(f"/jobs/{started['A bug.']}").text, ada.get(f"/episodes/{episodes['A bug.']}").text):
        assert not any(word in answer for word in ("secret", "ValidationError", "File", ".py"))

    for script, job_id in started.items():
        if seen[script]["status"] == "failed":
            assert ada.post(f"/jobs/{job_id}/retry").status_code == 202
            assert ended(ada, job_id) == {"id": job_id, "status": "completed", "attempts": 1, "reason": None}
            check_audio(ada, episodes[script], script)
        refused = ada.post(f"/jobs/{job_id}/retry")
        assert (refused.status_code, refused.json()) == (409, {"detail": "Only a failed job can be run again."})


def test_a_service_that_nobody_runs_is_a_transient_error_too(tmp_path: Path) -> None:
    """A refused connection is httpx's own error, which the policy lists as transient."""
    with StandInVoice() as voice:
        port = voice.port
    url = f"sqlite:///{tmp_path}/podcasts.db"
    with Processes(tmp_path, url, f"http://127.0.0.1:{port}/notes") as processes, closing(processes.sign_up("ada")) as ada:
        processes.start_worker()
        episode_id = draft(ada)
        job_id = start(ada, episode_id)["id"]
        job = ended(ada, job_id)
        assert (job["status"], job["attempts"]) == ("failed", 3)
        assert job["reason"] == FAILED
        with Onward(url) as store:
            assert "httpx.ConnectError" in (store.get(job_id).error or "")
        with StandInVoice(port):
            assert start(ada, episode_id)["id"] != job_id
            until(lambda: episode_of(ada, episode_id)["state"] == "ready", "the episode is not ready")
        taken_over = ada.post(f"/jobs/{job_id}/retry")
        assert (taken_over.status_code, taken_over.json()) == (409, {"detail": "A newer job has taken over."})


def test_a_foreign_and_a_missing_thing_are_the_same_to_everybody(running: Running) -> None:
    """The answers do not tell that there is anything; and only its owner can run a failed job again."""
    ada, bob = running.sign_up("ada"), running.sign_up("bob")
    running.voice.answer(SCRIPT, (422, b""))
    episode_id = draft(ada)
    running.processes.start_worker()
    job_id = start(ada, episode_id)["id"]
    assert ended(ada, job_id)["status"] == "failed"

    def told(method: str, path: str) -> tuple[int, bytes, list[tuple[str, str]]]:
        answer = bob.request(method, path)
        return answer.status_code, answer.content, [(name, text) for name, text in answer.headers.items() if name != "date"]

    for method, path in (("GET", "/jobs/{}"), ("POST", "/jobs/{}/retry")):
        foreign = told(method, path.format(job_id))
        assert foreign[:2] == (404, b'{"detail":"There is no such job."}')
        for missing in (MISSING_JOB, "x", "%00", "' OR 1=1 --"):
            assert told(method, path.format(missing)) == foreign
    for method, path in (("GET", "/episodes/{}"), ("GET", "/episodes/{}/audio"), ("POST", "/episodes/{}/generate")):
        foreign = told(method, path.format(episode_id))
        assert foreign[:2] == (404, b'{"detail":"There is no such episode."}')
        assert told(method, path.format(MISSING_EPISODE)) == foreign

    assert job_of(ada, job_id)["status"] == "failed"
    assert ada.post(f"/jobs/{job_id}/retry").json()["status"] == "pending"
    assert ended(ada, job_id)["status"] == "completed"


def test_without_a_token_nothing_is_shown_and_a_wrong_password_gives_none(tmp_path: Path) -> None:
    """A wrong name and a wrong password get the same answer; so do no token and a made-up one."""
    with (
        StandInVoice() as voice,
        Processes(tmp_path, f"sqlite:///{tmp_path}/podcasts.db", voice.address) as processes,
        closing(processes.sign_up("ada")) as ada,
        httpx.Client(base_url=processes.address) as stranger,
    ):
        episode_id = draft(ada)
        wrong = [stranger.post("/session", json={"name": name, "password": "wrong horse"}) for name in ("ada", "nobody")]
        assert [(answer.status_code, answer.text) for answer in wrong] == [(401, '{"detail":"Name or password is wrong."}')] * 2
        for headers in ({}, {"Authorization": "Bearer made-up"}):
            for method, path in (
                ("GET", f"/episodes/{episode_id}"),
                ("POST", f"/episodes/{episode_id}/generate"),
                ("GET", f"/jobs/{MISSING_JOB}"),
            ):
                answer = stranger.request(method, path, headers=headers)
                assert (answer.status_code, answer.text) == (401, '{"detail":"Sign in first."}')
        taken = stranger.post("/users", json={"name": "ada", "password": "another horse"})
        assert (taken.status_code, taken.json()) == (409, {"detail": "This name is taken."})
        for script in ("", "  \n ", "nul \0", "x" * 5_001):
            assert ada.post("/episodes", json={"title": "t", "script": script}).status_code == 422
        assert ada.post("/episodes", json={"title": "t", "script": "x", "state": "ready"}).status_code == 422


def test_the_example_enqueues_by_the_primitives_only(tmp_path: Path) -> None:
    """The build's own check is clean on it, and says file and line of an enqueue around them."""

    def check(path: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-m", "onward", "check", str(path)], capture_output=True, text=True, check=False)

    clean = check(EXAMPLE)
    assert clean.returncode == 0, clean.stdout + clean.stderr
    planted = shutil.copytree(EXAMPLE, tmp_path / "examples" / "podcasts") / "episodes.py"
    source = planted.read_text()
    around = source.replace(
        "await session.execute(update", "await app.aenqueue(generate, Generate(episode_id)); await session.execute(update"
    )
    assert around != source
    planted.write_text(around)
    found = check(tmp_path)
    line = around[: around.index("await app.aenqueue")].count("\n") + 1
    assert found.returncode == 1
    assert f"{planted}:{line}:" in found.stdout
