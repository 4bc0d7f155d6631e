"""``onward breakers`` on a store with jobs that wait behind them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest
from click.testing import Result

from onward.app import Onward
from onward.breaker import Breaker
from onward.cli.wait_words import counted
from onward.definition import define_job
from onward.inspection import MOST_COUNTED
from onward.retry import RetryPolicy
from onward.testing import drain
from tests.cli.conftest import Run

Invoke = Callable[..., Result]


def upload(name: str) -> None:
    raise ConnectionError(f"no answer for {name}")


@pytest.fixture
def uploads(app: Onward) -> Iterator[Onward]:
    """An application whose uploads share a breaker that opens at once."""
    app.add(define_job("upload", upload, breaker=Breaker("s3", threshold=2), retry=RetryPolicy(5, base="1h")))
    with app:
        yield app


def test_a_breaker_is_listed_and_shown_and_reset(uploads: Onward, invoke: Invoke) -> None:
    """With what it means for the jobs that wait."""
    jobs = uploads.enqueue_many([uploads.definitions["upload"].new_job(str(number)) for number in range(4)])
    assert drain(uploads).counts == {"retried": 2}
    head, _, row = invoke("breakers", "list").stdout.splitlines()
    assert head.split() == ["breaker", "status", "failures", "waiting", "alert"]
    assert row.split()[:3] == ["s3", "open", "since"]
    assert "tried again in 29m" in row
    alert = uploads.breakers.get("s3").alert_id
    assert row.split()[-3:] == ["2", "2", alert]
    lines = [line.split(maxsplit=1) for line in invoke("breakers", "show", "s3").stdout.splitlines()]
    shown = dict(lines)
    assert (shown["breaker"], shown["failures"], shown["waiting"], shown["alert"]) == ("s3", "2 in a row", "2", alert)
    assert shown["status"].startswith("open since 20")
    assert "Z (" in shown["status"]
    assert "tried again at 20" in shown["status"]
    assert "breakers reset s3' lets it go on." in invoke("jobs", "show", jobs[-1].id).stdout
    assert invoke("breakers", "reset", "s3", "--actor", "ada").stdout == "s3: closed; waiting: 2, which go on at 100/s\n"
    assert "status    closed\n" in invoke("breakers", "show", "s3").stdout
    assert "waiting   2, which go on at 100/s\n" in invoke("breakers", "show", "s3").stdout
    assert (uploads.actions(limit=1)[0].verb, uploads.actions(limit=1)[0].actor) == ("reset_breaker", "ada")


def test_a_breaker_is_opened_by_hand(app: Onward, invoke: Invoke) -> None:
    """For as long as is said, and again from now on."""
    assert app.breakers.list() == []
    assert invoke("breakers", "open", "s3").stdout.startswith("s3: open since ")
    assert "(in 30m)" in invoke("breakers", "open", "s3", "--actor", "ada").stdout
    assert "(in 2h)" in invoke("breakers", "open", "s3", "--pause", "2h").stdout
    assert app.breakers.get("s3").state.status == "open"
    assert app.actions()[1].actor == "ada"
    assert "@" in app.actions()[0].actor
    assert invoke("breakers", "reset", "s3").stdout == "s3: closed\n"


def test_json_has_every_field(app: Onward, invoke: Invoke) -> None:
    """The same of each command, with counts where the jobs were counted."""
    assert app.breakers.list() == []
    opened = json.loads(invoke("breakers", "open", "s3", "--pause", "90m", "--json").stdout)
    fields = {"key", "status", "failures", "opened_at", "retry_at", "probe_id", "probe_fence", "pause", "pace"}
    assert set(opened) == fields
    assert (opened["key"], opened["status"], opened["pause"], opened["pace"]) == ("s3", "open", "1h30m", "100/s")
    (listed,) = [json.loads(line) for line in invoke("breakers", "list", "--json").stdout.splitlines()]
    assert listed == {**opened, "waiting": 0, "alert_id": app.breakers.get("s3").alert_id}
    assert json.loads(invoke("breakers", "show", "s3", "--json").stdout) == listed
    assert json.loads(invoke("breakers", "reset", "s3", "--json").stdout)["status"] == "closed"


def test_nothing_to_list_is_said(app: Onward, invoke: Invoke) -> None:
    """On stderr, since it is no data."""
    assert app.breakers.list() == []
    result = invoke("breakers", "list")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "No breakers: none has counted a failure, or was opened by hand.\n"


def test_one_that_nobody_knows_is_answered_with_the_one_that_is_meant(app: Onward, invoke: Invoke) -> None:
    """To be told that it is closed would be believed."""
    assert app.breakers.list() == []
    result = invoke("breakers", "show", "stripe")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "Error: no breaker 'stripe' has counted a failure or was opened: every other is closed\n"
    app.breakers.open("stripe:eu")
    result = invoke("breakers", "show", "strip:eu")
    assert result.stderr == "Error: no breaker 'strip:eu' has counted a failure or was opened: did you mean 'stripe:eu'?\n"


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (["open", "s3", "--pause", "soon"], "--pause: 'soon' is not a duration"),
        (["open", "s3", "--pause", "0s"], "--pause: '0s' is too short: a breaker stays open for 1ms or longer, and a reset closes it"),
        (["open", "s3", "--pause", "-5m"], "--pause: '-5m' is negative"),
        (["open", ""], "KEY: a key is text of 1 to 255 printable characters"),
        (["reset", "a\nb"], "KEY: a key is text of 1 to 255 printable characters"),
        (["show", "x" * 256], "KEY: a key is text of 1 to 255 printable characters"),
        (["open", "s3", "--actor", "a\nb"], "--actor is at most 255 printable characters"),
        (["open"], "Missing argument 'KEY'"),
    ],
)
def test_what_makes_no_sense_is_one_line_that_names_it(app: Onward, invoke: Invoke, command: list[str], says: str) -> None:
    """And changes nothing."""
    assert app.breakers.list() == []
    result = invoke("breakers", *command)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("Error: ")
    assert says in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert app.breakers.list() == []


def test_a_slip_in_a_hurry_is_pointed_out(onward: Run) -> None:
    """It is done all the same: another application may have such jobs."""
    onward("-A", "shop:app", "migrate")
    result = onward("-A", "shop:app", "breakers", "open", "s4")
    assert (result.returncode, result.stdout[:15]) == (0, "s4: open since ")
    assert result.stderr == "No job of the application is declared with the breaker 's4', and none has failed with it.\n"
    assert onward("-A", "shop:app", "breakers", "open", "s4").stderr == ""
    assert "did you mean 's4'?" in onward("-A", "shop:app", "breakers", "reset", "s4x").stderr


def test_an_open_breaker_is_a_finding(app: Onward, invoke: Invoke) -> None:
    """One line each, and not without end: there may be one for each customer."""
    for number in range(23):
        app.breakers.open(f"shop:{number:02}")
    found = [json.loads(line) for line in invoke("doctor", "--json").stdout.splitlines()]
    told = [one for one in found if one["name"] == "breakers"]
    assert {one["level"] for one in told} == {"warning"}
    assert len(told) == 21
    assert told[0]["text"].startswith("shop:00 is open since ")
    assert told[0]["text"].endswith("; waiting: 0: onward breakers show shop:00")
    assert told[-1]["text"] == "and 3 more: onward breakers list"


def test_what_is_not_counted_to_the_end_says_so() -> None:
    """Ten thousand that wait may be a million."""
    assert [counted(MOST_COUNTED - 1), counted(MOST_COUNTED)] == ["9,999", "10,000+"]
