"""Watch real work being promised, done, retried, dead-lettered, and checked against the disk: ``python -m examples.files.demo``.

The input is the project's own requirements, one model each. Exit code 0 only if every printed count is what it should be, in the store
and on disk. ``DEMO_URL`` names another store: a SQLite file, which must hold no jobs, or a Postgres database, in which the demo makes
schemas of its own. ``--falsify`` expects one thing wrongly, to show that it is noticed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from examples.demo_schemas import DemoSchemas, Refused
from examples.files.database import connect, is_postgres
from examples.files.tables import show_table

if TYPE_CHECKING:
    from onward import Job
    from onward.jobs import Attempt

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
HOME = Path(".demo").absolute()
SCHEMAS = DemoSchemas("files", connect)
LEASE_SECONDS = 3
PATIENCE = 50.0

REVISED = 10
"""So many models are written twice while both writes are in flight, the older one with a lower priority."""
FETCHED = ("bread", "butter", "salt", "tea", "honey")
SLOW = ("long",)
REMOVED = "C20"
"""This model is deleted at the end."""

EXPECTED_ENDS = {
    ("fetch_note", "completed"): len(FETCHED),
    ("slow_note", "completed"): len(SLOW),
    ("poison", "dead_letter"): 1,
    ("create_file", "completed"): len(FETCHED) + len(SLOW) + 1,
    ("create_file", "dead_letter"): 1,
    ("delete_file", "completed"): 1,
    ("delete_model", "completed"): 1,
    ("delete_summary", "completed"): 1,
    ("write_model", "dead_letter"): 1,
}
"""How many jobs of each type end how; the writes of models are added when the input has been read."""


def main() -> int:
    """Run the demo; give the exit code."""
    asked = argparse.ArgumentParser(prog="python -m examples.files.demo", description=__doc__)
    asked.add_argument("--falsify", action="store_true", help="expect one thing wrongly: the demo must end with exit code 1")
    falsify = asked.parse_args().falsify or bool(os.environ.get("DEMO_FALSIFY"))
    try:
        with prepared():
            return run(falsify)
    except Refused as reason:
        print(reason)
        return 2


def run(falsify: bool) -> int:
    """Promise, run and compare; give the exit code."""
    from examples.files.demo_app import Note, app, poison
    from examples.files.models import Models

    began = time.monotonic()
    records = json.loads((HERE / "requirements.json").read_text(encoding="utf-8"))
    models = Models(app)
    print(f"Home: {HOME}\nStore: {app.store.url}\n")
    wanted = promise_models(models, records)
    promise_the_rest()
    with worker():
        killed = kill_one_worker()
        wait_until_quiet(app.store.count)
        app.enqueue(poison, Note("arsenic"))
        promise_deletions(models)
        wait_until_quiet(app.store.count)
    wanted.pop(REMOVED)
    jobs = all_jobs(app.store.find)
    right = compare(jobs, records, falsify)
    right &= show_unhappy(jobs, app.history)
    right &= compare_disk(models, wanted)
    (HOME / "files" / "way_out").unlink()
    right &= show_takeover(jobs, app.history, killed)
    right &= show_questions()
    right &= reconcile()
    app.close()
    print(f"\n{'Everything is as it should be' if right else 'NOT as it should be: see above'} ({time.monotonic() - began:.1f} s).")
    return 0 if right else 1


# -- promise -------------------------------------------------------------------------------------------------------------


@contextmanager
def prepared() -> Iterator[None]:
    """Make a fresh home and find an empty store, and tell the application where they are. Raises ``Refused``."""
    if HOME.exists() and not (HOME / "started").is_dir() and not (HOME / "app.db").exists() and any(HOME.iterdir()):
        raise Refused(f"{HOME} is not a demo's directory: remove it, or run the demo elsewhere")
    asked = os.environ.get("DEMO_URL") or f"sqlite:///{HOME / 'app.db'}"
    try:
        store = SCHEMAS.fresh(asked) if is_postgres(asked) else nullcontext(asked)
    except SystemExit as error:
        raise Refused(str(error)) from None
    with store as url:
        shutil.rmtree(HOME, ignore_errors=True)
        (HOME / "started").mkdir(parents=True)
        os.environ["EXAMPLE_FILES_HOME"] = str(HOME)
        os.environ["EXAMPLE_FILES_URL"] = url
        os.environ["EXAMPLE_FILES_LEASE"] = f"{LEASE_SECONDS}s"
        refuse_a_full_store()
        yield


def refuse_a_full_store() -> None:
    """Raise ``Refused`` if there are jobs already, or no store can be there."""
    from onward.errors import OnwardError
    from onward.inspection import JobFilter

    try:
        from examples.files.demo_app import app

        jobs = app.store.count(JobFilter())
    except OnwardError as error:
        raise Refused(str(error)) from None
    if jobs:
        raise Refused(f"{app.store.url} holds {jobs} jobs already: name an empty store in DEMO_URL")


def promise_models(models: Any, records: list[dict[str, str]]) -> dict[str, dict[str, Any]]:
    """Write every record, some twice; give what has to be on disk in the end."""
    for record in records[:REVISED]:
        models.write({**record, "text": "a first draft, which runs last"}, priority=-1)
    for record in records:
        models.write(record)
    pending = sum(models.read(record["id"]).is_pending for record in records)
    print(f"Accepted {len(records) + REVISED} writes of {len(records)} models; {pending} are pending, {len(models.list())} on disk.")
    return {record["id"]: record for record in records}


def promise_the_rest() -> None:
    """Ask for what fails, what takes long, and what must be refused."""
    from examples.files.demo_app import Note, app, fetch_note, slow_note
    from examples.files.handlers import files
    from examples.files.home import FILES
    from onward import InvalidPayload
    from onward.files import CreateFile
    from onward.ids import new_id
    from onward.jobs import NewJob
    from onward.payload import payload_hash

    for name in SLOW:
        app.enqueue(slow_note, Note(name), priority=10)
    for name in FETCHED:
        app.enqueue(fetch_note, Note(name))
    app.enqueue(files.create, CreateFile("notes/draft.txt", "to be deleted\n"))
    # A row as another version of the application might have written it: no check at enqueue has seen it.
    text = '{"content":12,"id":"F1"}'
    # onward: allow the row is damaged on purpose
    app.store.enqueue([NewJob(id=new_id(), type="write_model", payload=text, payload_hash=payload_hash(text))])
    # A way out of the base directory that only shows when the job runs, and one that shows at once.
    (FILES / "way_out").symlink_to(HOME.parent)
    app.enqueue(files.create, CreateFile("way_out/escaped.txt", "this must never be written\n"))
    try:
        app.enqueue(files.create, CreateFile("../escaped.txt", "nor this"))
    except InvalidPayload as error:
        print(f"Refused at enqueue, nothing stored: {error}")


def promise_deletions(models: Any) -> None:
    """Delete a file and a model."""
    from examples.files.demo_app import app
    from examples.files.handlers import files
    from onward.files import DeleteFile

    app.enqueue(files.delete, DeleteFile("notes/draft.txt", require_exists=True))
    models.delete(REMOVED)


# -- run -----------------------------------------------------------------------------------------------------------------


@contextmanager
def worker() -> Iterator[None]:
    """Run a real worker of two processes; stop it as an operator would, and insist on a clean end."""
    with (HOME / "worker.log").open("w") as log:
        process = subprocess.Popen(
            onward("worker", "--processes", "2", "--concurrency", "4", "--poll", "200ms", "--sweep", "1s"),
            env=environment(),
            stdout=log,
            stderr=log,
        )
        try:
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                code = process.wait(timeout=40)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
    if code:
        raise SystemExit(f"the worker ended with exit code {code}: see {HOME / 'worker.log'}")


def onward(*words: str) -> list[str]:
    """The command line of Onward for this application."""
    return [sys.executable, "-m", "onward.cli.main", "-A", "examples.files.demo_app:app", *words]


def environment() -> dict[str, str]:
    """Where this example is found, whatever the working directory."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))}


