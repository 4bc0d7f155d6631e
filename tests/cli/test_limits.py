"""``onward limits`` on a store with jobs that wait for them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from onward.app import Onward
from onward.definition import define_job
from onward.limit import Limit
from onward.testing.conformance.steps import claim, demand
from tests.cli.conftest import Run, echo

Invoke = Callable[..., Result]


def test_a_limit_is_set_listed_and_cleared(app: Onward, invoke: Invoke) -> None:
    """Of a queue and of a key; each says what it did, in words and as JSON."""
    assert app.limits.list() == []
    assert invoke("limits", "set", "--queue", "mail", "--concurrency", "5").stdout == "queue mail: 5 at once\n"
    set_rate = invoke("limits", "set", "--key", "shop:7", "--rate", "10/s", "--burst", "20", "--concurrency", "2", "--actor", "ada")
    assert set_rate.stdout == "key shop:7: 2 at once, 10/s (burst 20)\n"
    assert app.actions(limit=1)[0].actor == "ada"
    head, _, first, second = invoke("limits", "list").stdout.splitlines()
    assert head.split() == ["of", "name", "limit", "set", "running", "waiting", "full"]
    assert first.split() == ["queue", "mail", "5", "at", "once", "by", "hand", "0", "0", "-"]
    assert second.split() == ["key", "shop:7", "2", "at", "once,", "10/s", "(burst", "20)", "by", "hand", "0", "0", "-"]
    shown = [json.loads(line) for line in invoke("limits", "list", "--json").stdout.splitlines()]
    assert shown[0] == {
        "kind": "queue",
        "name": "mail",
        "concurrency": 5,
        "rate": None,
        "burst": None,
        "is_by_hand": True,
        "spent_until": None,
        "check_at": None,
        "running": 0,
        "waiting": 0,
    }
    assert invoke("limits", "clear", "--queue", "mail").stdout == "queue mail: cleared\n"
    cleared = json.loads(invoke("limits", "clear", "--key", "shop:7", "--json").stdout)
    assert cleared == {"kind": "key", "name": "shop:7", "cleared": True}
    assert app.limits.list() == []


def test_setting_one_answers_in_json_too(app: Onward, invoke: Invoke) -> None:
    """With the names of the list."""
    assert app.limits.list() == []
    told = json.loads(invoke("limits", "set", "--queue", "mail", "--rate", "1/30s", "--json").stdout)
    assert (told["kind"], told["name"], told["concurrency"], told["rate"], told["is_by_hand"]) == ("queue", "mail", None, "1/30s", True)


def test_nothing_to_list_is_said(app: Onward, invoke: Invoke) -> None:
    """On stderr, since it is no data."""
    assert app.limits.list() == []
    result = invoke("limits", "list")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "No limits: none is set, no worker has declared one of a queue, and none of a key was ever reached.\n"


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (["set", "--concurrency", "1"], "say what the limit is of: --queue NAME or --key KEY, one of them"),
        (["set", "--queue", "mail", "--key", "k", "--concurrency", "1"], "--queue NAME or --key KEY, one of them"),
        (["set", "--queue", "no queue", "--concurrency", "1"], "--queue: a queue is 1 to 100 letters"),
        (["set", "--key", "", "--concurrency", "1"], "--key: a key is text of 1 to 255"),
        (["set", "--queue", "mail"], "a limit needs --concurrency, the jobs that may run at once, or --rate, such as '10/s'"),
        (["set", "--queue", "mail", "--burst", "5", "--concurrency", "1"], "--burst of a limit goes with --rate: how many"),
        (
            ["set", "--queue", "mail", "--rate", "fast"],
            "--rate is a rate such as '10/s', '100/m' or '1/30s', of 1 to 1,000,000 in whole milliseconds or longer, not 'fast'",
        ),
        (["set", "--queue", "mail", "--concurrency", "0"], "'--concurrency': must be a whole number from 1 to 1,000,000, not '0'"),
        (["set", "--queue", "mail", "--rate", "1/s", "--burst", "x"], "'--burst': must be a whole number from 1 to 1,000,000, not 'x'"),
        (["set", "--queue", "mail", "--concurrency", "1", "--actor", "a\nb"], "--actor is at most 255 printable characters"),
        (["clear"], "--queue NAME or --key KEY, one of them"),
        (["clear", "--queue", "no queue"], "--queue: a queue is 1 to 100 letters"),
    ],
)
def test_what_makes_no_sense_is_one_line_that_names_the_option(app: Onward, invoke: Invoke, command: list[str], says: str) -> None:
    """And changes nothing."""
    assert app.limits.list() == []
    result = invoke("limits", *command)
    assert (result.exit_code, result.stdout) == (2, "")
    assert says in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert app.limits.list() == []


def test_a_limit_that_is_not_there_is_answered_with_the_one_that_is_meant(app: Onward, invoke: Invoke) -> None:
    """Of the same kind: a key may be called as a queue is."""
    assert app.limits.list() == []
    result = invoke("limits", "clear", "--queue", "mial")
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", "Error: there is no limit of queue 'mial'\n")
    app.limits.set(Limit(concurrency=1), queue="mail")
    assert invoke("limits", "clear", "--queue", "mial").stderr == "Error: there is no limit of queue 'mial': did you mean 'mail'?\n"
    assert invoke("limits", "clear", "--key", "mail").stderr == "Error: there is no limit of key 'mail'\n"


def test_a_limit_of_a_job_that_has_no_key_is_refused(onward: Run) -> None:
    """Its name looks like a key, and nothing would be limited."""
    onward("-A", "shop:app", "migrate")
    result = onward("-A", "shop:app", "limits", "set", "--key", "send-welcome", "--concurrency", "1")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == (
        "Error: jobs of send-welcome have no concurrency key, so this would limit nothing: "
        "give their definition limit=Limit(...), or set a limit of their queue: --queue mail\n"
    )


def test_a_key_that_nobody_knows_is_limited_and_told(onward: Run) -> None:
    onward("-A", "shop:app", "migrate")
    onward("-A", "shop:app", "limits", "set", "--key", "shop:ada", "--concurrency", "1")
    result = onward("-A", "shop:app", "limits", "set", "--key", "shop:aad", "--concurrency", "1")
    assert (result.returncode, result.stdout) == (0, "key shop:aad: 1 at once\n")
    assert result.stderr == (
        "No job of the application has the concurrency key 'shop:aad', and no limit of it was ever reached: did you mean 'shop:ada'?\n"
    )


def test_a_queue_that_nobody_knows_is_limited_and_told(onward: Run) -> None:
    """Whoever misspells it in a hurry would believe that it is slowed down."""
    onward("-A", "shop:app", "migrate")
    result = onward("-A", "shop:app", "limits", "set", "--queue", "mial", "--concurrency", "1")
    assert (result.returncode, result.stdout) == (0, "queue mial: 1 at once\n")
    assert "is declared for queue 'mial', and none is in it: did you mean 'mail'?" in result.stderr
    assert onward("-A", "shop:app", "limits", "set", "--queue", "mail", "--concurrency", "1").stderr == ""


def test_clearing_what_code_declares_says_that_it_comes_back(shop_with_limits: Run) -> None:
    """Otherwise it seems as if the command had done nothing."""
    shop_with_limits("-A", "limited:app", "migrate")
    shop_with_limits("-A", "limited:app", "limits", "set", "--queue", "mail", "--concurrency", "9")
    result = shop_with_limits("-A", "limited:app", "limits", "clear", "--queue", "mail")
    assert result.stdout == "queue mail: cleared\n"
    assert result.stderr == "The application declares one of this queue: its workers store it again.\n"


@pytest.fixture
def shop_with_limits(shop: Path, onward: Run) -> Run:
    """The shop once more, with a limit in its code."""
    text = "from onward import Limit, Onward\napp = Onward('sqlite:///shop.db', limits={'mail': Limit(concurrency=3)})\n"
    (shop / "limited.py").write_text(text)
    return onward


def test_jobs_that_wait_say_for_what(app: Onward, invoke: Invoke) -> None:
    """A queue whose limit is used up, a key over its limit, and a line: each in a sentence."""
    keyed = define_job("keyed", echo, payload=str, concurrency_key="c", limit=Limit(concurrency=1))
    in_line = define_job("in-line", echo, payload=str, serial_key="s", after_dead_letter="stop")
    app.add(keyed, in_line)
    app.limits.set(Limit(concurrency=1), queue="mail")
    app.enqueue(app.definitions["echo"], "a")
    first, *_ = app.enqueue_many([in_line.new_job("a"), in_line.new_job("b"), keyed.new_job("a"), keyed.new_job("b")])
    waits = {name: app.enqueue(app.definitions[name], "z").id for name in ("echo", "in-line", "keyed")}
    asked = demand(10, types=tuple(app.definitions.leases()), constraints=app.definitions.constraints())
    assert len(app.store.turn(demand=asked).claims) == 3
    assert "It is due, but queue 'mail' is at its limit: 1 of 1 run." in invoke("jobs", "show", waits["echo"]).stdout
    assert "but the limit of its concurrency key 'c' is reached: 1 of 1 run." in invoke("jobs", "show", waits["keyed"]).stdout
    line = invoke("jobs", "show", waits["in-line"], "--json").stdout
    assert json.loads(line)["why"].startswith(f"It is due, but job {first.id} stands before it with the serial key 's' and is in progress")
    assert json.loads(line)["blocked_by"] == "serial"


def test_a_queue_at_its_limit_is_a_finding(app: Onward, invoke: Invoke) -> None:
    """It looks like workers that do nothing. One that nobody waits for is none."""
    app.limits.set(Limit(concurrency=1), queue="mail")
    app.limits.set(Limit(concurrency=1), queue="idle")
    for text in "abc":
        app.enqueue(app.definitions["echo"], text)
    claim(app.store, 5, types=("echo",))
    found = [json.loads(line) for line in invoke("doctor", "--json").stdout.splitlines()]
    (told,) = (one for one in found if one["name"] == "limits")
    assert told["level"] == "warning"
    assert told["text"] == "queue mail is at its limit, 1 of 1 run; waiting: 2: onward limits list"
