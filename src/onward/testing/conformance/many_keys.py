"""Many keys in one request: the answers are those that each key would get by itself."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from onward.clock import FakeClock
from onward.driver import Store
from onward.errors import DuplicateJob, KeyReused
from onward.inspection import JobFilter, Retention
from onward.jobs import Accepted, NewJob
from onward.outcome import Completed
from onward.testing.conformance.steps import NO_DELAY, claim_one, enqueue, settle
from onward.testing.factories import make_new_job
from onward.turn import Settlement

MANY = 20
"""So many that a store may take them together."""
HOUR = timedelta(hours=1)


def many(**fields: Any) -> list[NewJob]:
    """Jobs with the keys k0 to k19."""
    return [make_new_job(payload=number, **({"key": f"k{number}"} | fields)) for number in range(MANY)]


class TestManyKeys:
    """One request with more keys than are worth asking for one by one."""

    def test_what_is_held_is_answered_with_its_holder(self, store: Store) -> None:
        """The others are new, and nobody waits for anybody."""
        same = enqueue(store, payload=3, key="k3")
        other = enqueue(store, payload="else", key="k7", scope=HOUR)
        jobs = many()
        expected = [Accepted(job.id) for job in jobs]
        expected[3] = Accepted(same.id, is_new=False)
        expected[7] = Accepted(other.id, is_new=False, payload_differs=True)
        assert store.enqueue(jobs) == expected
        assert store.count(JobFilter()) == MANY

    def test_a_key_of_another_owner_or_type_is_not_held(self, store: Store) -> None:
        """Nor is another key of the same."""
        for fields in ({"owner": "ada"}, {"type": "mail"}):
            store.enqueue(many(**fields))
        enqueue(store, key="k")
        assert all(one.is_new for one in store.enqueue(many()))
        assert not any(one.is_new for one in store.enqueue(many(owner="ada")))

    def test_the_first_refusal_undoes_all_of_it(self, store: Store) -> None:
        """No job is stored, and no key stays taken."""
        enqueue(store, payload="else", key="k2")
        last = enqueue(store, payload="else", key="k9")
        jobs = many()
        jobs[9] = replace(jobs[9], on_duplicate="raise")
        jobs[12] = replace(jobs[12], on_duplicate="same")
        with pytest.raises(DuplicateJob) as refused:
            store.enqueue(jobs)
        assert refused.value.job_id == last.id
        assert store.count(JobFilter()) == 2
        assert [one.is_new for one in store.enqueue(many())] == [number not in (2, 9) for number in range(MANY)]

    def test_of_several_refusals_the_first_in_the_order_asked_is_told(self, store: Store) -> None:
        """As with a few."""
        held = {key: enqueue(store, payload="else", key=key) for key in ("k1", "k5", "k19")}
        for order, first in ((slice(None), "k1"), (slice(None, None, -1), "k19")):
            with pytest.raises(KeyReused) as refused:
                store.enqueue(many(on_duplicate="same")[order])
            assert refused.value.job_id == held[first].id

    def test_repeats_among_them_are_one_job(self, store: Store) -> None:
        """The first that asks for a key gets it."""
        jobs = [*many(), make_new_job(payload="again", key="k4"), make_new_job(payload=0, key="k0")]
        accepted = store.enqueue(jobs)
        assert [one.is_new for one in accepted] == [True] * MANY + [False, False]
        assert accepted[-2:] == [Accepted(jobs[4].id, is_new=False, payload_differs=True), Accepted(jobs[0].id, is_new=False)]
        assert store.count(JobFilter()) == MANY

    def test_a_thousand_with_repeats_and_held_ones_among_them_are_answered_in_order(self, store: Store) -> None:
        """As a file of orders has them: seven hundred keys, of which three hundred come twice, and fifty that wait already."""
        held = {f"k{number}": enqueue(store, key=f"k{number}").id for number in range(0, 700, 14)}
        keys = [f"k{number}" for number in (*range(700), *range(300))]
        jobs = [make_new_job(payload=number, key=key) for number, key in enumerate(keys)]
        first = {key: job.id for job, key in reversed(list(zip(jobs, keys, strict=True)))}
        accepted = store.enqueue(jobs)
        assert [one.id for one in accepted] == [held.get(key) or first[key] for key in keys]
        assert [one.is_new for one in accepted] == [number < 700 and key not in held for number, key in enumerate(keys)]
        assert (len(held), store.count(JobFilter())) == (50, 700)

    @pytest.mark.parametrize("scope", ["active", HOUR, "forever"])
    def test_the_same_request_again_is_accepted_and_stores_nothing(self, store: Store, scope: Any) -> None:
        """Its rows may be gone by then, and their keys still be held."""
        jobs = many(scope=scope, on_duplicate="raise")
        store.enqueue(jobs)
        assert store.enqueue(jobs) == [Accepted(job.id, is_new=False) for job in jobs]
        if scope != "active":
            for _ in jobs:
                settle(store, claim_one(store))
            store.prune(Retention(completed=NO_DELAY))
            assert store.enqueue(jobs) == [Accepted(job.id, is_new=False) for job in jobs]
            assert store.count(JobFilter()) == 0

    def test_windows_that_are_over_are_taken_over(self, store: Store, clock: FakeClock) -> None:
        """All of them, or some among keys that are free; to the microsecond, and with the window that is asked for now."""
        store.enqueue([job for number, job in enumerate(many(scope=HOUR)) if number % 3 == 0])
        clock.advance(HOUR - timedelta(microseconds=1))
        held = [number % 3 == 0 for number in range(MANY)]
        assert [not one.is_new for one in store.enqueue(many(scope=HOUR))] == held
        clock.advance(timedelta(microseconds=1))
        again = many(scope=2 * HOUR)
        assert [one.is_new for one in store.enqueue(again)] == held
        clock.advance(HOUR * 1.5)
        assert [one.is_new for one in store.enqueue(many())] == [not one for one in held]

    def test_children_with_held_keys_do_not_hold_up_a_completion(self, store: Store) -> None:
        """Whatever they ask for: the holder stands for each; the others are stored."""
        enqueue(store, "mail", key="k6")
        enqueue(store, "mail", key="k8")
        enqueue(store)
        (taken,) = (claim_one(store, types=("work",)),)
        children = many(type="mail")
        children[6] = replace(children[6], on_duplicate="raise")
        children[8] = replace(children[8], on_duplicate="same")
        turn = store.turn([Settlement(claim=taken, outcome=Completed(), children=tuple(children))])
        assert len(turn.settled) == 1
        assert store.count(JobFilter(types=("mail",))) == MANY
        assert {job.id for job in store.find(JobFilter(types=("mail",)), limit=100)} >= {
            child.id for number, child in enumerate(children) if number not in (6, 8)
        }
