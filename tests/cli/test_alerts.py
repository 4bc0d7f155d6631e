"""``onward alerts``: list, show, acknowledge, check, test."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from onward import AlertRules, Onward
from onward.ids import new_id
from onward.look import look
from tests.cli.conftest import Run
from tests.receiver import receiver

Invoke = Callable[..., Result]
HOOKED = """
from onward import Onward, Webhook

app = Onward("sqlite:///hooked.db", webhooks=[Webhook("{url}", secret="a secret of the test", name="ops")])
app.store.open()
"""
RULED = """
from onward import AlertRules, Onward, define_job

app = Onward("sqlite:///ruled.db", jobs=[define_job("note", lambda: None)], alert_rules=AlertRules(depth=0, lasts=0))
"""


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
    assert "state     open" in invoke("alerts", "show", alert.id.lower()).stdout
    assert invoke("alerts", "acknowledge", alert.id, "--actor", "ada").stdout == f"{alert.id}: acknowledged now by ada\n"
    assert "by ada" in invoke("alerts", "acknowledge", alert.id, "--actor", "bob").stdout
    assert json.loads(invoke("alerts", "show", alert.id, "--json").stdout)["acknowledged_by"] == "ada"
    app.breakers.reset("s3")
    assert "state     over" in invoke("alerts", "show", alert.id).stdout


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


def test_a_check_looks_now_and_ends_with_1_while_an_alert_is_open(app: Onward, invoke: Invoke) -> None:
    """A monitor runs it: of a store of which no worker is alive, nobody else would tell."""
    app.store.open()
    quiet = invoke("alerts", "check")
    said = "No application is named (-A), so its rules are not looked at.\nNo alerts are open.\n"
    assert (quiet.exit_code, quiet.stdout, quiet.stderr) == (0, "", said)
    app.breakers.open("s3")
    found = invoke("alerts", "check")
    assert (found.exit_code, "breaker_open" in found.stdout) == (1, True)
    assert json.loads(invoke("alerts", "check", "--json").stdout)["cause"] == "breaker:s3"


def test_a_check_without_an_application_undoes_nothing_that_its_rules_have_found(app: Onward, invoke: Invoke) -> None:
    """The usual rules are not the application's."""
    app.store.open()
    rules = AlertRules(depth=0, lasts=0)
    app.enqueue(app.definitions["echo"], "a")
    (opened,) = app.store.judge(rules, look(app.store)).opened
    assert invoke("alerts", "check").exit_code == 1
    assert [one.id for one in app.alerts.list()] == [opened.id]


def test_a_check_of_an_application_looks_by_its_rules(onward: Run, shop: Path) -> None:
    (shop / "ruled.py").write_text(RULED)
    assert onward("-A", "ruled:app", "enqueue", "note").returncode == 0
    found = onward("-A", "ruled:app", "alerts", "check", "--json")
    assert (found.returncode, json.loads(found.stdout)["cause"]) == (1, "depth:default/note")


def test_each_webhook_is_sent_a_message_and_what_it_answers_is_said(onward: Run, shop: Path) -> None:
    """Without its URL, which may hold what only the receiver should know."""
    with receiver() as there:
        (shop / "hooked.py").write_text(HOOKED.format(url=there.url))
        there.answers = [204, 401]
        tried = [onward("-A", "hooked:app", "alerts", "test") for _ in range(2)]
    gone = onward("-A", "hooked:app", "alerts", "test")
    assert [(one.returncode, one.stdout) for one in (*tried, gone)] == [
        (0, "ops: answered 204\n"),
        (1, "ops: answered 401\n"),
        (1, "webhook ops cannot be reached: ConnectionRefusedError\n"),
    ]
    assert json.loads(there.received[0].body)["type"] == "alert.test"
    none = onward("-A", "shop:app", "alerts", "test")
    assert (none.returncode, none.stdout) == (0, "")
    assert "has no webhooks" in none.stderr
