"""Watch two users, fifty callers and a killed worker over HTTP: ``python -m examples.podcasts.demo``.

Starts the API, a worker of two processes and a stand-in for the voice service; every count that it prints is compared with what it has
to be. Exit code 0 only if all of them are right. ``DEMO_URL`` names another database: a SQLite file, which must hold no jobs, or a
Postgres database, in which the demo makes schemas of its own. ``--falsify`` expects one thing wrongly, to show that it is noticed.
"""

from __future__ import annotations

import argparse
import io
import os
import shutil
import signal
import tempfile
import time
import wave
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
from sqlalchemy.exc import SQLAlchemyError

from examples.demo_schemas import DemoSchemas, Refused
from examples.podcasts.audio import RATE, frames_of, notes_of
from examples.podcasts.errors import UNUSABLE, first_line
from examples.podcasts.home import sqlalchemy_url
from examples.podcasts.processes import Processes, until
from examples.podcasts.stand_in_voice import StandInVoice
from onward import Onward

EVENING = "Good evening. Tonight we talk about queues, and about what happens to them in the dark!"
TROUBLE = "The voice has to clear its throat first."
RUDE = "Words that the voice refuses."
BUG = "An answer that nobody has foreseen."
CALLERS = 50


def connect(url: str) -> Any:
    """Open a connection to the same database by psycopg alone. The caller closes it. Raises ``Refused`` for what is no URL."""
    try:
        address = sqlalchemy_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    except SQLAlchemyError as error:
        raise Refused(f"DEMO_URL: {first_line(error)}") from None
    return import_module("psycopg").connect(address, autocommit=True, connect_timeout=10)


SCHEMAS = DemoSchemas("podcasts", connect)


class Demo:
    """Prints what was seen beside what was expected, and remembers whether all of it agreed."""

    def __init__(self, processes: Processes, voice: StandInVoice) -> None:
        self.processes, self.voice = processes, voice
        self.is_right = True

    def compare(self, what: str, seen: object, expected: object) -> None:
        """One line."""
        agrees = seen == expected
        self.is_right &= agrees
        print(f"  {what}: {seen}" + ("" if agrees else f"   NO, expected {expected}"))

    def run(self, ada: httpx.Client, bob: httpx.Client, *, falsify: bool) -> None:
        """The whole story."""
        print(f"\n{CALLERS} callers start one episode at once")
        episode_id = create(ada, EVENING)
        self.voice.hold(EVENING)
        with ThreadPoolExecutor(CALLERS) as callers:
            ids = {job["id"] for job in callers.map(lambda _: start(ada, episode_id), range(CALLERS))}
        self.compare("jobs", len(ids), 2 if falsify else 1)
        (job_id,) = ids
        self.kill_its_worker(ada, job_id)
        self.show_what_fails(ada)
        self.show_what_is_hidden(ada, bob, episode_id, job_id)
        self.compare_store()

    def kill_its_worker(self, ada: httpx.Client, job_id: str) -> None:
        """Kill it in the middle; the other process makes the audio."""
        self.voice.wait_until_asked(EVENING)
        with Onward(self.processes.url) as store:
            killed = int(str(store.get(job_id).lease_owner).split(":")[1])
        os.kill(killed, signal.SIGKILL)
        print(f"\nKilled worker process {killed} in the middle of it")
        self.voice.wait_until_asked(EVENING, times=2)
        self.voice.release(EVENING)
        self.compare("the job is", ended(ada, job_id)["status"], "completed")
        (episode_id,) = (path.name for path in (self.processes.home / "audio").iterdir())
        self.compare("the episode is", ada.get(f"/episodes/{episode_id}").json()["state"], "ready")
        with wave.open(io.BytesIO(ada.get(f"/episodes/{episode_id}/audio").content)) as audio:
            self.compare("seconds of audio", audio.getnframes() / RATE, frames_of(notes_of(EVENING)) / RATE)

    def show_what_fails(self, ada: httpx.Client) -> None:
        """The three rows of the table of errors, and the button after each."""
        self.voice.answer(TROUBLE, (503, b""))
        self.voice.answer(RUDE, (422, b""))
        self.voice.answer(BUG, (200, b"gibberish"))
        print("\nA voice that is away once, one that refuses, and one with a bug")
        jobs = {script: ended(ada, start(ada, create(ada, script))["id"]) for script in (TROUBLE, RUDE, BUG)}
        for script, status, attempts in ((TROUBLE, "completed", 2), (RUDE, "failed", 1), (BUG, "failed", 1)):
            job = jobs[script]
            self.compare(f"{script!r}", (job["status"], job["attempts"]), (status, attempts))
            if job["reason"]:
                print(f"    told to the user: {job['reason']}")
        retried = ada.post(f"/jobs/{jobs[BUG]['id']}/retry")
        self.compare("retry by the owner", (retried.status_code, ended(ada, jobs[BUG]["id"])["status"]), (202, "completed"))

    def show_what_is_hidden(self, ada: httpx.Client, bob: httpx.Client, episode_id: str, job_id: str) -> None:
        """A foreign thing and a missing one are the same."""
        print("\nWhat bob gets of ada's things, and of things that are not there")
        for route, thing, hers, missing in (
            ("GET /jobs/{}", "job", job_id, "01HZZZZZZZZZZZZZZZZZZZZZZZ"),
            ("POST /jobs/{}/retry", "job", job_id, "01HZZZZZZZZZZZZZZZZZZZZZZZ"),
            ("GET /episodes/{}", "episode", episode_id, "00000000-0000-4000-8000-000000000000"),
        ):
            method, _, path = route.partition(" ")
            answers = {(answer.status_code, answer.text) for answer in (bob.request(method, path.format(one)) for one in (hers, missing))}
            self.compare(f"{method} {path}", answers, {(404, f'{{"detail":"There is no such {thing}."}}')})

    def compare_store(self) -> None:
        """The jobs in the database, and the files on disk."""
        print("\nIn the end")
        with Onward(self.processes.url) as store:
            statuses = Counter(str(job.status) for job in store.find())
        self.compare("jobs in the store", dict(statuses), {"completed": 3, "dead_letter": 1})
        self.compare("audio files", len(list((self.processes.home / "audio").glob("*/*"))), 3)


