"""Enqueue: what is accepted is stored whole, unchanged and once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo

import pytest

from onward.clock import FakeClock
from onward.driver import Store
from onward.errors import DuplicateJob
from onward.ids import new_id
from onward.inspection import JobFilter
from onward.status import Status
from onward.testing.conformance.steps import SOON, claim, demand, enqueue, read
from onward.testing.factories import make_new_job


class ClocksGoBack(tzinfo):
    """A zone in the night in which summer time ends, without the files that say of real ones when that is."""

    def tzname(self, moment: datetime | None) -> str:
        return "winter" if moment is not None and moment.fold else "summer"

    def utcoffset(self, moment: datetime | None) -> timedelta:
        return timedelta(hours=1 if moment is not None and moment.fold else 2)

    def dst(self, moment: datetime | None) -> timedelta:
        return self.utcoffset(moment) - timedelta(hours=1)


class TestEnqueue:
    """Every field arrives; a request is stored whole or not at all."""

    def test_a_new_job_waits_with_all_that_was_asked_for(self, store: Store, clock: FakeClock) -> None:
        """What the application said at enqueue is all that a handler and a dashboard will ever know."""
        asked = make_new_job(
            "mail",
            {"to": "ada", "text": "grüße ✓"},
            queue="slow",
            priority=-7,
            delay=SOON,
            expires=timedelta(minutes=5),
            max_attempts=9,
            isolated=True,
            key="k",
            concurrency_key="c",
            serial_key="s",
            breaker="b",
            owner="ada",
            metadata='{"correlation_id":"x"}',
        )
        (accepted,) = store.enqueue([asked])
        assert (accepted.id, accepted.is_new, accepted.payload_differs) == (asked.id, True, False)
        job = store.get(asked.id)
        same = ["id", "type", "payload", "payload_hash", "queue", "priority", "max_attempts", "isolated"]
        same += ["concurrency_key", "serial_key", "breaker", "owner", "metadata"]
        assert [getattr(job, name) for name in same] == [getattr(asked, name) for name in same]
        assert job.idempotency_key == "k"
        assert (job.status, job.attempts, job.fence) == (Status.QUEUED, 0, 0)
        assert (job.created_at, job.updated_at, job.scheduled_at) == (clock.now(), clock.now(), clock.now() + SOON)
        assert job.expires_at == job.scheduled_at + timedelta(minutes=5)

    def test_what_was_not_asked_for_is_empty(self, store: Store) -> None:
        """A column that nobody set must not carry an accident."""
        job = read(store, enqueue(store))
        names = ["expires_at", "lease_owner", "lease_until", "blocked_by", "idempotency_key", "cancel_requested_at"]
        names += ["error", "result", "progress", "started_at", "finished_at", "breaker"]
        assert {name: getattr(job, name) for name in names} == dict.fromkeys(names)
        assert (job.owner, job.metadata, job.lost_leases, job.releases, job.snoozes) == ("", "{}", 0, 0, 0)

    def test_at_names_the_moment_and_wins_over_a_delay(self, store: Store) -> None:
        """A moment far ahead is stored to the microsecond."""
        moment = datetime(2031, 5, 6, 7, 8, 9, 123456, tzinfo=UTC)
        assert read(store, enqueue(store, at=moment, delay=SOON)).scheduled_at == moment

    def test_an_hour_that_comes_twice_is_two_hours(self, store: Store, clock: FakeClock) -> None:
        """When the clocks go back, two local times look the same and are an hour apart: what is stored and compared is UTC."""
        moments = [datetime(2026, 10, 25, 2, 30, tzinfo=ClocksGoBack(), fold=fold) for fold in (1, 0)]
        second, first = (enqueue(store, at=moment) for moment in moments)
        assert read(store, second).scheduled_at - read(store, first).scheduled_at == timedelta(hours=1)
        assert read(store, first).scheduled_at.isoformat() == "2026-10-25T00:30:00+00:00"
        clock.advance(read(store, first).scheduled_at - clock.now())
        turn = store.turn(demand=demand(5))
        assert ([taken.id for taken in turn.claims], turn.next_due) == ([first.id], timedelta(hours=1))

    def test_many_jobs_are_answered_in_their_order(self, store: Store) -> None:
        """The caller matches answers with requests by position."""
        asked = [make_new_job(payload=number) for number in range(50)]
        assert [accepted.id for accepted in store.enqueue(asked)] == [job.id for job in asked]
        assert store.count(JobFilter()) == 50

    def test_nothing_at_all_may_be_enqueued(self, store: Store) -> None:
        """An empty list is a list."""
        assert store.enqueue([]) == []
        assert store.enqueue_each([]) == []

    def test_the_payload_comes_back_byte_for_byte(self, store: Store) -> None:
        """A store that normalises JSON breaks the hash, and with it the question whether a payload differs."""
        asked = make_new_job(payload={"b": 1.0, "a": [1e300, -0.0, "\u2028\U0001f600", None, 2**53 + 1], "": {}})
        store.enqueue([asked])
        assert store.get(asked.id).payload == asked.payload

    def test_a_payload_as_long_as_promised_is_stored(self, store: Store) -> None:
        """The limit that a store declares is one that it keeps."""
        asked = make_new_job(payload="x" * (store.capabilities.payload_limit - 2))
        store.enqueue([asked])
        assert store.get(asked.id).payload == asked.payload

    def test_an_id_given_by_the_caller_is_kept(self, store: Store) -> None:
        """Repeating an enqueue after an unknown commit only works when the caller chooses the id."""
        job_id = new_id()
        assert store.enqueue([make_new_job(id=job_id)])[0].id == job_id
        assert store.get(job_id).id == job_id


class TestEnqueueAgain:
    """Repeating a request after an unknown commit is safe."""

    def test_the_same_request_again_is_accepted_and_stored_once(self, store: Store) -> None:
        """After ``OutcomeUnknown`` the caller repeats; the answer must not be a second job, nor an error."""
        asked = make_new_job(payload=1, key="k")
        store.enqueue([asked])
        (again,) = store.enqueue([asked])
        assert (again.id, again.is_new) == (asked.id, False)
        assert store.count(JobFilter()) == 1

    def test_the_same_request_again_is_accepted_also_when_a_duplicate_would_raise(self, store: Store) -> None:
        """A job is not a duplicate of itself."""
        asked = make_new_job(payload=1, key="k", on_duplicate="raise")
        store.enqueue([asked])
        assert store.enqueue([asked])[0].id == asked.id

    def test_repeating_does_not_touch_what_has_happened_since(self, store: Store) -> None:
        """The first try may have been stored, and its job may run already."""
        asked = enqueue(store, payload=1)
        claim(store)
        before = store.get(asked.id)
        store.enqueue([asked])
        assert store.get(asked.id) == before

    @pytest.mark.parametrize("other", [{"payload": 2}, {"payload": 1, "type": "mail"}], ids=["payload", "type"])
    def test_an_id_with_another_content_is_refused(self, store: Store, other: dict[str, object]) -> None:
        """Two different requests under one id are a mistake of the caller; either answer would be wrong for one of them."""
        asked = enqueue(store, payload=1)
        with pytest.raises(DuplicateJob) as refused:
            store.enqueue([make_new_job(**{"id": asked.id, **other})])  # type: ignore[arg-type]
        assert refused.value.job_id == asked.id
        assert store.get(asked.id).payload == "1"


class TestForeignId:
    """An id given by the caller may be somebody else's."""

    def test_another_owners_id_is_refused_and_nothing_is_told_of_its_job(self, store: Store) -> None:
        """The same type and payload are easily guessed; a handle on the other's job must not come of it."""
        theirs = enqueue(store, payload={"to": "x"}, owner="ada")
        asked = make_new_job("work", {"to": "x"}, owner="bob", id=theirs.id)
        with pytest.raises(DuplicateJob) as refused:
            store.enqueue([asked])
        assert "work" not in str(refused.value)


