"""Attempts of all jobs: newest first, filtered, in pages, and never more than a bounded look."""

from __future__ import annotations

from datetime import timedelta

import pytest

from onward.attempts import AttemptFilter, Attempts, ListedAttempt, Place, read_place
from onward.clock import FakeClock
from onward.driver import Store
from onward.outcome import Completed, DeadLettered, Outcome, Released, Retried
from onward.status import Status
from onward.testing.conformance.steps import NO_DELAY, OWNER, PAST_LEASE, bring_to, claim_one, enqueue, settle

ALL = AttemptFilter()
SOON = timedelta(seconds=1)


def end(store: Store, clock: FakeClock, type: str = "work", outcome: Outcome | None = None, *, owner: str = OWNER, **fields: object) -> str:
    """Let one job run once, a second after the one before. Gives its id."""
    clock.advance(SOON.total_seconds())
    job = enqueue(store, type, **fields)
    settle(store, claim_one(store, owner=owner), outcome or DeadLettered("hopeless"), keeps_history=True)
    return job.id


def ids(page: Attempts) -> list[str]:
    """Of the jobs, in order."""
    return [one.job_id for one in page.found]


def pages(store: Store, where: AttemptFilter, *, limit: int, looks: int = 10_000) -> list[Attempts]:
    """Every page, one after the other."""
    found = [store.attempts(where, limit=limit, looks=looks)]
    while (following := found[-1].next) is not None:
        found.append(store.attempts(where, limit=limit, looks=looks, before=read_place(following)))
    return found


