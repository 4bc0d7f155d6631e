"""Text that is SQL in some database, in every place where text goes into a statement: it is found, stored and compared as text."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import pytest

from onward.clock import FakeClock
from onward.driver import Store
from onward.drivers import connect
from onward.errors import InvalidSetting, OnwardError
from onward.inspection import JobFilter
from onward.jobs import Job
from onward.outcome import DeadLettered
from onward.testing.factories import make_new_job
from onward.turn import Demand, Settlement

CORPUS = [
    "' OR '1'='1",
    "' OR 1=1 --",
    "'; DROP TABLE onward_jobs; --",
    '"; DELETE FROM "onward_kept".jobs; --',
    "'; UPDATE onward_jobs SET owner = ''; --",
    "' UNION SELECT * FROM onward_keys --",
    "x') OR (1=1",
    "' || (SELECT payload FROM onward_jobs LIMIT 1) || '",
    "'||pg_sleep(30)||'",
    "$$; SELECT pg_sleep(30); $$",
    "\\'; SELECT 1; --",
    "/* */ '' /*",
    "%s %(id)s %% :id ?1 $1 @id {prefix} {columns}",
    "%' --",
    '["a", "b"]',
    '{"a": 1}',
    "$.payload",
    "NULL",
    "null",
    "0x27",
    "alice\u02bc OR 1=1",
    "%",
    "_",
    "*",
]
"""Quotes, comments, unions, stacked statements, waits, placeholders of every library, JSON where a list is passed as JSON, wild cards."""


def narrowed(**fields: Any) -> JobFilter:
    return JobFilter(**fields)


def verbs(store: Store, victim: Job, text: str) -> list[Callable[[], Any]]:
    """Everything that takes text, with the hostile one in each place."""
    return [
        lambda: store.get(text),
        lambda: store.get(victim.id, owner=text),
        *(lambda field=field: store.find(narrowed(**{field: (text,)})) for field in ("types", "queues", "ids")),
        *(lambda field=field: store.find(narrowed(**{field: text})) for field in ("key", "owner")),
        *(lambda field=field: store.count(narrowed(**{field: text})) or [] for field in ("key", "owner")),
        lambda: store.find_active([text], "k", owner="alice"),
        lambda: store.find_active([victim.type], text, owner="alice"),
        lambda: store.find_active([victim.type], "k", owner=text),
        lambda: store.history(text),
        *(lambda verb=verb: getattr(store, verb)(text) for verb in ("cancel", "retry", "run_now", "delete")),
        *(lambda verb=verb: getattr(store, verb)(victim.id, owner=text) for verb in ("cancel", "retry", "run_now", "delete")),
        lambda: store.held(text),
        lambda: list(store.cancel_requested(text)),
        lambda: store.turn(demand=Demand(lease_owner=text, slots=9, types={text: timedelta(seconds=60)}, queues=(text,))).claims,
        lambda: store.sweep([text]).requeued,
    ]


@pytest.mark.parametrize("text", CORPUS)
def test_no_question_finds_or_changes_what_it_did_not_name(store: Store, text: str) -> None:
    """Each answer is empty or a refusal, and the job of somebody else is as it was."""
    new = make_new_job(payload="precious", key="k", owner="alice")
    store.enqueue([new])
    victim = store.get(new.id)
    for verb in verbs(store, victim, text):
        try:
            answer = verb()
        except OnwardError:
            continue
        assert not answer, answer
    assert store.get(victim.id) == victim
    assert store.count(JobFilter()) == 1


@pytest.mark.parametrize("text", CORPUS)
def test_what_is_stored_comes_back_as_it_was(store: Store, text: str) -> None:
    """In each column, by our own connection and by one that is borrowed, and as the reason of an end."""
    fields: dict[str, Any] = {
        "type": text,
        "queue": text,
        "key": text,
        "owner": text,
        "concurrency_key": text,
        "serial_key": text,
        "breaker": text,
    }
    first, second = (make_new_job(payload={text: text}, **(fields | {"key": key, "breaker": None})) for key in (text, f"{text}2"))
    store.enqueue([first])
    with store.transaction() as connection:
        store.within(connection).enqueue([second])
    for new in (first, second):
        job = store.get(new.id, owner=text)
        assert (job.type, job.queue, job.idempotency_key, job.owner, job.payload) == (text, text, new.key, text, new.payload)
        assert store.find_active([text], str(new.key), owner=text) == job
    demand = Demand(lease_owner=text, slots=9, types={text: timedelta(seconds=60)}, queues=(text,))
    claims = store.turn(demand=demand).claims
    assert [job.lease_owner for job in store.held(text)] == [text] * len(claims)
    store.turn([Settlement(claim=claim, outcome=DeadLettered(text), progress=f'"{len(text)}"') for claim in claims])
    assert {store.get(claim.id).error for claim in claims} <= {text}
    assert store.count(JobFilter()) == 2


@pytest.mark.parametrize(
    "text", [*(text for text in CORPUS if not text.isidentifier()), "a b", "a-b", "ä", "a" * 41, "", "1a", 'a"b', "a.b"]
)
@pytest.mark.parametrize("place", ["sqlite:///{folder}/a.db?prefix={text}", "postgresql://postgres@127.0.0.1:1/a?schema={text}"])
def test_names_of_schemas_and_tables_are_letters_and_digits(tmp_path: Any, place: str, text: str) -> None:
    """They stand in statements as they are, so nothing else may be in them."""
    with pytest.raises(InvalidSetting):
        connect(place.format(folder=tmp_path, text=quote(text, safe="")), clock=FakeClock())
    assert list(tmp_path.iterdir()) == []


def test_a_question_is_one_of_six(store: Store) -> None:
    """Its name chooses a statement."""
    for text in CORPUS:
        with pytest.raises((OnwardError, KeyError)):
            store.answer(text)  # type: ignore[arg-type]
