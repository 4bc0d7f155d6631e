from __future__ import annotations

from datetime import timedelta

import pytest

from onward.admission import Constraint
from onward.definition import define_job
from onward.errors import InvalidDefinition, UnknownJobType
from onward.limit import Limit
from onward.registry import Registry


def send(payload: str) -> None: ...


def tick() -> None: ...


def test_a_registry_knows_names_and_aliases() -> None:
    """A renamed job still finds its old rows."""
    first, second = define_job("new", send, aliases=("old",), lease="2m"), define_job("b", tick)
    registry = Registry([first])
    registry.add(second)
    registry.add(first)
    assert registry["old"] is registry["new"] is first
    assert list(registry) == [first, second]
    assert len(registry) == 2
    assert "old" in registry
    assert "c" not in registry
    assert registry.leases() == {"new": timedelta(minutes=2), "old": timedelta(minutes=2), "b": timedelta(minutes=1)}
    with pytest.raises(UnknownJobType, match="no job is called 'c'; known are b, new, old"):
        registry["c"]


def test_two_jobs_of_one_name_are_refused() -> None:
    """The second would run the first one's rows."""
    registry = Registry([define_job("a", send, aliases=("old",))])
    for taken in (define_job("a", tick), define_job("old", tick), define_job("c", tick, aliases=("a",))):
        with pytest.raises(InvalidDefinition, match="two jobs are called"):
            registry.add(taken)
    with pytest.raises(InvalidDefinition, match="is not a job"):
        registry.add(send)  # type: ignore[arg-type]


def test_a_refused_definition_leaves_nothing_of_itself() -> None:
    """Half of it would answer to the name that was free."""
    registry = Registry([define_job("a", send)])
    with pytest.raises(InvalidDefinition):
        registry.add(define_job("free", tick, aliases=("a",)))
    assert "free" not in registry
    assert len(registry) == 1


def test_a_registry_says_which_names_wait_for_others_and_how() -> None:
    """A worker tells the store, which keeps no copy of the code; most names have nothing to say, and a claim carries none of them."""
    limited = define_job("new", send, aliases=("old",), limit=Limit(concurrency=2))
    strict = define_job("strict", send, serial_key="s", after_dead_letter="stop")
    registry = Registry([limited, strict, define_job("plain", tick), define_job("in-line", send, serial_key="s")])
    assert registry.constraints() == {
        "new": Constraint(limit=Limit(concurrency=2)),
        "old": Constraint(limit=Limit(concurrency=2)),
        "strict": Constraint(stops_at_dead_letter=True),
    }
