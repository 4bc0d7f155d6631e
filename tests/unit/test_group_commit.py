"""Group commit over a driver whose commits are held open, so that who rides with whom is decided by the test."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from onward.driver import Capabilities, Driver
from onward.errors import DuplicateJob, OutcomeUnknown, StoreBusy, TransactionOpen
from onward.group_commit import GroupCommit
from onward.ids import new_id
from onward.jobs import Accepted, NewJob


def new_job(type: str = "note") -> NewJob:
    return NewJob(id=new_id(), type=type, payload="null", payload_hash="")


class HeldDriver:
    """Records each commit's requests; a commit waits for ``gate`` and then does what ``answer`` says."""

    capabilities = Capabilities(name="held")
    inside_transaction = False
    enqueue = Driver.enqueue

    def __init__(self) -> None:
        self.commits: list[list[str]] = []
        self.entered = threading.Semaphore(0)
        self.gate = threading.Semaphore(0)
        self.failure: BaseException | None = None

    def enqueue_each(self, requests: Sequence[Sequence[NewJob]]) -> list[list[Accepted] | Exception]:
        self.commits.append([job.type for jobs in requests for job in jobs])
        self.entered.release()
        assert self.gate.acquire(timeout=10)
        if self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure
        return [
            DuplicateJob("held", job_id="x") if jobs[0].type == "duplicate" else [Accepted(job.id) for job in jobs] for jobs in requests
        ]


def enqueue_in_thread(commits: GroupCommit, job: NewJob, answers: dict[str, Any]) -> threading.Thread:
    def run() -> None:
        try:
            answers[job.id] = commits.enqueue([job])
        except BaseException as error:
            answers[job.id] = error

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def start_leader_and_riders(
    driver: HeldDriver, commits: GroupCommit, riders: list[NewJob]
) -> tuple[list[threading.Thread], dict[str, Any]]:
    answers: dict[str, Any] = {}
    threads = [enqueue_in_thread(commits, new_job("leader"), answers)]
    assert driver.entered.acquire(timeout=10)
    threads += [enqueue_in_thread(commits, rider, answers) for rider in riders]
    while commits.waiting < len(riders):
        threading.Event().wait(0.001)
    return threads, answers