class TestRequests:
    """Several requests share a commit without noticing one another."""

    def test_a_request_is_stored_whole_or_not_at_all(self, store: Store) -> None:
        """Half a request is what the caller can neither use nor repeat."""
        enqueue(store, key="taken")
        request = [make_new_job(payload=1, key="free"), make_new_job(payload=2, key="taken", on_duplicate="raise")]
        with pytest.raises(DuplicateJob):
            store.enqueue(request)
        assert store.count(JobFilter()) == 1
        assert store.enqueue([make_new_job(key="free")])[0].is_new

    def test_a_refused_request_spares_its_neighbours(self, store: Store) -> None:
        """Callers who share a group commit must not see one another's errors."""
        held = enqueue(store, key="taken")
        first, refused, last = make_new_job(payload=1), make_new_job(key="taken", on_duplicate="raise"), make_new_job(payload=3)
        answers = store.enqueue_each([[first], [refused], [last]])
        assert [isinstance(answer, list) for answer in answers] == [True, False, True]
        assert isinstance(answers[1], DuplicateJob)
        assert answers[1].job_id == held.id
        assert store.get(first.id)
        assert store.get(last.id)

    def test_requests_in_one_commit_see_one_another_s_keys(self, store: Store) -> None:
        """Sharing a commit must give the same answer as coming one after the other."""
        answers = store.enqueue_each([[make_new_job(key="k")], [make_new_job(key="k")]])
        assert all(isinstance(answer, list) for answer in answers)
        (first,), (second,) = (answer for answer in answers if isinstance(answer, list))
        assert (first.is_new, second.is_new) == (True, False)
        assert first.id == second.id
