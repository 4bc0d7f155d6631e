"""What the record says of an action: who, which jobs, and no more than it may."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from onward.actions import LONGEST_ACTOR, LONGEST_NAMED, LONGEST_OF_ONE, MOST_NAMED, check_actor, filter_text, new_action
from onward.errors import InvalidDefinition
from onward.ids import is_id
from onward.inspection import JobFilter
from onward.status import Status

WHEN = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.mark.parametrize("actor", ["", "ada", "ada@host", "Ada Lovelace (shift 2)", "ü" * LONGEST_ACTOR])
def test_an_actor_is_what_a_line_can_hold(actor: str) -> None:
    """Nobody need be named."""
    assert check_actor(actor) == actor


@pytest.mark.parametrize("actor", ["a\nb", "\x1b[31m", "a\0", "\ud800", "a" * (LONGEST_ACTOR + 1), None, 5, b"ada"])
def test_what_is_no_actor_is_refused(actor: Any) -> None:
    """It stands in tables and logs, one a line."""
    with pytest.raises(InvalidDefinition, match=r"actor= is who does it, as text of at most 255 printable characters, not "):
        check_actor(actor)


@pytest.mark.parametrize(
    ("where", "said"),
    [
        (JobFilter(), {}),
        (JobFilter(statuses=(Status.QUEUED, Status.RETRYING)), {"statuses": ["queued", "retrying"]}),
        (JobFilter(types=("a", "b"), queues=("mail",)), {"types": ["a", "b"], "queues": ["mail"]}),
        (JobFilter(ids=("x",), key="k", owner="o"), {"ids": ["x"], "key": "k", "owner": "o"}),
        (JobFilter(owner=""), {"owner": ""}),
        (JobFilter(finished_after=WHEN), {"finished_after": "2026-01-02T00:00:00+00:00"}),
    ],
)
def test_a_filter_is_written_as_what_it_narrows(where: JobFilter, said: dict[str, Any]) -> None:
    """What it leaves open is left out; jobs that nobody owns are asked for, and said."""
    assert json.loads(filter_text(where)) == said


def test_a_filter_takes_bounded_room_however_much_it_names() -> None:
    """A script may name every type that it knows, and a key on the command line may be a book."""
    long = "\N{GRINNING FACE}" * 1000
    many = tuple(f"{number}{long}" for number in range(MOST_NAMED + 1234))
    text = filter_text(JobFilter(statuses=tuple(Status), types=many, queues=many, ids=many, key=long, owner=long))
    said = json.loads(text)
    assert (len(said["types"]), said["types"][-1]) == (MOST_NAMED + 1, "and 1,234 more")
    assert {len(one) for one in said["types"][:-1]} == {LONGEST_NAMED}
    assert {len(said["key"]), len(said["owner"])} == {LONGEST_OF_ONE}
    assert len(json.loads(filter_text(JobFilter(types=many[:MOST_NAMED])))["types"]) == MOST_NAMED


@pytest.mark.parametrize("text", ["\0", "\ud800", "\x1b[31m", "\u202e", "ü"])
def test_no_store_and_no_terminal_stumbles_over_a_filter(text: str) -> None:
    """The command line takes any text as a key."""
    written = filter_text(JobFilter(key=text))
    assert written.isascii()
    assert written.isprintable()
    assert json.loads(written) == {"key": text}


def test_a_new_action_is_checked_and_has_an_id_of_its_own() -> None:
    one, other = (new_action("cancel", JobFilter(key="k"), actor="ada", matched=3) for _ in range(2))
    assert (one.actor, one.verb, one.filter, one.matched) == ("ada", "cancel", '{"key": "k"}', 3)
    assert is_id(one.id)
    assert one.id < other.id
    assert new_action("pause", JobFilter(queues=("mail",)), actor="").matched == 1
    with pytest.raises(InvalidDefinition):
        new_action("cancel", JobFilter(), actor="a\n")