def join(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()


def test_callers_that_come_during_a_commit_share_the_next_one() -> None:
    """Sixty-four threads must not cost sixty-four commits."""
    driver = HeldDriver()
    riders = [new_job("rider") for _ in range(8)]
    threads, answers = start_leader_and_riders(driver, GroupCommit(driver), riders)  # type: ignore[arg-type]
    driver.gate.release(2)
    join(threads)
    assert driver.commits == [["leader"], ["rider"] * 8]
    assert [answers[rider.id] for rider in riders] == [[Accepted(rider.id)] for rider in riders]


def test_who_has_an_answer_does_not_wait_for_the_next_commit() -> None:
    """On a slow disk that would be twice the time, and half of the callers in each commit."""
    driver = HeldDriver()
    commits = GroupCommit(driver)  # type: ignore[arg-type]
    riders = [new_job("rider"), new_job("rider")]
    threads, answers = start_leader_and_riders(driver, commits, riders)
    driver.gate.release()
    assert driver.entered.acquire(timeout=10)
    late = enqueue_in_thread(commits, new_job("late"), answers)
    while commits.waiting < 1:
        threading.Event().wait(0.001)
    driver.gate.release()
    assert driver.entered.acquire(timeout=10)
    join(threads)
    assert driver.commits == [["leader"], ["rider", "rider"], ["late"]]
    driver.gate.release()
    join([late])


def test_a_crowd_that_was_answered_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever comes first would else commit alone, and the others wait for that: two commits where one would do."""
    ticks = iter(range(0, 10**6, 100))
    monkeypatch.setattr("onward.group_commit.time", SimpleNamespace(monotonic=lambda: float(next(ticks))))  # each commit took long
    monkeypatch.setattr("onward.group_commit.LONGEST_GATHERING", 10.0)
    driver = HeldDriver()
    commits = GroupCommit(driver)  # type: ignore[arg-type]
    threads, answers = start_leader_and_riders(driver, commits, [new_job("rider") for _ in range(4)])
    driver.gate.release(2)
    join(threads)
    again = [enqueue_in_thread(commits, new_job("again"), answers) for _ in range(4)]
    driver.gate.release()
    join(again)
    assert driver.commits == [["leader"], ["rider"] * 4, ["again"] * 4]


def test_a_refused_request_does_not_disturb_its_neighbours() -> None:
    """Each rider has a savepoint of its own, so each gets an answer of its own."""
    driver = HeldDriver()
    riders = [new_job("rider"), new_job("duplicate"), new_job("rider")]
    threads, answers = start_leader_and_riders(driver, GroupCommit(driver), riders)  # type: ignore[arg-type]
    driver.gate.release(2)
    join(threads)
    assert isinstance(answers[riders[1].id], DuplicateJob)
    assert answers[riders[2].id] == [Accepted(riders[2].id)]


def test_a_failed_commit_is_told_to_every_rider_by_an_error_of_its_own() -> None:
    """One exception object raised in several threads would mix up their tracebacks; an unknown outcome names the rider's own ids."""
    driver = HeldDriver()
    riders = [new_job("rider"), new_job("rider")]
    threads, answers = start_leader_and_riders(driver, GroupCommit(driver), riders)  # type: ignore[arg-type]
    driver.gate.release()
    assert driver.entered.acquire(timeout=10)
    driver.failure = OutcomeUnknown("the disk failed in the commit")
    driver.gate.release()
    join(threads)
    first, second = (answers[rider.id] for rider in riders)
    assert first is not second
    assert first.job_ids == (riders[0].id,)
    assert second.job_ids == (riders[1].id,)


def test_a_leader_that_dies_fails_its_riders_and_never_hangs_them() -> None:
    """An interrupt in the leader must not leave others waiting; what happened to their jobs is unknown."""
    driver = HeldDriver()
    riders = [new_job("rider"), new_job("rider")]
    threads, answers = start_leader_and_riders(driver, GroupCommit(driver), riders)  # type: ignore[arg-type]
    driver.gate.release()
    assert driver.entered.acquire(timeout=10)
    driver.failure = KeyboardInterrupt()
    driver.gate.release()
    join(threads)
    kinds = sorted(type(answers[rider.id]).__name__ for rider in riders)
    assert kinds == ["KeyboardInterrupt", "OutcomeUnknown"]


def test_the_next_caller_commits_after_a_failure() -> None:
    """A failed leader gives the lead back."""
    driver = HeldDriver()
    commits = GroupCommit(driver)  # type: ignore[arg-type]
    driver.failure = StoreBusy("held")
    driver.gate.release(2)
    with pytest.raises(StoreBusy):
        commits.enqueue([new_job()])
    job = new_job()
    assert commits.enqueue([job]) == [Accepted(job.id)]


def test_a_thread_inside_its_own_transaction_is_told_so_at_once() -> None:
    """Otherwise it would wait for itself until the time-out, and so would everybody behind it."""
    driver = HeldDriver()
    driver.inside_transaction = True
    with pytest.raises(TransactionOpen, match="within=connection"):
        GroupCommit(driver).enqueue([new_job()])  # type: ignore[arg-type]
    assert driver.commits == []


def test_an_awaiting_caller_inside_its_own_transaction_is_told_so_at_once() -> None:
    """The thread that commits would wait for the caller's lock, and the caller for that thread."""
    driver = HeldDriver()
    driver.inside_transaction = True
    commits = GroupCommit(driver)  # type: ignore[arg-type]

    async def run() -> None:
        with pytest.raises(TransactionOpen, match="within=connection"):
            await commits.enqueue_awaited([new_job()])

    asyncio.run(run())
    assert (driver.commits, commits.waiting) == ([], 0)


def test_awaiting_callers_share_commits_and_get_their_own_answers() -> None:
    """A thousand awaiting callers need one thread and few commits."""
    driver = HeldDriver()
    commits = GroupCommit(driver)  # type: ignore[arg-type]
    jobs = [new_job("rider" if number % 3 else "duplicate") for number in range(50)]

    async def run() -> list[Any]:
        asked = [commits.enqueue_awaited([job]) for job in jobs]
        driver.gate.release(2)  # the first commit is held until all have asked, so the second one takes all that it left
        return await asyncio.gather(*asked, return_exceptions=True)

    answers = asyncio.run(run())
    commits.close()
    assert len(driver.commits) <= 2
    for job, answer in zip(jobs, answers, strict=True):
        assert isinstance(answer, DuplicateJob) if job.type == "duplicate" else answer == [Accepted(job.id)]


def test_an_awaiting_caller_that_gave_up_disturbs_nobody() -> None:
    """A cancelled request may still be stored; its neighbours must get their answers."""
    driver = HeldDriver()
    commits = GroupCommit(driver)  # type: ignore[arg-type]
    impatient, patient = new_job(), new_job()

    async def run() -> Any:
        given_up = commits.enqueue_awaited([impatient])
        other = commits.enqueue_awaited([patient])
        given_up.cancel()
        driver.gate.release(2)
        return await other

    assert asyncio.run(run()) == [Accepted(patient.id)]
    commits.close()


def test_closing_answers_what_was_asked_before_and_opens_again_later() -> None:
    """Nobody is left waiting by a close, and an application may go on after it."""
    driver = HeldDriver()
    driver.gate.release(2)
    commits = GroupCommit(driver)  # type: ignore[arg-type]

    async def once() -> Any:
        return await commits.enqueue_awaited([new_job()])

    assert len(asyncio.run(once())) == 1
    commits.close()
    assert len(asyncio.run(once())) == 1
    commits.close()


class KeyDriver(HeldDriver):
    """As Postgres: an enqueue waits for another transaction that has its key."""

    capabilities = Capabilities(name="keys", waits_for_keys=True)

    def enqueue(self, jobs: Sequence[NewJob]) -> list[Accepted]:
        self.entered.release()
        assert self.gate.acquire(timeout=10)
        return [Accepted(job.id) for job in jobs]


def keyed_job() -> NewJob:
    return NewJob(id=new_id(), type="note", payload="null", payload_hash="", key="k")


def test_a_request_that_may_wait_for_a_key_keeps_nobody_waiting() -> None:
    """Whoever holds the key may take minutes; callers without one commit meanwhile."""
    driver = KeyDriver()
    group = GroupCommit(driver)  # type: ignore[arg-type]
    answers: list[list[Accepted]] = []
    waiting = threading.Thread(target=lambda: answers.append(group.enqueue([keyed_job()])), daemon=True)
    waiting.start()
    assert driver.entered.acquire(timeout=10)
    free = threading.Thread(target=lambda: group.enqueue([new_job()]), daemon=True)
    free.start()
    assert driver.entered.acquire(timeout=10)  # it got to its commit while the other waits for the key
    for _ in range(2):
        driver.gate.release()
    for thread in (waiting, free):
        thread.join(10)
    assert [answer.is_new for answer in answers[0]] == [True]


def test_awaiting_callers_with_keys_wait_beside_each_other() -> None:
    """On threads of the library's own: those of the loop belong to the application."""
    driver = KeyDriver()
    group = GroupCommit(driver)  # type: ignore[arg-type]

    async def ask() -> list[list[Accepted]]:
        requests = [group.enqueue_awaited([keyed_job()]) for _ in range(3)]
        for _ in requests:
            assert await asyncio.to_thread(driver.entered.acquire, timeout=10)
        for _ in requests:
            driver.gate.release()
        return list(await asyncio.gather(*requests))

    assert len(asyncio.run(ask())) == 3
    group.close()
