"""A running job that a person cancels ends cancelled, whatever its handler does and whoever dies; what has completed stays completed."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from onward.app import Onward
from onward.errors import IllegalTransition
from onward.jobs import Job
from onward.status import Status
from tests.acceptance.cancel_app import JOBS, TABLE
from tests.acceptance.worker_process import WorkerProcess

POLL, SWEEP, GRACE = 0.1, 0.5, 1.0
CANCEL_GRACE = 5.0
"""Seconds that a handler gets once it is told."""
MARGIN = 5.0
"""Seconds that a busy machine may take to give a process its turn."""
PATIENCE = 40.0
OBEYING = ("obeys_on_the_loop", "fails_when_cancelled", "watches", "fails_when_told", "snoozes_when_told", "watches_apart", "obeys_apart")
DEAF = ("swallows_it", "ignores", "ignores_apart", "holds_the_gil_apart")
RACERS = ("quick", "quick_on_the_loop", "quick_in_a_transaction", "keeps_failing", "keeps_snoozing")


class Site:
    """A store, and what handlers wrote of themselves."""

    def __init__(self, url: str, home: Path) -> None:
        self.home = home
        self.log = home / "effects.log"
        self.log.touch()
        self.app = Onward(url, jobs=JOBS.values(), migrate=True)
        with self.app.transaction() as connection:
            connection.execute(TABLE)

    def start(self, **options: object) -> WorkerProcess:
        chosen = {"poll": f"{POLL}s", "sweep": f"{SWEEP}s", "grace": f"{GRACE}s", "concurrency": 24, **options}
        flags = [f"--{name}={value}" for name, value in chosen.items()]
        return WorkerProcess(self.home, *flags, app="tests.acceptance.cancel_app:app")

    def begin(self, *names: str) -> dict[str, str]:
        """Enqueue one of each, and wait until each handler is under way. Gives their ids."""
        ids = {name: self.app.enqueue(JOBS[name], 1).id for name in names}
        wait_for(lambda: all(self.starts(id_) for id_ in ids.values()), "all had begun")
        return ids

    def starts(self, job_id: str) -> list[int]:
        """The processes in which its handler began."""
        lines = [line.split() for line in self.log.read_text().splitlines()]
        return [int(pid) for what, id_, _, pid in lines if (what, id_) == ("start", job_id)]

    def wait_for_end(self, job_id: str) -> Job:
        wait_for(lambda: self.app.get(job_id).status.is_final, f"job {job_id} ended")
        return self.app.get(job_id)

    def effects(self) -> int:
        with self.app.transaction() as connection:
            row = connection.execute("SELECT count(*) FROM effects").fetchone()
        assert row is not None
        return int(row[0])


@pytest.fixture
def site(tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("ONWARD_URL", database_url)
    made = Site(database_url, tmp_path)
    yield made
    made.app.close()


def wait_for(condition: Callable[[], bool], what: str) -> None:
    """Another process can only be asked, so ask."""
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until, f"it took too long until {what}"
        time.sleep(0.01)


def kill(worker: WorkerProcess, whom: str) -> None:
    """Kill the worker's process, or its supervisor first."""
    supervisor = psutil.Process(worker.process.pid)
    victims = [*([supervisor] if whom == "all" else []), *supervisor.children()]
    for process in victims:
        process.kill()
    psutil.wait_procs(victims, PATIENCE)


def cancel(app: Onward, job_id: str) -> Job | None:
    """Ask, and give the job as the answer has it; None where it had completed."""
    try:
        return app.cancel(job_id)
    except IllegalTransition as refusal:
        if "is completed" not in str(refusal):
            raise
        return None


def check_cancelled(site: Site, ids: dict[str, str]) -> None:
    """Each ends cancelled, and was claimed and begun once."""
    for name, job_id in ids.items():
        job = site.wait_for_end(job_id)
        assert (job.status, job.error, job.lease_owner) == (Status.CANCELLED, "cancelled while it ran", None), name
        assert (len(site.starts(job_id)), job.fence) == (1, 1), name


