"""Every pair of status and verb, legal or not, walked from the table of arrows."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from onward.clock import FakeClock
from onward.driver import Store
from onward.errors import IllegalTransition
from onward.status import TRANSITIONS, Status, Verb, is_legal
from onward.testing.conformance.steps import OUTCOMES, PAST_LEASE, bring_to, claim, is_settled, settle
from onward.turn import Claim

PAIRS = [(status, verb) for status in Status for verb in Verb]
BY_PERSON = (Verb.CANCEL, Verb.RUN_NOW, Verb.RETRY_BY_HAND)


def person(store: Store, verb: Verb) -> Callable[[str], object]:
    """The store's method for what a person does."""
    return {Verb.CANCEL: store.cancel, Verb.RUN_NOW: store.run_now, Verb.RETRY_BY_HAND: store.retry}[verb]


def attempt(store: Store, clock: FakeClock, taken: Claim, verb: Verb) -> None:
    """Do to a job what the verb says, by every way that leads there, and care for no answer."""
    if verb is Verb.CLAIM:
        claim(store, 10)
    if verb is Verb.LOSE:
        clock.advance(PAST_LEASE)
        store.sweep()
    if verb in OUTCOMES:
        settle(store, taken, OUTCOMES[verb])
    if verb in BY_PERSON and store.get(taken.id).status is not Status.IN_PROGRESS:
        try:
            person(store, verb)(taken.id)
        except IllegalTransition:
            assert not is_legal(store.get(taken.id).status, verb)


@pytest.mark.parametrize(("status", "verb"), PAIRS, ids=lambda value: str(value).replace(" ", "-"))
class TestArrows:
    """Legal arrows lead where the table says; all others change nothing."""

    def test_the_job_goes_where_the_table_says_or_stays_as_it_is(self, store: Store, clock: FakeClock, status: Status, verb: Verb) -> None:
        """Docs, code and every store share one table of arrows; this is where it is true."""
        taken = bring_to(store, status)
        before = store.get(taken.id)
        attempt(store, clock, taken, verb)
        after = store.get(taken.id)
        if is_legal(status, verb):
            assert after.status in TRANSITIONS[status, verb]
            assert after != before or verb is Verb.RUN_NOW
        else:
            assert after == before


@pytest.mark.parametrize("status", list(Status))
@pytest.mark.parametrize("verb", BY_PERSON, ids=lambda value: str(value).replace(" ", "-"))
class TestArrowsOfAPerson:
    """A person who asks for what is not allowed is told why."""

    def test_what_is_not_allowed_is_refused_by_name(self, store: Store, status: Status, verb: Verb) -> None:
        """The error names the status, so that the person need not look it up."""
        taken = bring_to(store, status)
        if is_legal(status, verb):
            person(store, verb)(taken.id)
            return
        with pytest.raises(IllegalTransition, match=status):
            person(store, verb)(taken.id)


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.IN_PROGRESS])
@pytest.mark.parametrize("verb", list(OUTCOMES))
class TestEndingTwice:
    """A claim ends once."""

    def test_a_claim_that_ended_cannot_end_in_another_way(self, store: Store, status: Status, verb: Verb) -> None:
        """Only the ending that is stored may be told again, since its answer may have been lost; the row is not touched by it."""
        taken = bring_to(store, status)
        before = store.get(taken.id)
        same = {
            Status.QUEUED: Verb.RELEASE,
            Status.RETRYING: Verb.RETRY,
            Status.COMPLETED: Verb.COMPLETE,
            Status.DEAD_LETTER: Verb.DEAD_LETTER,
            Status.CANCELLED: Verb.CANCEL,
        }[status]
        assert is_settled(settle(store, taken, OUTCOMES[verb])) == (verb is same)
        assert store.get(taken.id) == before
