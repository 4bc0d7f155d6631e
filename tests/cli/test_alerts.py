"""``onward alerts``: list, show, acknowledge."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from click.testing import Result

from onward import Onward
from onward.ids import new_id

Invoke = Callable[..., Result]


def test_open_ones_are_listed_and_those_that_are_over_where_they_are_asked_for(app: Onward, invoke: Invoke) -> None:
    app.store.open()
    assert invoke("alerts", "list").stderr == "No alerts are open.\n"
    app.breakers.open("s3")
    app.breakers.open("mail")
    app.breakers.reset("mail")
    (line,) = invoke("alerts", "list").stdout.splitlines()[2:]
    assert line.split()[1:3] == ["warning", "breaker_open"]
    assert line.endswith("the breaker s3 was opened by hand: its jobs wait")
    found = [json.loads(one) for one in invoke("alerts", "list", "--all", "--json").stdout.splitlines()]
    assert [one["context"]["breaker"] for one in found] == ["mail", "s3"]
    page = invoke("alerts", "list", "--all", "--limit", "1")
    assert page.stderr == f"There may be more: --before {found[0]['id']}\n"
    assert json.loads(invoke("alerts", "list", "--all", "--before", found[0]["id"], "--json").stdout)["id"] == found[1]["id"]


def test_one_is_shown_and_acknowledged_once(app: Onward, invoke: Invoke) -> None:
    app.breakers.open("s3")
    (alert,) = app.alerts.list()
    assert "now       open" in invoke("alerts", "show", alert.id.lower()).stdout
    assert invoke("alerts", "acknowledge", alert.id, "--actor", "ada").stdout == f"{alert.id}: acknowledged now by ada\n"
    assert "by ada" in invoke("alerts", "acknowledge", alert.id, "--actor", "bob").stdout
    assert json.loads(invoke("alerts", "show", alert.id, "--json").stdout)["acknowledged_by"] == "ada"
    app.breakers.reset("s3")
    assert "now       over" in invoke("alerts", "show", alert.id).stdout


@pytest.mark.parametrize(
    ("command", "code", "says"),
    [
        (["show", new_id()], 1, "Error: there is no alert '"),
        (["acknowledge", new_id()], 1, "Error: there is no alert '"),
        (["show", "s3"], 2, "ID is the id of an alert, 26 characters, not 's3'"),
        (["list", "--before", "s3"], 2, "--before is the id of an alert, 26 characters, not 's3'"),
        (["list", "--limit", "0"], 2, "--limit"),
    ],
    ids=["show", "acknowledge", "no id", "no page", "no limit"],
)
def test_what_is_not_there_or_makes_no_sense_is_one_line(app: Onward, invoke: Invoke, command: list[str], code: int, says: str) -> None:
    app.store.open()
    result = invoke("alerts", *command)
    assert (result.exit_code, result.stdout) == (code, "")
    assert says in result.stderr