# -- within its grace --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("names", [OBEYING, DEAF, ("blocks_the_loop", "watches")], ids=["obeying", "deaf", "blocked loop"])
def test_a_job_of_each_kind_ends_cancelled_within_the_grace(site: Site, names: tuple[str, ...]) -> None:
    """Told, it ends by itself; deaf, it is given up, and a process of its own is killed. Asking again changes nothing."""
    with site.start() as worker:
        ids = site.begin(*names)
        began = time.monotonic()
        for job_id in ids.values():
            asked = site.app.cancel(job_id)
            assert (asked.status, asked.cancel_requested_at is not None) == (Status.IN_PROGRESS, True)
        check_cancelled(site, ids)
        took = time.monotonic() - began
        # Who obeys has ended well before he would be given up.
        assert took <= (CANCEL_GRACE - 1 if names is OBEYING else CANCEL_GRACE + POLL + MARGIN)
        for name, job_id in ids.items():
            with pytest.raises(IllegalTransition, match="is cancelled"):
                site.app.cancel(job_id)
            assert [attempt.outcome for attempt in site.app.history(job_id)] == ["cancelled"], name
        killed = [pid for name in {*names} & {"ignores_apart", "holds_the_gil_apart"} for pid in site.starts(ids[name])]
        wait_for(lambda: not any(map(psutil.pid_exists, killed)), "their processes were gone")
        # Neighbours were not touched, and none of them comes back.
        assert site.wait_for_end(site.app.enqueue(JOBS["quick"], 1).id).status is Status.COMPLETED
        check_cancelled(site, ids)
        assert worker.process.poll() is None
    print(f"{', '.join(names)}: cancelled after {took:.2f} s")


@pytest.mark.parametrize("is_first", [True, False], ids=["before the stop", "during the stop"])
def test_a_job_that_is_cancelled_around_a_stop_is_not_given_back(site: Site, is_first: bool) -> None:
    """Handlers that do not listen are given up at the end of the stop's own grace, which is shorter here."""
    with site.start() as worker:
        ids = site.begin(*DEAF)
        if not is_first:
            worker.process.send_signal(signal.SIGTERM)
        for job_id in ids.values():
            site.app.cancel(job_id)
        if is_first:
            worker.process.send_signal(signal.SIGTERM)
        worker.process.wait(PATIENCE)
        check_cancelled(site, ids)


# -- whoever dies --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("whom", ["worker", "all"])
def test_a_worker_that_is_killed_behind_the_request_leaves_a_cancelled_job(site: Site, whom: str) -> None:
    """Its supervisor takes the jobs back at once; without one they are swept when their leases are over. None runs again."""
    with site.start() as first:
        ids = site.begin(*OBEYING, *DEAF, "before_its_transaction")
        stopped = psutil.Process(first.process.pid).children()[0]
        stopped.suspend()  # so that no handler hears of it before the kill
        for job_id in ids.values():
            assert site.app.cancel(job_id).status is Status.IN_PROGRESS
        kill(first, whom)
        if whom == "worker":
            check_cancelled(site, ids)
        else:
            with site.start():
                check_cancelled(site, ids)
    assert {attempt.outcome for job_id in ids.values() for attempt in site.app.history(job_id)} == {"lost"}
    assert site.effects() == 0


def test_a_job_is_cancelled_whose_worker_is_gone_already(site: Site) -> None:
    """Its lease has run out, and nobody has noticed yet."""
    with site.start() as first:
        ids = site.begin("ignores", "ignores_apart")
        kill(first, "all")
    leases = [site.app.get(job_id).lease_until for job_id in ids.values()]
    wait_for(lambda: all(until is not None and until < site.app.store.clock.now() for until in leases), "the leases were over")
    for job_id in ids.values():
        assert site.app.cancel(job_id).status is Status.IN_PROGRESS
    with site.start():
        check_cancelled(site, ids)