def kill_one_worker() -> int:
    """Wait until a slow job has told which process runs it, and kill that process."""
    mark = HOME / "started" / SLOW[0]
    wait_for(mark.exists, "no worker started the slow job")
    process = int(mark.read_text())
    os.kill(process, signal.SIGKILL)
    print(f"Killed worker process {process} in the middle of a job.")
    return process


def wait_until_quiet(count: Callable[[Any], int]) -> None:
    """Wait until nothing is queued, running or retrying."""
    from onward.inspection import JobFilter
    from onward.status import LIVE

    wait_for(lambda: not count(JobFilter(statuses=tuple(LIVE))), "jobs are still waiting")


def wait_for(is_so: Callable[[], bool], complaint: str) -> None:
    """Wait until something is so."""
    give_up_at = time.monotonic() + PATIENCE
    while not is_so():
        if time.monotonic() > give_up_at:
            raise SystemExit(f"{complaint} after {PATIENCE:g} s: see {HOME / 'worker.log'}")
        time.sleep(0.05)


# -- compare -------------------------------------------------------------------------------------------------------------


def all_jobs(find: Callable[..., list[Job]]) -> list[Job]:
    """Every job of the store."""
    from onward.inspection import JobFilter

    jobs: list[Job] = []
    while page := find(JobFilter(), limit=200, before=jobs[-1].id if jobs else None):
        jobs += page
    return jobs


