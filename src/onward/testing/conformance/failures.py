"""Dead letters, as they are looked at many at once: newest end first, page by page, without anything else."""

from __future__ import annotations

from typing import Any

import pytest

from onward.clock import FakeClock
from onward.driver import Store
from onward.failure_verbs import find_group, groups_of
from onward.inspection import DeadLetter, JobFilter
from onward.outcome import DeadLettered
from onward.status import Status
from onward.testing.conformance.steps import bring_to, claim, demand, enqueue, is_settled, settle
from onward.testing.factories import make_new_job
from onward.turn import Settlement

CAUSES = (
    "KeyError: 'user-{0}'",
    'ValueError: user {0} of {1}@example.org not found in /srv/data/{0}.csv\n  File "/srv/{0}/app/shop.py", line {0}, in send\n    x()',
    "lease lost: the worker {1}:{0}:00c0ffee stopped renewing it",
)


def die(store: Store, clock: FakeClock, error: str = "hopeless", **fields: Any) -> str:
    """A dead letter; a second later it is."""
    enqueue(store, **fields)
    (taken,) = claim(store)
    assert is_settled(settle(store, taken, DeadLettered(error)))
    clock.advance(1)
    return taken.id


class TestDeadLetters:
    """What ``app.failures`` reads."""

    def test_they_come_by_their_end_the_last_first(self, store: Store, clock: FakeClock) -> None:
        """However old the job is; nothing else comes with them."""
        for status in (Status.COMPLETED, Status.CANCELLED):
            bring_to(store, status)
        old = enqueue(store, queue="late", priority=-1)
        first = die(store, clock, "A: 1", queue="mail")
        second = die(store, clock, "B: 2")
        (taken,) = claim(store)
        assert taken.id == old.id
        settle(store, taken, DeadLettered("C: 3"))
        found = store.dead_letters()
        assert [one.id for one in found] == [old.id, second, first]
        job = store.get(first)
        assert job.finished_at is not None
        assert found[-1] == DeadLetter(id=first, type=job.type, queue="mail", attempts=1, finished_at=job.finished_at, error="A: 1")

    def test_a_page_goes_on_behind_the_one_before(self, store: Store, clock: FakeClock) -> None:
        """Also among those that ended at the same moment."""
        store.enqueue([make_new_job() for _ in range(5)])
        store.turn([Settlement(claim=one, outcome=DeadLettered("x")) for one in claim(store, 5)])
        clock.advance(1)
        die(store, clock)
        whole = store.dead_letters()
        assert len(whole) == 6
        pages: list[DeadLetter] = []
        while page := store.dead_letters(limit=2, before=pages[-1] if pages else None):
            assert len(page) == 2
            pages += page
        assert pages == whole

    def test_types_and_queues_narrow(self, store: Store, clock: FakeClock) -> None:
        """A name that no database could hold is nobody's."""
        mail = die(store, clock, type="mail", queue="mail")
        other = die(store, clock, type="mail", queue="other")
        die(store, clock, type="work", queue="mail")
        assert [one.id for one in store.dead_letters(types=["mail"])] == [other, mail]
        assert [one.id for one in store.dead_letters(types=["mail", "nobody"], queues=["mail"])] == [mail]
        assert store.dead_letters(types=["a\0b"]) == store.dead_letters(queues=["\ud800"]) == []

    def test_one_that_is_retried_or_deleted_is_none(self, store: Store, clock: FakeClock) -> None:
        """Its error is no longer what holds it up."""
        retried, deleted, left = (die(store, clock) for _ in range(3))
        store.retry(retried)
        store.delete(deleted)
        assert [one.id for one in store.dead_letters()] == [left]


class TestFailureGroups:
    """What many died of."""

    @pytest.mark.timeout(300)
    def test_ten_thousand_of_three_causes_are_three_groups(self, store: Store, clock: FakeClock) -> None:
        """Whatever names, ids and numbers their errors hold; and each group has its own jobs."""
        expected: dict[int, list[str]] = {0: [], 1: [], 2: []}
        number = 0
        for size in [1000] * 10:
            store.enqueue([make_new_job() for _ in range(size)])
            settlements = []
            for one in store.turn(demand=demand(size)).claims:
                cause = number % 3
                error = CAUSES[cause].format(number, f"host-{number % 7}")
                settlements.append(Settlement(claim=one, outcome=DeadLettered(error)))
                expected[cause].append(one.id)
                number += 1
            assert store.turn(settlements).lost == ()
            clock.advance(1)
        found = groups_of(store, JobFilter())
        assert [(one.count, one.exception) for one in found[:1]] == [(3334, "KeyError")]
        assert sorted(one.count for one in found) == [3333, 3333, 3334]
        assert {one.is_capped for one in found} == {True}  # as many as are looked at
        by_exception = {one.exception: one for one in found}
        for exception, cause in (("KeyError", 0), ("ValueError", 1), ("", 2)):
            group, dead_letters = find_group(store, by_exception[exception].id, JobFilter())
            assert {one.id for one in dead_letters} == set(expected[cause])
            assert group.example_id in expected[cause]
            assert (group.last_at - group.first_at).total_seconds() == 9
        assert by_exception["ValueError"].message == "user <n> of <address> not found in <path>"
        assert by_exception["ValueError"].where == "app/shop.py:send"