# -- never a completed one -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["in_its_transaction", "in_its_transaction_apart"])
@pytest.mark.parametrize("dies", [False, True], ids=["commits", "dies"])
def test_a_request_that_meets_the_handlers_transaction_waits_for_what_becomes_of_it(site: Site, name: str, dies: bool) -> None:
    """Committed, the job is completed and the request refused; rolled back by a death, the job is cancelled and has no effect."""
    with site.start() as worker, ThreadPoolExecutor(1) as pool:
        (job_id,) = site.begin(name).values()
        asking = pool.submit(cancel, site.app, job_id)
        if dies:
            kill(worker, "worker")
        else:
            (site.home / "go").touch()
        answer = asking.result(PATIENCE)
        job = site.wait_for_end(job_id)
        assert (answer is None) is not dies
        assert job.status is (Status.CANCELLED if dies else Status.COMPLETED)
        assert site.effects() == (0 if dies else 1)
        assert len(site.starts(job_id)) == 1 or dies


@pytest.mark.parametrize("name", ["behind_its_transaction", "behind_its_transaction_apart"])
def test_a_job_that_its_transaction_completed_stays_completed_whoever_asks_and_dies(site: Site, name: str) -> None:
    """Its handler goes on for an hour, and is killed."""
    with site.start() as worker:
        (job_id,) = site.begin(name).values()
        assert cancel(site.app, job_id) is None
        before = site.app.get(job_id)
        kill(worker, "worker")
        assert site.wait_for_end(site.app.enqueue(JOBS["quick"], 1).id).status is Status.COMPLETED
        assert (site.app.get(job_id), site.effects(), len(site.starts(job_id))) == (before, 1, 1)
        assert before.status is Status.COMPLETED


def test_a_handler_that_completes_its_job_though_it_was_told_has_completed_it(site: Site) -> None:
    """What is done is done."""
    with site.start():
        (job_id,) = site.begin("before_its_transaction").values()
        assert site.app.cancel(job_id).status is Status.IN_PROGRESS
        assert site.wait_for_end(job_id).status is Status.COMPLETED
        assert cancel(site.app, job_id) is None
        assert site.effects() == 1


def test_an_answer_agrees_with_the_end_however_close_the_race(site: Site) -> None:
    """Jobs that complete, fail, snooze and commit in every moment, and two people who cancel them; an answer is kept to for ever."""
    answers: dict[str, Job | None] = {}
    batch = [JOBS[RACERS[number % len(RACERS)]].new_job(number) for number in range(400)]
    with site.start(concurrency=8, processes=2):
        site.app.enqueue_many(batch)
        wait_for(lambda: site.app.get(batch[0].id).status is Status.COMPLETED, "the first had completed")

        def ask(ids: list[str]) -> None:
            for id_ in ids:
                answers[id_] = cancel(site.app, id_)

        ids = [job.id for job in batch]
        people = [threading.Thread(target=ask, args=(one,)) for one in (ids[:200], ids[:199:-1])]
        for person in people:
            person.start()
        for person in people:
            person.join(PATIENCE)
        ends = {id_: site.wait_for_end(id_) for id_ in ids}
        assert site.wait_for_end(site.app.enqueue(JOBS["quick"], 1).id).status is Status.COMPLETED
    print({answer: sum(one == answer for one in map(_said, answers.values())) for answer in set(map(_said, answers.values()))})
    assert set(map(_said, answers.values())) >= {"completed", "cancelled"}
    for id_, answer in answers.items():
        end = ends[id_]
        assert site.app.get(id_) == end
        if answer is None:
            assert end.status is Status.COMPLETED
            continue
        assert end.fence == answer.fence  # it was not claimed once more
        assert end.status is Status.CANCELLED or (answer.status is Status.IN_PROGRESS and end.status is Status.COMPLETED)
        assert len(site.starts(id_)) <= answer.fence


def _said(answer: Job | None) -> str:
    return "completed" if answer is None else str(answer.status)