def compare(jobs: list[Job], records: list[dict[str, str]], falsify: bool) -> bool:
    """Compare how jobs ended with how they should have ended, by two independent counts of the store."""
    from examples.files.demo_app import app
    from onward.inspection import JobFilter
    from onward.status import Status

    expected = Counter(EXPECTED_ENDS)
    expected["write_model", "completed"] = len(records) + REVISED
    listed = Counter((job.type, job.status.value) for job in jobs)
    # A superseded write queues no companion.
    expected["write_summary", "completed"] = sum(
        job.type == "write_model" and job.status == "completed" and not job.progress for job in jobs
    )
    if falsify:
        expected["poison", "completed"] += 1
    rows = []
    for kind, status in sorted(expected.keys() | listed.keys()):
        counted = app.store.count(JobFilter(types=(kind,), statuses=(Status(status),)))
        right = expected[kind, status] == listed[kind, status] == counted
        rows.append((kind, status, expected[kind, status], counted, "yes" if right else "NO"))
    show_table("\nHow the jobs ended", ("type", "status", "expected", "in the store", "right"), rows)
    return all(row[-1] == "yes" for row in rows)


def show_unhappy(jobs: list[Job], history: Callable[[str], list[Attempt]]) -> bool:
    """Show what failed, and that only what time can help was tried again. A try lost to a neighbour's death is nobody's failure."""
    dead = [job for job in jobs if job.status == "dead_letter"]
    flaky = [job for job in jobs if job.type == "fetch_note"]
    outcomes = {job.id: Counter(attempt.outcome for attempt in history(job.id)) for job in (*dead, *flaky)}
    tries = {job.id: ", ".join(f"{number} {outcome}" for outcome, number in outcomes[job.id].items()) for job in (*dead, *flaky)}
    show_table("Dead letters", ("type", "tries", "why"), [(job.type, tries[job.id], job.error) for job in dead])
    show_table("Failed once, then done", ("type", "payload", "tries"), [(job.type, job.payload, tries[job.id]) for job in flaky])
    once = [outcomes[job.id]["retried"] == 0 and outcomes[job.id]["dead_lettered"] == 1 for job in dead if job.type != "poison"]
    killed = [
        outcomes[job.id]["lost"] in (1, 2) and outcomes[job.id]["retried"] + outcomes[job.id]["dead_lettered"] == job.max_attempts
        for job in dead
        if job.type == "poison"
    ]
    again = [outcomes[job.id]["retried"] <= 1 and outcomes[job.id]["retried"] + outcomes[job.id]["lost"] >= 1 for job in flaky]
    return all((*once, *killed, *again))


def compare_disk(models: Any, wanted: dict[str, dict[str, Any]]) -> bool:
    """Compare the files with what was asked for."""
    from examples.files.handlers import summarize
    from examples.files.home import FILES, MODELS

    companions = {path.stem: path.read_text(encoding="utf-8") for path in (MODELS / "summaries").iterdir()}
    found = {
        "models on disk": (len(wanted), len(models.list())),
        "models with the newest content": (len(wanted), sum(models.read(one).model == wanted[one] for one in wanted)),
        "models with a write still pending": (0, sum(models.read(one).newer is not None for one in models.list())),
        "companions that fit their model": (len(wanted), sum(companions.get(one) == summarize(wanted[one]) for one in wanted)),
        "companions on disk": (len(wanted), len(companions)),
        "notes on disk": (len(FETCHED) + len(SLOW), len(list((FILES / "notes").iterdir()))),
        "files outside the base directory": (0, sum(path.exists() for path in (HOME.parent / "escaped.txt", HOME / "escaped.txt"))),
        "temporary files left": (0, len(list(HOME.rglob(".onward-*")))),
    }
    rows = [(name, expected, seen, "yes" if expected == seen else "NO") for name, (expected, seen) in found.items()]
    show_table("What is on disk", ("what", "expected", "on disk", "right"), rows)
    return all(row[-1] == "yes" for row in rows)


def show_takeover(jobs: list[Job], history: Callable[[str], list[Attempt]], killed: int) -> bool:
    """Show that the killed process's job was taken over by another."""
    attempts = [(job, attempt) for job in jobs if job.type == "slow_note" for attempt in history(job.id)]
    rows = [(job.payload, attempt.fence, attempt.outcome, attempt.lease_owner) for job, attempt in attempts]
    show_table(
        f"Attempts that did not complete, of the slow jobs (process {killed} was killed)", ("payload", "claim", "outcome", "worker"), rows
    )
    lost = [attempt for _, attempt in attempts if attempt.outcome == "lost" and f":{killed}:" in str(attempt.lease_owner)]
    return len(lost) >= 1


def show_questions() -> bool:
    """Ask the six questions; nothing may be outstanding or stuck."""
    from examples.files.questions import QUESTIONS, ask

    answers = {name: ask(name) for name in QUESTIONS}
    for name, (columns, rows) in answers.items():
        show_table(QUESTIONS[name][0], columns, rows)
    return not answers["outstanding"][1] and not answers["stuck"][1] and not answers["duplicates"][1]


def reconcile() -> bool:
    """Compare completed jobs with the disk, by the command that an operator would use."""
    print("onward reconcile:", flush=True)
    return subprocess.run(onward("reconcile"), env=environment(), check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