def create(client: httpx.Client, script: str) -> str:
    """Add an episode; give its id."""
    return str(client.post("/episodes", json={"title": "A demo", "script": script}).raise_for_status().json()["id"])


def start(client: httpx.Client, episode_id: str) -> dict[str, Any]:
    """Start its audio; give the job."""
    job: dict[str, Any] = client.post(f"/episodes/{episode_id}/generate").raise_for_status().json()
    return job


def ended(client: httpx.Client, job_id: str) -> dict[str, Any]:
    """Wait for the end of a job; give it."""

    def look() -> dict[str, Any] | None:
        job: dict[str, Any] = client.get(f"/jobs/{job_id}").raise_for_status().json()
        return job if job["status"] in ("completed", "failed") else None

    return until(look, f"job {job_id} has not ended")


@contextmanager
def database() -> Iterator[str | None]:
    """The URL of a database without jobs, or None for a file in the demo's own home. Raises ``Refused``."""
    url = os.environ.get("DEMO_URL")
    if not url:
        if os.environ.get("EXAMPLE_PODCASTS_URL"):
            raise Refused("EXAMPLE_PODCASTS_URL is the application's own database: name one for the demo in DEMO_URL, or unset it")
        yield None
    elif (scheme := urlsplit(url).scheme) in ("postgresql", "postgres"):
        with SCHEMAS.fresh(url) as inside:
            yield inside
    elif scheme == "sqlite":
        refuse_a_full_store(url)
        yield url
    else:
        raise Refused(f"DEMO_URL is sqlite:///file.db or postgresql://user@host/database, not {scheme}://…")


def refuse_a_full_store(url: str) -> None:
    """Raise ``Refused`` if there are jobs already, or no store can be there."""
    try:
        with Onward(url) as store:
            jobs = len(store.find())
    except UNUSABLE as error:
        raise Refused(f"DEMO_URL: {first_line(error)}") from None
    if jobs:
        raise Refused(f"{store.store.url} holds {jobs} jobs already: name an empty database in DEMO_URL")


def main() -> int:
    """Run the demo; give the exit code."""
    asked = argparse.ArgumentParser(prog="python -m examples.podcasts.demo", description=__doc__)
    asked.add_argument("--falsify", action="store_true", help="expect one thing wrongly: the demo must end with exit code 1")
    falsify = asked.parse_args().falsify
    try:
        with database() as url:
            return run(url, falsify=falsify)
    except Refused as reason:
        print(reason)
        return 2


def run(url: str | None, *, falsify: bool) -> int:
    """Start everything, tell the story, stop everything; give the exit code."""
    began = time.monotonic()
    home = Path(tempfile.mkdtemp(prefix="podcasts-"))
    print(f"Home: {home}, kept if something is wrong")
    with StandInVoice() as voice, Processes(home, url or f"sqlite:///{home}/podcasts.db", voice.address) as processes:
        processes.start_worker()
        with Onward(processes.url) as store:
            print(f"Jobs: {store.store.url}")
        with closing(processes.sign_up("ada")) as ada, closing(processes.sign_up("bob")) as bob:
            print(f"API at {processes.address}, a worker of two processes, two users: ada and bob")
            demo = Demo(processes, voice)
            demo.run(ada, bob, falsify=falsify)
    print(f"\n{'Everything is as it should be' if demo.is_right else 'NOT as it should be: see above'} ({time.monotonic() - began:.1f} s).")
    if not demo.is_right:
        return 1
    shutil.rmtree(home)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
