"""One subset of JSON for every store: the same values are accepted, the same refused with the same words, and the same bytes come back."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onward.app import Onward
from onward.definition import define_job
from onward.driver import Store
from onward.errors import OnwardError
from onward.json_text import DEEPEST, MOST_DIGITS
from onward.payload import PAYLOAD_LIMIT

ANY = define_job("any", lambda payload: None, payload=Any)

odd_text = st.text(alphabet=st.one_of(st.characters(), st.sampled_from("\0\ud800\udfff\u2028\x1b\ufeff\U0010ffff\\\"'%{}")), max_size=8)
numbers = st.one_of(
    st.integers(),
    st.floats(),
    st.sampled_from(
        [10 ** (MOST_DIGITS - 1), 10**MOST_DIGITS, -(10**MOST_DIGITS), 2**63, 2**64, 10**400, math.nan, math.inf, 1e308, 5e-324, -0.0]
    ),
)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, odd_text),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(odd_text, inner, max_size=4)),
    max_leaves=12,
)


def nested(depth: int, leaf: Any = 0) -> Any:
    for level in range(depth):
        leaf = [leaf] if level % 2 else {"a": leaf}
    return leaf


@pytest.fixture
def applications(three_stores: dict[str, Store]) -> dict[str, Onward]:
    return {name: Onward(store=store, jobs=[ANY]) for name, store in three_stores.items()}


def answer(app: Onward, payload: Any, **options: Any) -> tuple[Any, ...]:
    """What an enqueue gives, and what is stored then; or what it is refused with."""
    try:
        job = app.enqueue(ANY, payload, **options).refresh()
    except OnwardError as error:
        return type(error), str(error)
    return job.payload, job.payload_hash, job.metadata, job.owner, job.idempotency_key, repr(ANY.codec.decode(job.payload))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(payload=values)
def test_every_store_accepts_and_keeps_the_same(applications: dict[str, Onward], payload: Any) -> None:
    """Where two parsers differ, one of them can be deceived."""
    answers = {name: answer(app, payload) for name, app in applications.items()}
    assert answers["sqlite"] == answers["memory"]
    assert answers["postgres"] == answers["memory"]


EDGES: dict[str, tuple[Any, bool]] = {
    "64 levels": (nested(DEEPEST), True),
    "65 levels": (nested(DEEPEST + 1), False),
    "5,000 levels": (nested(5_000), False),
    "300 digits": (10**MOST_DIGITS - 1, True),
    "less than nothing, 300 digits": (1 - 10**MOST_DIGITS, True),
    "301 digits": (10**MOST_DIGITS, False),
    "5,001 digits": (10**5_000, False),
    "not a number": (math.nan, False),
    "infinity": ([1, -math.inf], False),
    "NUL in a text": ({"a": "b\0"}, False),
    "NUL in a key": ({"a\0": "b"}, False),
    "half a character": (["\ud83d"], False),
    "a whole one": ("\U0001f600", True),
    "256 KiB": ("x" * (PAYLOAD_LIMIT - 2), True),
    "a byte more": ("x" * (PAYLOAD_LIMIT - 1), False),
}


@pytest.mark.parametrize("edge", EDGES)
def test_the_edges_of_the_subset_are_the_same_everywhere(applications: dict[str, Onward], edge: str) -> None:
    """At a limit, one too many is too many on each."""
    payload, is_accepted = EDGES[edge]
    answers = {name: answer(app, payload) for name, app in applications.items()}
    assert len(set(answers.values())) == 1
    assert isinstance(answers["memory"][0], str) is is_accepted


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(owner=odd_text, key=odd_text, value=values)
def test_owners_keys_and_metadata_are_judged_alike(applications: dict[str, Onward], owner: str, key: str, value: Any) -> None:
    """What is stored beside the payload has the same rules."""
    answers = {
        name: [answer(app, 1, owner=owner), answer(app, 1, key=key, on_duplicate="same")[:2], answer(app, 1, metadata={"a": value})]
        for name, app in applications.items()
    }
    assert answers["sqlite"] == answers["memory"]
    assert answers["postgres"] == answers["memory"]


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(job_id=odd_text, owner=odd_text)
def test_a_question_with_odd_text_has_the_same_answer_everywhere(three_stores: dict[str, Store], job_id: str, owner: str) -> None:
    """Ids and owners come from URLs and shells."""

    def ask(store: Store) -> str:
        try:
            return repr(store.get(job_id, owner=owner))
        except OnwardError as error:
            return f"{type(error).__name__}: {error}"

    assert len({ask(store) for store in three_stores.values()}) == 1
