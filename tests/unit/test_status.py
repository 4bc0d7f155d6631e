from __future__ import annotations

import pytest

from onward.status import CLAIMABLE, FINAL, LIVE, NOTES, TRANSITIONS, Status, Verb, is_legal

BY_A_PERSON = {Verb.RETRY_BY_HAND, Verb.RUN_NOW, Verb.CANCEL}


def test_every_status_can_be_reached_from_queued() -> None:
    """A status that nothing leads to is a word without a job."""
    reached = {Status.QUEUED}
    while more := {end for (start, _), ends in TRANSITIONS.items() if start in reached for end in ends} - reached:
        reached |= more
    assert reached == set(Status)


def test_no_worker_touches_a_final_job() -> None:
    """Final means that only a person may start the job again."""
    assert {verb for status, verb in TRANSITIONS if status.is_final} <= BY_A_PERSON
    assert {status for status in Status if status.is_final} == {Status.COMPLETED, Status.DEAD_LETTER, Status.CANCELLED}


def test_a_completed_job_has_no_arrow_at_all() -> None:
    """To run it again, a copy is enqueued: what a completed job promised was kept."""
    assert [verb for status, verb in TRANSITIONS if status is Status.COMPLETED] == []


def test_every_live_status_can_end() -> None:
    """A status without a way to a final one would hold its key for ever."""
    for start in LIVE:
        reached = {start}
        while more := {end for (before, _), ends in TRANSITIONS.items() if before in reached for end in ends} - reached:
            reached |= more
        assert reached >= FINAL


def test_the_groups_split_the_statuses() -> None:
    """Each status is live or final, and a claim is the only way into in_progress."""
    assert set(Status) == LIVE | FINAL
    assert not LIVE & FINAL
    assert {Status.QUEUED, Status.RETRYING} == CLAIMABLE
    assert {status for status in Status if status.is_claimable} == CLAIMABLE
    assert {status for status in Status if status.is_live} == LIVE
    assert {verb for (_, verb), ends in TRANSITIONS.items() if Status.IN_PROGRESS in ends} == {Verb.CLAIM}


def test_every_verb_is_used_and_every_arrow_has_its_note() -> None:
    """The drawn page prints the notes; an arrow without one would be a riddle."""
    assert {verb for _, verb in TRANSITIONS} == set(Verb)
    assert set(NOTES) == set(TRANSITIONS)
    assert all(NOTES.values())


@pytest.mark.parametrize("status", Status)
@pytest.mark.parametrize("verb", Verb)
def test_legality_is_what_the_table_says(status: Status, verb: Verb) -> None:
    """One table, asked by all."""
    assert is_legal(status, verb) == ((status, verb) in TRANSITIONS)


def test_an_arrow_with_two_ends_is_only_the_lost_lease() -> None:
    """Everything else is decided before the store is told."""
    assert [key for key, ends in TRANSITIONS.items() if len(ends) > 1] == [(Status.IN_PROGRESS, Verb.LOSE)]
