from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from onward.errors import DuplicateJob, InvalidDefinition, KeyReused
from onward.jobs import Accepted, uses_of_key
from onward.spelling import shown
from onward.unique import answer_duplicate, answer_same_id, check_key, key_lasts, read_on_duplicate, read_scope
from tests.unit.making import make_request


@pytest.mark.parametrize(
    ("scope", "read", "lasts"),
    [
        ("active", "active", None),
        ("forever", "forever", None),
        ("24h", timedelta(days=1), timedelta(days=1)),
        (60, timedelta(minutes=1), timedelta(minutes=1)),
        (timedelta(hours=1), timedelta(hours=1), timedelta(hours=1)),
    ],
)
def test_a_scope_is_a_word_or_a_window(scope: Any, read: Any, lasts: Any) -> None:
    """Only a window frees itself."""
    assert read_scope(scope) == read
    assert key_lasts(read_scope(scope)) == lasts


@pytest.mark.parametrize(
    "scope",
    [
        *("", "always", "Active", 0, "0s", -1, None, True, timedelta(0), timedelta(-1), ["active"]),
        *(float("nan"), float("inf"), 10**5000, "36501d", timedelta.max),
    ],
    ids=lambda scope: f"{type(scope).__name__} {shown(scope)[:30]}",
)
def test_any_other_scope_is_refused(scope: Any) -> None:
    """A typing error must not become no uniqueness at all."""
    with pytest.raises(InvalidDefinition, match=r"^scope must be") as refused:
        read_scope(scope)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize("mode", ["return", "same", "raise"])
def test_the_three_ways_to_meet_a_duplicate(mode: str) -> None:
    """Read as they are written."""
    assert read_on_duplicate(mode) == mode


@pytest.mark.parametrize("mode", ["", "ignore", "Raise", None, 5, ["return"], True])
def test_a_fourth_way_is_refused(mode: Any) -> None:
    """Names the three."""
    with pytest.raises(InvalidDefinition, match="'return', 'same' or 'raise'"):
        read_on_duplicate(mode)


@pytest.mark.parametrize("key", ["a", "order:42", "x" * 255, "Zoë 日本", " "])
def test_keys_are_printable_text(key: str) -> None:
    """Given back as they are, never normalised."""
    assert check_key(key) is key


@pytest.mark.parametrize("key", ["", "x" * 256, "a\0b", "a\nb", "\ud800", "a\u2028b", 5, None, b"a"], ids=ascii)
def test_what_no_store_or_line_can_hold_is_no_key(key: Any) -> None:
    """Every backend gives the same answer."""
    with pytest.raises(InvalidDefinition, match="1 to 255 printable"):
        check_key(key)


def test_a_key_is_unique_under_owner_and_type() -> None:
    """Two owners may use the same key."""
    assert uses_of_key(make_request(key="k", owner="o")) == ("o", "t", "k")


@pytest.mark.parametrize(
    ("mode", "same_payload", "answer"),
    [
        ("return", True, Accepted("held", is_new=False)),
        ("return", False, Accepted("held", is_new=False, payload_differs=True)),
        ("same", True, Accepted("held", is_new=False)),
        ("same", False, KeyReused),
        ("raise", True, DuplicateJob),
        ("raise", False, DuplicateJob),
    ],
)
def test_what_an_enqueue_gets_whose_key_is_held(mode: Any, same_payload: bool, answer: Any) -> None:
    """The whole table; every refusal names the holder."""
    asked = make_request(key="k", payload_hash="h", on_duplicate=mode)
    if isinstance(answer, Accepted):
        assert answer_duplicate(asked, "held", "h" if same_payload else "other") == answer
        return
    with pytest.raises(answer) as refused:
        answer_duplicate(asked, "held", "h" if same_payload else "other")
    assert type(refused.value) is answer
    assert refused.value.job_id == "held"
    assert "held" in str(refused.value)


def test_the_same_id_is_accepted_only_for_the_same_request() -> None:
    """That is how an unknown commit is settled; a clash of ids must not pass for one."""
    asked = make_request(payload_hash="h")
    assert answer_same_id(asked, "t", "h", asked.owner) == Accepted(asked.id, is_new=False)
    for stored in (("t", "other", asked.owner), ("u", "h", asked.owner), ("t", "h", "somebody else")):
        with pytest.raises(DuplicateJob) as refused:
            answer_same_id(asked, *stored)
        assert refused.value.job_id == asked.id
