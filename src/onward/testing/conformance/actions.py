"""The record of who did what to how many: it says what was done, when that is done, whoever does it and however it ends."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from onward.actions import Action, NewAction, new_action
from onward.clock import FakeClock
from onward.driver import Store
from onward.inspection import BulkVerb, JobFilter, Retention
from onward.status import Status
from onward.testing.conformance.steps import claim, enqueue, read

DAY = timedelta(days=1)
ALL_QUEUED = JobFilter(statuses=(Status.QUEUED,))


def begun(store: Store, verb: str = "cancel", *, actor: str = "ada", matched: int = 3) -> NewAction:
    """Begin the record of one action on everything that is queued."""
    action = new_action(verb, ALL_QUEUED, actor=actor, matched=matched)
    store.begin_action(action)
    return action


def counts(store: Store) -> list[tuple[str, int, int]]:
    """What was done and refused, newest first."""
    return [(one.verb, one.done, one.refused) for one in store.actions()]


class TestActions:
    """Of verbs for many jobs."""

    def test_one_that_begins_has_done_nothing(self, store: Store, clock: FakeClock) -> None:
        """It is there before the first job is touched, so that whoever is killed in the middle has left it."""
        action = begun(store)
        (found,) = store.actions()
        assert found == Action(id=action.id, actor="ada", verb="cancel", filter='{"statuses": ["queued"]}', matched=3, began_at=clock.now())
        assert (found.done, found.refused, found.was_stopped, found.finished_at) == (0, 0, False, None)

    def test_it_counts_each_portion(self, store: Store) -> None:
        """Of several that go on at once each its own."""
        jobs = [enqueue(store) for _ in range(5)]
        one, other = begun(store), begun(store, "delete")
        store.act("cancel", [job.id for job in jobs[:2]], action=one.id)
        store.act("cancel", [job.id for job in jobs[1:3]], action=one.id)
        store.act("delete", [job.id for job in jobs[3:]], action=other.id)
        assert counts(store) == [("delete", 2, 0), ("cancel", 3, 1)]

    @pytest.mark.parametrize("verb", ["cancel", "retry", "run_now", "delete"])
    def test_every_verb_is_counted(self, store: Store, verb: BulkVerb) -> None:
        """Two that have another status by now, and then one of them."""
        jobs = [enqueue(store) for _ in range(2)]
        if verb == "retry":
            store.act("cancel", [job.id for job in jobs])
        action = begun(store, verb)
        assert len(store.act(verb, [job.id for job in jobs], (Status.COMPLETED,), action=action.id).refused) == 2
        assert store.act(verb, [jobs[0].id], action=action.id).done == (jobs[0].id,)
        assert counts(store) == [(verb, 1, 2)]

    def test_its_end_is_written_and_how_it_came(self, store: Store, clock: FakeClock) -> None:
        """The moment is that of the end."""
        whole, stopped, killed = (begun(store) for _ in range(3))
        clock.advance(60)
        store.end_action(whole.id)
        store.end_action(stopped.id, was_stopped=True)
        found = {one.id: (one.was_stopped, one.finished_at) for one in store.actions()}
        assert found == {whole.id: (False, clock.now()), stopped.id: (True, clock.now()), killed.id: (False, None)}

    def test_a_verb_without_a_record_leaves_none(self, store: Store) -> None:
        """As a person's for one job does."""
        job = enqueue(store)
        store.act("cancel", [job.id])
        store.retry(job.id)
        assert store.actions() == []

    def test_a_record_that_is_gone_stops_nothing(self, store: Store) -> None:
        """Its retention may be short, or somebody has deleted it."""
        job = enqueue(store)
        action = new_action("cancel", ALL_QUEUED, actor="")
        assert store.act("cancel", [job.id], action=action.id).done == (job.id,)
        store.end_action(action.id)
        assert store.actions() == []

    def test_they_are_read_in_pages_newest_first(self, store: Store) -> None:
        """A page begins behind the last id of the one before."""
        ids = [begun(store).id for _ in range(5)][::-1]
        assert [one.id for one in store.actions()] == ids
        first = store.actions(limit=2)
        assert [one.id for one in first] == ids[:2]
        assert [one.id for one in store.actions(limit=9, before=first[-1].id)] == ids[2:]

    def test_an_actor_may_be_nobody_or_anybody(self, store: Store) -> None:
        """What a line can hold comes back as it was given."""
        for actor in ("", "Zoë O'Neill; DROP TABLE jobs --", "日本 100% {now} :id \\"):
            begun(store, actor=actor)
            assert store.actions(limit=1)[0].actor == actor

    def test_a_record_outlives_the_process(self, store: Store, request: pytest.FixtureRequest) -> None:
        """Else it would be of no use."""
        if not store.capabilities.survives_process:
            pytest.skip("the store ends with its process")
        action = begun(store)
        store.act("cancel", [enqueue(store).id], action=action.id)
        other: Store = request.getfixturevalue("reopen")()
        assert [(one.id, one.done) for one in other.actions()] == [(action.id, 1)]

    def test_it_is_kept_for_its_retention_and_no_longer(self, store: Store, clock: FakeClock) -> None:
        """It counts from the beginning, since not every one has an end."""
        begun(store)
        clock.advance(DAY)
        young = begun(store)
        clock.advance(DAY - timedelta(microseconds=1))
        for retention, left in ((Retention(actions=None), 2), (Retention(actions=2 * DAY), 2)):
            store.prune(retention)
            assert len(store.actions()) == left
        clock.advance(timedelta(microseconds=1))
        store.prune(Retention(actions=2 * DAY))
        assert [one.id for one in store.actions()] == [young.id]

    def test_only_so_many_are_pruned_at_once(self, store: Store, clock: FakeClock) -> None:
        """The oldest first; as with all that is pruned, others write in between."""
        ids = []
        for _ in range(5):
            ids.append(begun(store).id)
            clock.advance(1)
        clock.advance(DAY)
        left = []
        for _ in range(3):
            store.prune(Retention(actions=DAY), limit=2)
            left.append([one.id for one in store.actions()])
        assert left == [ids[:1:-1], ids[:3:-1], []]


class TestActionsOnQueues:
    """Of pauses and resumes: one commit is the deed and its record."""

    def test_a_pause_and_a_resume_leave_a_record(self, store: Store, clock: FakeClock) -> None:
        """Who, which queue, and whether it changed anything."""
        store.pause("mail", actor="ada")
        began = clock.now()
        clock.advance(60)
        store.pause("mail", actor="bob")
        store.resume("mail", actor="ada")
        store.resume("mail")
        found = [(one.verb, one.actor, json.loads(one.filter), one.matched, one.done) for one in store.actions()]
        where = {"queues": ["mail"]}
        assert found == [
            ("resume", "", where, 1, 0),
            ("resume", "ada", where, 1, 1),
            ("pause", "bob", where, 1, 0),
            ("pause", "ada", where, 1, 1),
        ]
        assert [(one.began_at, one.finished_at, one.was_stopped, one.refused) for one in store.actions()] == [
            *[(clock.now(), clock.now(), False, 0)] * 3,
            (began, began, False, 0),
        ]

    def test_a_record_of_a_queue_changes_no_job(self, store: Store) -> None:
        """Nor does it keep one from being claimed."""
        job = enqueue(store, queue="mail")
        before = read(store, job)
        store.pause("mail", actor="ada")
        store.resume("mail", actor="ada")
        assert read(store, job) == before
        assert [one.id for one in claim(store)] == [job.id]
