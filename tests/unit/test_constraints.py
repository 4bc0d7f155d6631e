"""What a definition says of other jobs that its own wait for: which keys its jobs have, and what cannot be said."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from onward.admission import Constraint
from onward.breaker import Breaker
from onward.constraints import Constraints
from onward.definition import define_job
from onward.errors import InvalidDefinition, InvalidPayload
from onward.limit import Limit
from onward.rate import Rate

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
    assert shop.constraint == Constraint(limit=TWO, pace=Rate(100, timedelta(seconds=1)))


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


async def awaited(shop: str) -> str:
    return shop


KEYS: list[Any] = [
    ("", "a key is text of 1 to 255 printable characters"),
    ("a\0b", "a key is text of 1 to 255 printable characters"),
    ("x" * 256, "a key is text of 1 to 255 printable characters"),
    ("payload", "would be the same text 'payload' for all its jobs: give a function of the payload"),
    (lambda: "x", "is a function of one argument, the payload"),
    (lambda one, two: "x", "is a function of one argument, the payload"),
    (awaited, "is an async function: it has to give the key at once"),
    (5, "is text, or a function of the payload"),
]
RULES: dict[str, Any] = {
    "the breaker's key": lambda key: {"breaker": Breaker(key)},
    "concurrency_key": lambda key: {"concurrency_key": key, "limit": TWO},
    "serial_key": lambda key: {"serial_key": key},
}


@pytest.mark.parametrize(("key", "why"), KEYS, ids=range(len(KEYS)))
@pytest.mark.parametrize("what", RULES)
def test_what_can_be_no_key_is_refused_when_it_is_declared(what: str, key: Any, why: str) -> None:
    with pytest.raises(InvalidDefinition, match=why):
        Constraints[str]("send", **RULES[what](key))


@pytest.mark.parametrize("key", [str, "plain text", str.upper, lambda shop, suffix="": shop + suffix], ids=["a", "b", "c", "d"])
def test_a_text_and_whatever_takes_the_payload_make_a_key(key: Any) -> None:
    assert Constraints[str]("send", serial_key=key).keys("ada")["serial_key"]


def test_a_function_that_fails_on_a_payload_names_the_rule_and_the_job() -> None:
    def shop(payload: dict[str, str]) -> str:
        return payload["shop"]

    def send(payload: dict[str, str]) -> None:
        raise AssertionError("nothing is to be run")

    for what, rule in RULES.items():
        with pytest.raises(InvalidPayload, match=f"^{what} of send cannot be made of this payload: KeyError: 'shop'"):
            define_job("send", send, **rule(shop)).new_job({})
    with pytest.raises(InvalidPayload, match=r"^key of send cannot be made of this payload: KeyError: 'shop'"):
        define_job("send", send, key=shop).new_job({})