class TestAttempts:
    """What ended, whosever job it was."""

    def test_each_tells_its_jobs_type_and_queue(self, store: Store, clock: FakeClock) -> None:
        """So that nobody has to read the jobs for it."""
        assert store.attempts(ALL) == Attempts()
        job_id = end(store, clock, "mail", Retried(NO_DELAY, "boom"), queue="slow")
        (found,) = store.attempts(ALL).found
        (kept,) = store.history(job_id)
        assert found == ListedAttempt(**{name: getattr(kept, name) for name in kept.__struct_fields__}, type="mail", queue="slow")

    def test_every_ending_that_is_kept_is_listed_newest_first(self, store: Store, clock: FakeClock) -> None:
        """Failures, losses, releases and cancellations always, successes where they were asked for."""
        lost = bring_to(store, Status.IN_PROGRESS).id
        clock.advance(PAST_LEASE.total_seconds())
        store.sweep({})
        claim_one(store)
        bring_to(store, Status.COMPLETED)
        outcomes: list[Outcome] = [Completed(), Retried(timedelta(hours=1), "boom"), DeadLettered("hopeless")]
        found = [end(store, clock, outcome=one) for one in outcomes]
        enqueue(store)
        clock.advance(1)
        settle(store, claim_one(store), Released())
        page = store.attempts(ALL)
        assert [one.outcome for one in page.found] == ["released", "dead_lettered", "retried", "completed", "lost"]
        assert ids(page)[1:] == [*reversed(found), lost]
        assert page.next is None

    def test_each_filter_narrows(self, store: Store, clock: FakeClock) -> None:
        """Alone, and with the others."""
        work = end(store, clock)
        mail = end(store, clock, "mail", Completed(), queue="slow")
        other = end(store, clock, "mail", owner="host:2:other")
        cases: list[tuple[AttemptFilter, list[str]]] = [
            (AttemptFilter(types=("mail",)), [other, mail]),
            (AttemptFilter(types=("mail", "work", "never")), [other, mail, work]),
            (AttemptFilter(queues=("slow",)), [mail]),
            (AttemptFilter(outcomes=("dead_lettered",)), [other, work]),
            (AttemptFilter(outcomes=("completed", "lost")), [mail]),
            (AttemptFilter(lease_owner="host:2:other"), [other]),
            (AttemptFilter(lease_owner=""), []),
            (AttemptFilter(types=("mail",), outcomes=("dead_lettered",)), [other]),
            (AttemptFilter(types=("mail",), lease_owner=OWNER, queues=("default",)), []),
        ]
        for where, expected in cases:
            assert ids(store.attempts(where)) == expected, where

    def test_since_is_with_its_moment_and_until_without(self, store: Store, clock: FakeClock) -> None:
        """Two stretches that meet share nothing."""
        first, second, third = (end(store, clock) for _ in range(3))
        middle = clock.now() - SOON
        assert ids(store.attempts(AttemptFilter(since=middle))) == [third, second]
        assert ids(store.attempts(AttemptFilter(until=middle))) == [first]
        assert ids(store.attempts(AttemptFilter(since=middle, until=clock.now()))) == [second]
        assert ids(store.attempts(AttemptFilter(since=clock.now(), until=middle))) == []

    @pytest.mark.parametrize("limit", [1, 2, 3, 5, 6])
    def test_pages_follow_one_another_without_a_gap(self, store: Store, clock: FakeClock, limit: int) -> None:
        """Also among attempts that ended in the same moment, and with several of one job."""
        for _ in range(2):
            enqueue(store)
            for _ in range(2):
                settle(store, claim_one(store), Retried(NO_DELAY, "boom"))
            settle(store, claim_one(store), DeadLettered("hopeless"))
        found = pages(store, ALL, limit=limit)
        assert [len(page.found) for page in found] == [limit] * (6 // limit) + [6 % limit] * (6 % limit > 0)
        places = [Place(one.finished_at, one.job_id, one.fence) for page in found for one in page.found]
        assert places == sorted(places, reverse=True)
        assert len(set(places)) == 6
        assert not any(page.is_capped for page in found)

    def test_a_page_begins_at_its_place_whatever_ended_since(self, store: Store, clock: FakeClock) -> None:
        """What is new stands before the first page."""
        jobs = [end(store, clock) for _ in range(4)]
        first = store.attempts(ALL, limit=2)
        end(store, clock)
        assert first.next is not None
        assert ids(store.attempts(ALL, before=read_place(first.next))) == jobs[1::-1]
        assert ids(store.attempts(AttemptFilter(until=clock.now() - 10 * SOON), before=read_place(first.next))) == []

    def test_a_filter_that_matches_rarely_stops_at_a_bound_and_says_so(self, store: Store, clock: FakeClock) -> None:
        """Nobody waits for a walk through a million; ``next`` goes on from there."""
        rare = end(store, clock, "mail")
        for _ in range(7):
            end(store, clock)
        where = AttemptFilter(types=("mail",))
        found = pages(store, where, limit=2, looks=3)
        assert [(ids(page), page.is_capped) for page in found] == [([], True), ([], True), ([rare], False)]
        assert found[-1].next is None
        assert [page.is_capped for page in pages(store, where, limit=2, looks=8)] == [False]
        assert [page.is_capped for page in pages(store, where, limit=2, looks=7)] == [True, False]

    def test_a_page_that_was_filled_within_the_bound_has_not_stopped(self, store: Store, clock: FakeClock) -> None:
        """It only has others behind it."""
        jobs = [end(store, clock, kind) for kind in ("mail", "work", "mail", "work", "mail")]
        page = store.attempts(AttemptFilter(types=("mail",)), limit=2, looks=4)
        assert (ids(page), page.is_capped) == ([jobs[4], jobs[2]], False)
        assert page.next is not None
        assert ids(store.attempts(AttemptFilter(types=("mail",)), before=read_place(page.next))) == [jobs[0]]

    def test_what_no_database_can_hold_matches_nothing(self, store: Store, clock: FakeClock) -> None:
        """It comes from URLs and shells."""
        job_id = end(store, clock)
        for text in ("a\0b", "\ud800", "'; DROP TABLE jobs --"):
            for where in (AttemptFilter(types=(text,)), AttemptFilter(queues=(text,)), AttemptFilter(lease_owner=text)):
                assert store.attempts(where) == Attempts()
        assert ids(store.attempts(AttemptFilter(types=("work", "\ud800")))) == [job_id]
        assert store.attempts(ALL, before=Place(clock.now(), "a\0b", 1)) in (Attempts(), store.attempts(ALL))

    def test_those_of_a_job_that_is_deleted_are_gone(self, store: Store, clock: FakeClock) -> None:
        """As its own history is."""
        stays, goes = end(store, clock), end(store, clock)
        store.delete(goes)
        assert ids(store.attempts(ALL)) == [stays]
