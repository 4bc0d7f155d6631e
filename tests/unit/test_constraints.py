"""What a definition says of other jobs that its own wait for: which keys its jobs have, and what cannot be said."""

from __future__ import annotations

from typing import Any

import pytest

from onward.admission import Constraint
from onward.breaker import Breaker
from onward.constraints import Constraints
from onward.errors import InvalidDefinition
from onward.limit import Limit

TWO = Limit(concurrency=2)
NOTHING_SHARED = {"breaker": None, "refuses_open_breaker": False, "concurrency_key": None, "serial_key": None}


def test_a_job_without_rules_shares_nothing() -> None:
    """It takes the short way through every claim."""
    plain = Constraints[str]("send")
    assert plain.keys("ada") == NOTHING_SHARED
    assert plain.constraint == Constraint()


def test_a_key_is_a_text_or_made_from_the_payload() -> None:
    """One shop's jobs wait for that shop alone."""
    shop = Constraints[str](
        "send", breaker=Breaker(lambda shop: f"shop:{shop}"), concurrency_key=lambda shop: f"c:{shop}", limit=TWO, serial_key="all"
    )
    assert shop.keys("ada") == {
        "breaker": "shop:ada",
        "refuses_open_breaker": False,
        "concurrency_key": "c:ada",
        "serial_key": "all",
    }
    assert shop.constraint == Constraint(limit=TWO)


def test_a_limit_without_a_key_is_of_all_jobs_of_the_name() -> None:
    """What most people want first has no other word to write."""
    assert Constraints[str]("send", limit=TWO).keys("ada") == NOTHING_SHARED | {"concurrency_key": "send"}


def test_a_function_may_say_that_a_job_shares_nothing() -> None:
    """A free order needs no place in the line of the paid ones."""
    some = Constraints[str](
        "send", breaker=Breaker(lambda shop: None), concurrency_key=lambda shop: None, limit=TWO, serial_key=lambda shop: None
    )
    assert some.keys("ada") == NOTHING_SHARED


def test_what_a_breaker_says_of_an_enqueue_goes_along_with_the_job() -> None:
    """The store decides, in the commit that would accept it."""
    assert Constraints[str]("send", breaker=Breaker("s3", when_open="refuse")).keys("ada")["refuses_open_breaker"]


def test_only_stop_is_told_to_the_store() -> None:
    """Going on behind a dead letter is what a line does by itself."""
    assert Constraints[str]("send", serial_key="s", after_dead_letter="stop").constraint == Constraint(stops_at_dead_letter=True)
    assert Constraints[str]("send", serial_key="s").constraint == Constraint()


@pytest.mark.parametrize("made", ["", "a\nb", "x" * 256, 5, b"s3"])
@pytest.mark.parametrize(
    ("rules", "what"),
    [
        (lambda made: {"breaker": Breaker(lambda shop: made)}, "the breaker's key of send"),
        (lambda made: {"concurrency_key": lambda shop: made, "limit": TWO}, "concurrency_key of send"),
        (lambda made: {"serial_key": lambda shop: made}, "serial_key of send"),
    ],
    ids=["breaker", "limit", "serial"],
)
def test_what_can_be_no_key_is_refused_when_it_is_made(made: Any, rules: Any, what: str) -> None:
    """At the enqueue, with the name of the rule and of the job: a key that cannot be shown or compared would hold up a line for ever."""
    with pytest.raises(InvalidDefinition, match=f"^{what}: a key is text of 1 to 255 printable characters"):
        Constraints[str]("send", **rules(made)).keys("ada")
