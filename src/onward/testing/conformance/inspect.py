"""Reading: get, find, count, and the six standing questions."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from onward.clock import FakeClock
from onward.driver import Store
from onward.errors import JobNotFound, OnwardError
from onward.inspection import QUESTIONS, JobFilter, Question
from onward.outcome import Completed, DeadLettered
from onward.status import Status
from onward.testing.conformance.steps import OWNER, PAST_LEASE, SOON, bring_to, claim_one, enqueue, settle
from onward.testing.factories import make_new_job

COLUMNS: dict[Question, tuple[str, ...]] = {
    "outstanding": ("type", "status", "jobs"),
    "failed": ("id", "type", "attempts", "finished_at", "error"),
    "stuck": ("id", "type", "lease_owner", "lease_until", "started_at", "reason"),
    "durations": ("type", "jobs", "average_seconds", "longest_seconds"),
    "duplicates": ("owner", "type", "idempotency_key", "jobs"),
    "last-hour": ("id", "type", "status", "finished_at"),
}


def ask(store: Store, question: Question, **how: Any) -> list[dict[str, Any]]:
    """Ask, and give each row by the names of its columns."""
    answer = store.answer(question, **how)
    assert (answer.question, answer.columns) == (question, COLUMNS[question])
    return [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]


class TestFind:
    """Every field of a filter narrows; pages go from the newest id down."""

    def test_jobs_come_newest_first_in_pages(self, store: Store) -> None:
        """A page begins below the last id of the page before, so new jobs do not shift it."""
        ids = [enqueue(store, payload=number).id for number in range(7)][::-1]
        first = store.find(JobFilter(), limit=3)
        enqueue(store)
        second = store.find(JobFilter(), limit=3, before=first[-1].id)
        third = store.find(JobFilter(), limit=3, before=second[-1].id)
        assert [job.id for job in first + second + third] == ids

    def test_a_page_has_fifty_unless_more_are_asked_for(self, store: Store) -> None:
        """Whoever looks without a number in mind must not be given a million."""
        store.enqueue([make_new_job() for _ in range(52)])
        assert (len(store.find(JobFilter())), len(store.find(JobFilter(), limit=52))) == (50, 52)

    def test_each_field_narrows(self, store: Store, clock: FakeClock) -> None:
        """The list, the count and every bulk action of the command line share this filter."""
        plain = enqueue(store)
        settle(store, claim_one(store))
        done_at = clock.now()
        clock.advance(60)
        mail = enqueue(store, "mail", queue="slow", key="k", owner="ada")
        dead = bring_to(store, Status.DEAD_LETTER, type="mail", queue="fast", priority=9)
        cases: list[tuple[JobFilter, set[str]]] = [
            (JobFilter(), {plain.id, mail.id, dead.id}),
            (JobFilter(statuses=(Status.QUEUED,)), {mail.id}),
            (JobFilter(statuses=(Status.QUEUED, Status.COMPLETED)), {mail.id, plain.id}),
            (JobFilter(types=("mail",)), {mail.id, dead.id}),
            (JobFilter(queues=("slow", "fast")), {mail.id, dead.id}),
            (JobFilter(ids=(plain.id, dead.id, make_new_job().id)), {plain.id, dead.id}),
            (JobFilter(key="k"), {mail.id}),
            (JobFilter(owner="ada"), {mail.id}),
            (JobFilter(owner=""), {plain.id, dead.id}),
            (JobFilter(finished_after=done_at + timedelta(seconds=1)), {dead.id}),
            (JobFilter(types=("mail",), statuses=(Status.DEAD_LETTER,), owner="ada"), set()),
        ]
        for where, expected in cases:
            assert {job.id for job in store.find(where)} == expected
            assert store.count(where) == len(expected)

    def test_what_is_found_is_what_get_gives(self, store: Store) -> None:
        """One way from a row to a job."""
        taken = bring_to(store, Status.RETRYING, key="k", owner="ada", priority=3)
        assert store.find(JobFilter()) == [store.get(taken.id)]

    def test_an_empty_store_is_read_like_any_other(self, store: Store) -> None:
        """The first command on a new machine must not fail."""
        assert store.find(JobFilter()) == []
        assert store.count(JobFilter()) == 0
        assert [store.answer(question).rows for question in QUESTIONS] == [()] * 6
        with pytest.raises(JobNotFound):
            store.get(make_new_job().id)


class TestQuestions:
    """What a person asks of a running system."""

    def test_outstanding_counts_live_jobs_by_type_and_status(self, store: Store) -> None:
        """What work is there right now?"""
        for status in (Status.COMPLETED, Status.DEAD_LETTER, Status.CANCELLED, Status.RETRYING):
            bring_to(store, status)
        settle(store, claim_one(store))
        for _ in range(3):
            enqueue(store, "mail", delay=SOON)
        bring_to(store, Status.IN_PROGRESS)
        rows = ask(store, "outstanding")
        assert sorted((row["type"], row["status"], row["jobs"]) for row in rows) == [("mail", "queued", 3), ("work", "in_progress", 1)]

    def test_failed_lists_dead_letters_with_their_reason(self, store: Store, clock: FakeClock) -> None:
        """What failed, and why?"""
        enqueue(store)
        taken = claim_one(store)
        clock.advance(1)
        settle(store, taken, DeadLettered("ValueError: no such user"))
        bring_to(store, Status.COMPLETED)
        (row,) = ask(store, "failed")
        assert (row["id"], row["type"], row["attempts"]) == (taken.id, "work", 1)
        assert (row["error"], row["finished_at"]) == ("ValueError: no such user", "2026-01-01T00:00:01.000000Z")

    def test_stuck_lists_what_lost_its_lease_and_what_runs_long(self, store: Store, clock: FakeClock) -> None:
        """Is anything stuck? Reported, never killed."""
        enqueue(store)
        taken = claim_one(store)
        assert ask(store, "stuck") == []
        clock.advance(30)
        (long,) = ask(store, "stuck", stuck_after=timedelta(seconds=20))
        clock.advance(PAST_LEASE)
        (lost,) = ask(store, "stuck")
        for row in (long, lost):
            assert (row["id"], row["type"], row["lease_owner"]) == (taken.id, "work", OWNER)
            assert (row["started_at"], row["lease_until"]) == ("2026-01-01T00:00:00.000000Z", "2026-01-01T00:01:00.000000Z")
        assert long["reason"]
        assert lost["reason"]
        assert long["reason"] != lost["reason"]

    def test_the_query_behind_stuck_has_the_same_limit(self, store: Store) -> None:
        """What is pasted into a shell must find what the command found."""
        try:
            usual = store.question_sql("stuck")
        except OnwardError:
            return  # a store without a query language says so
        assert usual == store.question_sql("stuck", stuck_after=timedelta(minutes=5))
        assert usual != store.question_sql("stuck", stuck_after=timedelta(seconds=20))

    def test_durations_average_completed_runs(self, store: Store, clock: FakeClock) -> None:
        """How long do jobs take? From the claim that completed, not from the enqueue."""
        for seconds in (1, 2, 6):
            enqueue(store)
            clock.advance(100)
            taken = claim_one(store)
            clock.advance(seconds)
            settle(store, taken, Completed())
        bring_to(store, Status.DEAD_LETTER)
        (row,) = ask(store, "durations")
        assert (row["type"], row["jobs"]) == ("work", 3)
        assert (row["average_seconds"], row["longest_seconds"]) == (pytest.approx(3, abs=0.002), pytest.approx(6, abs=0.002))

    def test_duplicates_lists_live_jobs_that_share_a_key(self, store: Store, clock: FakeClock) -> None:
        """Are there duplicates? Only a window that was over can make one."""
        enqueue(store, key="k", scope=timedelta(seconds=5), owner="ada")
        assert ask(store, "duplicates") == []
        clock.advance(6)
        enqueue(store, key="k", scope=timedelta(seconds=5), owner="ada")
        assert ask(store, "duplicates") == [{"owner": "ada", "type": "work", "idempotency_key": "k", "jobs": 2}]

    def test_last_hour_lists_what_ended_in_it(self, store: Store, clock: FakeClock) -> None:
        """What ran in the last hour, and how did it end?"""
        bring_to(store, Status.COMPLETED)
        clock.advance(timedelta(minutes=61))
        ended = {bring_to(store, status).id: str(status) for status in (Status.COMPLETED, Status.DEAD_LETTER)}
        bring_to(store, Status.IN_PROGRESS)
        rows = ask(store, "last-hour")
        assert {row["id"]: row["status"] for row in rows} == ended
        assert {row["finished_at"] for row in rows} == {"2026-01-01T01:01:00.000000Z"}

    @pytest.mark.parametrize("question", QUESTIONS)
    def test_the_query_is_shown_or_its_absence_explained(self, store: Store, question: Question) -> None:
        """A person may want to ask more than six questions."""
        try:
            text = store.question_sql(question)
        except OnwardError as error:
            text = str(error)
        assert text.strip()

    def test_an_examination_says_something(self, store: Store) -> None:
        """Whatever weakens a promise is said before it matters."""
        findings = store.examine()
        assert findings
        assert all(finding.level in ("ok", "warning", "error") and finding.text for finding in findings)
