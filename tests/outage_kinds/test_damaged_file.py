"""Bytes of a SQLite file are lost or changed by what lies beneath it: that is told, loudly, and nothing is lost without a word."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from onward import JobContext, Onward, define_job
from onward.errors import StoreError, StoreUnavailable
from onward.ids import encode
from onward.inspection import JobFilter
from onward.jobs import Job
from onward.status import Status
from onward.testing import drain
from tests.acceptance.outage_site import cpu_seconds
from tests.acceptance.worker_process import WorkerProcess

PAGE = 4096
JOBS = 120
CASES = 8
PATIENCE = 40.0
ran: list[tuple[str, str]] = []


def note(text: str, context: JobContext) -> None:
    ran.append((context.job.id, text))


NOTE = define_job("note", note, key=lambda text: text[:100])


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with jobs that wait, whose ids and payloads are always the same; each is some bytes longer than the one before."""
    path = tmp_path_factory.mktemp("sound") / "jobs.db"
    app = Onward(f"sqlite:///{path}", jobs=[NOTE])
    app.enqueue_many([NOTE.new_job(text_of(number), id=encode(number)) for number in range(1, JOBS + 1)])
    app.close()
    return path


def text_of(number: int) -> str:
    return f"the text of job {number}" + "." * number


def lose_end(file: Path, chance: random.Random) -> None:
    """Anywhere, also in the middle of a page."""
    with file.open("r+b") as opened:
        opened.truncate(chance.randrange(1, file.stat().st_size))


def lose_page(file: Path, chance: random.Random) -> None:
    _write(file, chance.randrange(file.stat().st_size // PAGE) * PAGE, bytes(PAGE))


def lose_sector(file: Path, chance: random.Random) -> None:
    """Of the table itself; its indexes are another matter."""
    _write(file, chance.choice(places_of_payloads(file)) // 512 * 512, chance.randbytes(512))


def places_of_payloads(file: Path) -> list[int]:
    data, places, place = file.read_bytes(), [], 0
    while (place := data.find(b'"the text of job ', place + 1)) > 0:
        places.append(place)
    return places


def _write(file: Path, place: int, data: bytes) -> None:
    with file.open("r+b") as opened:
        opened.seek(place)
        opened.write(data)


def what_is_told(app: Onward) -> str:
    """Run what there is, and give the error: at once, or by what a person is told to look at; nothing where there is none."""
    try:
        drain(app)
        return " ".join(finding.text for finding in app.store.examine() if finding.level == "error")
    except StoreError as error:
        return str(error)


def what_is_missing(found: Iterable[Job]) -> set[str]:
    """The jobs of which the store, where nothing is told, has neither run the right thing nor says why not."""
    expected = {encode(number): text_of(number) for number in range(1, JOBS + 1)}
    dead = {job.id for job in found if job.status is Status.DEAD_LETTER and job.error}
    return {id_ for id_, text in expected.items() if (id_, text) not in ran and id_ not in dead}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("case", range(CASES))
@pytest.mark.parametrize("damage", [lose_end, lose_page, lose_sector])
def test_damage_is_told_or_does_no_harm(sound: Path, tmp_path: Path, damage: Callable[[Path, random.Random], None], case: int) -> None:
    """A place may hold nothing that counts; every other one is named by an error in one line, and by ``onward doctor``."""
    copy = tmp_path / "jobs.db"
    shutil.copy(sound, copy)
    damage(copy, random.Random(f"{damage.__name__} {case}"))
    ran.clear()
    app = Onward(f"sqlite:///{copy}", jobs=[NOTE])
    try:
        told = what_is_told(app)
        assert len(told.splitlines()) == 1 or not what_is_missing(app.store.find(JobFilter(), limit=JOBS))
    finally:
        app.close()


@pytest.mark.timeout(120)
def test_a_worker_on_a_damaged_file_says_so_and_does_not_spin(tmp_path: Path) -> None:
    """It runs nothing, costs next to no processor time, and stops when it is told to."""
    database = tmp_path / "jobs.db"
    with_jobs(database)
    for place in range(2 * PAGE, database.stat().st_size, PAGE):
        _write(database, place, bytes(PAGE))
    with WorkerProcess(tmp_path) as worker:
        wait_for(lambda: any("is damaged" in line for line in worker.errors) or worker.process.poll() is not None)
        assert any("restore a backup" in line for line in worker.errors)
        if worker.process.poll() is None:
            used, began = cpu_seconds(worker.process.pid), time.monotonic()
            said = len(worker.errors)
            wait_for(lambda: len(worker.errors) >= said + 2 or worker.process.poll() is not None)
            assert worker.process.poll() is not None or cpu_seconds(worker.process.pid) - used < 0.5 * (time.monotonic() - began) + 0.2
            assert worker.stop() == 0
    assert not (tmp_path / "effects.log").exists()


def with_jobs(database: Path) -> None:
    app = Onward(f"sqlite:///{database}", jobs=[NOTE])
    app.enqueue_many([NOTE.new_job(text_of(number)) for number in range(1, JOBS + 1)])
    app.close()
    assert database.stat().st_size > 10 * PAGE


def wait_for(condition: Callable[[], object]) -> None:
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_the_judge_sees_a_loss() -> None:
    """Else the cases above could not fail."""
    ran.clear()
    assert len(what_is_missing([])) == JOBS
    ran[:] = [(encode(number), text_of(number)) for number in range(2, JOBS + 1)] + [(encode(1), text_of(2))]
    assert what_is_missing([]) == {encode(1)}


def test_a_damaged_file_refuses_an_enqueue(sound: Path, tmp_path: Path) -> None:
    copy = tmp_path / "jobs.db"
    shutil.copy(sound, copy)
    for place in range(PAGE, copy.stat().st_size, PAGE):
        _write(copy, place, bytes(PAGE))
    app = Onward(f"sqlite:///{copy}", jobs=[NOTE])
    with pytest.raises(StoreUnavailable, match="is damaged"):
        app.enqueue(NOTE, "one more")
    app.close()
