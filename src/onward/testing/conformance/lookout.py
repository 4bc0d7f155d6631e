"""The lookout: who works, what the rules of alerts find, and who is told of it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from onward.alert_rules import AlertRules
from onward.alerts import Told
from onward.clock import FakeClock
from onward.driver import Store
from onward.jobs import NewJob
from onward.metrics import Backlog, Metrics
from onward.presence import KnownWorker, Presence
from onward.sight_verbs import Due
from onward.testing.conformance.alerts import opened
from onward.testing.factories import make_new_job

MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)
FIVE = 5 * MINUTE
RULES = AlertRules(depth=10, lasts="5m")


def worker(lease_owner: str = "here-1-a", **fields: object) -> Presence:
    """What a worker says of itself."""
    return replace(Presence(lease_owner=lease_owner, name="here", types=("work",), concurrency=4), **fields)


def look(store: Store, due: int, *types: str) -> Metrics:
    """A look at which so many jobs of these types are due."""
    now = store.clock.now()
    backlog = tuple(Backlog(queue="default", type=one, due=due, oldest_due_at=now) for one in types or ("work",) if due)
    return Metrics(at=now, window=timedelta(hours=1), backlog=backlog)


class TestWorkers:
    """Which workers there are, for people to look at."""

    def test_nobody_is_there_before_somebody_says_so(self, store: Store) -> None:
        """An empty list."""
        assert store.workers() == []

    def test_a_worker_is_there_with_all_that_it_said(self, store: Store, clock: FakeClock) -> None:
        """Since its first word, and until its last."""
        first = clock.now()
        said = worker(queues=("mail", "slow"), types=("a", "b"), name='a "name" it\'s')
        store.announce(said)
        clock.advance(30)
        store.announce(said)
        fields = {name: getattr(said, name) for name in Presence.__struct_fields__}
        assert store.workers() == [KnownWorker(**fields, started_at=first, seen_at=clock.now())]

    def test_what_it_says_anew_counts(self, store: Store, clock: FakeClock) -> None:
        """It may have got to know a type."""
        first = clock.now()
        store.announce(worker())
        clock.advance(30)
        store.announce(worker(types=("more", "work"), concurrency=8))
        (known,) = store.workers()
        assert (known.types, known.concurrency, known.started_at, known.seen_at) == (("more", "work"), 8, first, clock.now())

    def test_one_that_withdraws_is_gone(self, store: Store) -> None:
        """The others stay; a second time changes nothing."""
        for name in ("b", "a"):
            store.announce(worker(name))
        store.withdraw("b")
        store.withdraw("b")
        assert [one.lease_owner for one in store.workers()] == ["a"]

    def test_one_whose_process_is_known_to_be_dead_is_gone(self, store: Store) -> None:
        """Whoever takes back its jobs says so."""
        store.announce(worker())
        store.recover("here-1-a", ())
        assert store.workers() == []

    def test_one_that_died_is_shown_for_a_day(self, store: Store, clock: FakeClock) -> None:
        """Then the next one that comes forgets it."""
        store.announce(worker("dead"))
        clock.advance(DAY.total_seconds())
        store.announce(worker("second"))
        assert [one.lease_owner for one in store.workers()] == ["dead", "second"]
        clock.advance(1)
        store.announce(worker("third"))
        assert [one.lease_owner for one in store.workers()] == ["second", "third"]

    def test_one_that_was_seen_by_a_clock_that_went_back_is_forgotten_too(self, store: Store, clock: FakeClock) -> None:
        """Not only when its day comes again."""
        store.announce(worker("dead"))
        clock.advance(-2 * DAY.total_seconds())
        store.announce(worker("second"))
        assert [one.lease_owner for one in store.workers()] == ["second"]


class TestLookOut:
    """What there is to do is found out by one cheap look, which each worker takes each half minute."""

    def test_a_store_that_was_never_looked_at_is_to_be_begun(self, store: Store) -> None:
        """And has nothing to tell."""
        assert store.look_out(FIVE) == Due(is_time_to_look=True, has_untold=False)
        store.take_look(FIVE)
        assert store.look_out(FIVE) == Due(is_time_to_look=False, has_untold=False)

    def test_it_is_time_when_a_look_would_be_taken(self, store: Store, clock: FakeClock) -> None:
        """Neither earlier nor later, and after a step back of the clock at once."""
        store.take_look(FIVE)
        for step, is_time in ((299, False), (1, True), (-301, True)):
            clock.advance(step)
            assert store.look_out(FIVE).is_time_to_look == is_time
        store.take_look(FIVE)
        assert not store.look_out(FIVE).is_time_to_look

    def test_an_opening_and_an_end_are_to_be_told(self, store: Store) -> None:
        """Until they are."""
        opened(store, "s3")
        assert store.look_out(FIVE).has_untold
        store.tell_alerts()
        assert not store.look_out(FIVE).has_untold
        store.reset_breaker("s3")
        assert store.look_out(FIVE).has_untold
        store.tell_alerts()
        assert not store.look_out(FIVE).has_untold


class TestTakeLook:
    """One worker of all looks, each five minutes."""

    def test_the_first_look_comes_five_minutes_after_the_first_call(self, store: Store, clock: FakeClock) -> None:
        """So that a store which was just made is left alone."""
        assert not store.take_look(FIVE)
        clock.advance(FIVE.total_seconds() - 1)
        assert not store.take_look(FIVE)
        clock.advance(1)
        assert store.take_look(FIVE)

    def test_one_of_many_gets_it(self, store: Store, clock: FakeClock) -> None:
        """Until it is time again."""
        store.take_look(FIVE)
        for _ in range(3):
            clock.advance(FIVE.total_seconds())
            assert [store.take_look(FIVE) for _ in range(3)] == [True, False, False]

    def test_a_clock_that_went_back_does_not_end_the_looks(self, store: Store, clock: FakeClock) -> None:
        """The last look seems to lie ahead then."""
        store.take_look(FIVE)
        clock.advance(-3600)
        assert store.take_look(FIVE)
        assert not store.take_look(FIVE)


class TestJudge:
    """An alert opens once its condition has lasted, and is resolved once it has been over for as long."""

    def test_it_opens_once_and_is_resolved_once(self, store: Store, clock: FakeClock) -> None:
        """However often it is looked at meanwhile."""
        seen = []
        for due in (11, 11, 12, 30, 9, 8, 8, 8, 0):
            verdict = store.judge(RULES, look(store, due))
            seen.append((len(verdict.opened), len(verdict.resolved)))
            clock.advance(FIVE.total_seconds())
        assert seen == [(0, 0), (1, 0), (0, 0), (0, 0), (0, 0), (0, 0), (0, 1), (0, 0), (0, 0)]
        (alert,) = store.alerts()
        assert (alert.category, alert.cause, alert.severity) == ("depth", "depth:default/work", "warning")
        assert alert.resolved_at is not None

    def test_what_did_not_last_is_forgotten(self, store: Store, clock: FakeClock) -> None:
        """Above at every second look is never for five minutes."""
        for due in (11, 10) * 5:
            store.judge(RULES, look(store, due))
            clock.advance(FIVE.total_seconds())
        assert store.alerts() == []

    def test_each_type_has_an_alert_of_its_own(self, store: Store, clock: FakeClock) -> None:
        """One that is resolved leaves the other open."""
        for _ in range(2):
            store.judge(RULES, look(store, 11, "work", "mail"))
            clock.advance(FIVE.total_seconds())
        assert {one.cause for one in store.alerts(is_open=True)} == {"depth:default/work", "depth:default/mail"}
        for _ in range(2):
            store.judge(RULES, look(store, 11, "mail"))
            clock.advance(FIVE.total_seconds())
        assert [one.cause for one in store.alerts(is_open=True)] == ["depth:default/mail"]

    def test_what_is_known_outlives_every_process(self, store: Store, clock: FakeClock, request: pytest.FixtureRequest) -> None:
        """Another process looks each time: it opens once and is over once all the same."""
        if not store.capabilities.survives_process:
            pytest.skip("here all ends with the process")
        seen = []
        for due in (11, 11, 11, 0, 0, 0):
            other: Store = request.getfixturevalue("reopen")()
            verdict = other.judge(RULES, look(store, due))
            other.close()
            seen.append((len(verdict.opened), len(verdict.resolved)))
            clock.advance(FIVE.total_seconds())
        assert seen == [(0, 0), (1, 0), (0, 0), (0, 0), (0, 1), (0, 0)]

    def test_a_breaker_is_left_alone(self, store: Store) -> None:
        """Its alert is no rule's."""
        (alert,) = opened(store, "s3")
        assert store.judge(RULES, look(store, 0)).resolved == ()
        assert store.alert(alert.id).resolved_at is None


class TestTellByJob:
    """Who is to be told by a job is told of by one: it is accepted in the commit that says so."""

    def test_the_jobs_are_accepted_with_what_is_told(self, store: Store) -> None:
        """Once, as the telling."""
        (alert,) = opened(store, "s3")
        made: list[NewJob] = []

        def jobs_for(told: Told) -> list[NewJob]:
            made.extend(make_new_job("tell", None) for _ in told.opened)
            return made

        assert [one.id for one in store.tell_alerts(jobs_for).opened] == [alert.id]
        assert store.get(made[0].id).type == "tell"
        assert store.tell_alerts(jobs_for) == Told()
        assert len(made) == 1

    def test_where_they_cannot_be_made_nobody_has_been_told(self, store: Store) -> None:
        """The next call tells of them."""
        (alert,) = opened(store, "s3")

        def fail(told: Told) -> list[NewJob]:
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            store.tell_alerts(fail)
        assert [one.id for one in store.tell_alerts().opened] == [alert.id]
