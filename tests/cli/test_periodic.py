"""``onward periodic``: what the clock enqueues, as a person sees and changes it."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import Result
from msgspec.structs import replace

from onward.app import Onward
from onward.cli.periodic import says_declared
from onward.periodic import Periodic
from onward.periodic_jobs import PeriodicJobs
from tests.cli.conftest import Run

DECLARING = """
from shop import app
from onward import Onward, Periodic

welcome, broken = app.definitions["send-welcome"], app.definitions["broken"]
nightly = Periodic(broken, "30 2 * * *", timezone="Europe/Paris", name="nightly")
app = Onward("sqlite:///shop.db", jobs=[welcome, broken], periodic=[nightly])
"""


@pytest.fixture
def declaring(shop: Path, onward: Run) -> Run:
    """The command in a shop whose code declares a periodic job."""
    (shop / "declaring.py").write_text(DECLARING)
    assert onward("-A", "declaring:app", "migrate").returncode == 0
    return lambda *args, **more: onward("-A", "declaring:app", "periodic", *args, **more)


def test_one_is_made_listed_shown_paused_run_and_deleted(declaring: Run) -> None:
    """Each says what it did."""
    made = declaring("put", "greet", "send-welcome", '{"user_id": "a"}', "--every", "10m", "--queue", "low")
    assert made.returncode == 0, made.stderr
    assert made.stdout.startswith("greet: Every 10m; next 20")
    head, _, first, second = declaring("list").stdout.splitlines()
    assert head.split() == ["name", "type", "when", "next", "last", "skipped"]
    assert first.startswith("greet    send-welcome  Every 10m")
    assert second.startswith("nightly  broken        At 02:30 every day, in Europe/Paris")
    shown = declaring("show", "nightly", "--moments", "3").stdout
    assert [line.split()[0] for line in shown.splitlines()].count("moment") == 3
    assert "declared   in code" in shown
    assert declaring("pause", "nightly", "greet").stdout == "nightly: paused\ngreet: paused\n"
    assert declaring("pause", "nightly").stdout == "nightly: paused already\n"
    assert "paused (" in declaring("list").stdout
    assert declaring("resume", "nightly", "greet").stdout == "nightly: resumed\ngreet: resumed\n"
    assert declaring("resume", "nightly").stdout == "nightly: not paused\n"
    assert len(declaring("run", "greet").stdout.strip()) == 26
    assert declaring("delete", "greet").stdout == "greet: deleted\n"


def test_moments_are_shown_in_the_zone_of_the_rule_as_well(declaring: Run) -> None:
    """Whoever wrote 02:30 in Paris looks for 02:30."""
    lines = declaring("show", "nightly", "--moments", "2").stdout.splitlines()
    for line in (one for one in lines if one.startswith(("next ", "moment "))):
        assert re.search(r"0[01]:30:00Z.* = \d{4}-\d\d-\d\d 02:30:00\+0[12]:00 Europe/Paris$", line), line
    declaring("put", "greet", "send-welcome", '{"user_id": "a"}', "--every", "10m")
    assert " = " not in declaring("show", "greet").stdout


def test_show_says_who_declares_it(declaring: Run, onward: Run) -> None:
    """It is the one who can change it."""

    def declared(app: str) -> str:
        shown = onward("-A", app, "periodic", "show", "nightly").stdout
        return next(line.removeprefix("declared").strip() for line in shown.splitlines() if line.startswith("declared"))

    assert onward("-A", "shop:app", "periodic", "put", "nightly", "broken", "--cron", "@daily").returncode == 0
    assert declared("shop:app") == "at run time"
    assert declared("declaring:app") == "in code, which takes the place of this one, made at run time, when a worker starts"
    assert onward("-A", "declaring:app", "worker", "--drain").returncode == 0
    assert declared("declaring:app") == declared("shop:app") == "in code"


def test_what_another_application_declares_is_not_said_to_be_in_this_one(app: Onward) -> None:
    """A person would look for it in the wrong code; or for code that is gone."""
    theirs = Onward(store=app.store, jobs=[app.definitions["fail"]], periodic=[Periodic(app.definitions["fail"], "@daily", payload="x")])
    theirs.worker(drain=True).run()
    ours = Periodic(app.definitions["echo"], "@daily", payload="x")
    periodic = PeriodicJobs(app.store, app.definitions, [ours])
    assert says_declared(periodic.get("fail"), periodic) == "in code, which is not this application's"
    assert says_declared(replace(periodic.get("fail"), paused_by="undeclared"), periodic) == "in code that is gone"


def test_json_has_all_of_it(declaring: Run) -> None:
    """One object a line; instants are text."""
    (row,) = [json.loads(line) for line in declaring("list", "--json").stdout.splitlines()]
    assert (row["name"], row["type"], row["when"]) == ("nightly", "broken", "At 02:30 every day, in Europe/Paris")
    assert row["rule"]["catch_up"] == "once"
    assert row["next_moment"].endswith("Z")
    shown = json.loads(declaring("show", "nightly", "--json", "--moments", "2").stdout)
    assert len(shown["moments"]) == 2


def test_a_store_alone_is_enough_to_look_and_to_pause(declaring: Run, onward: Run) -> None:
    """Whoever is on call has its URL."""
    declaring("put", "greet", "send-welcome", '{"user_id": "a"}', "--cron", "@daily")
    assert onward("-u", "sqlite:///shop.db", "periodic", "pause", "greet").stdout == "greet: paused\n"
    assert "greet" in onward("-u", "sqlite:///shop.db", "periodic", "list").stdout


def test_nothing_to_list_is_said(onward: Run) -> None:
    """On stderr, since it is no data."""
    onward("-A", "shop:app", "migrate")
    result = onward("-A", "shop:app", "periodic", "list")
    assert (result.returncode, result.stdout) == (0, "")
    assert result.stderr.startswith("No periodic jobs: declare them with Onward(periodic=[")


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (["show", "nope"], 1, "there is no periodic job 'nope': onward periodic list shows all of them"),
        *(([verb, "nigthly"], 1, "did you mean 'nightly'?") for verb in ("show", "pause", "resume", "run", "delete")),
        (["delete", "nightly"], 2, "nightly is declared in code"),
        (["put", "x", "send-welcome", "{}", "--cron", "@daily"], 2, "user_id"),
        (["put", "x", "broken"], 2, "say when it is due, by --cron '30 2 * * *' or by --every 10m, and not by both"),
        (["put", "x", "broken", "--every", "1x"], 2, "x: --every 1x is not a duration"),
        (["put", "x", "broken", "--every", "0s"], 2, "x: --every is an interval of a second or longer"),
        (["put", "x", "broken", "--every", "1m", "--timezone", "UTC"], 2, "leave out --timezone, or give --cron instead"),
        (["put", "x", "broken", "--every", "1m", "--jitter", "2m"], 2, "x: --jitter is at most 1m here"),
        (["put", "x", "broken", "--every", "1m", "--catch-up", "all", "--overlap", "skip"], 2, "which --overlap skip forbids"),
        (["put", "x", "broken", "--every", "1m", "--scope", "1d"], 2, "--scope says how long a key stays taken"),
        (["put", "x", "broken", "--cron", "* * * * * *"], 2, "seconds are for --every 10s"),
        (["put", "x", "broken", "--cron", "0 0 30 2 *"], 2, "month '2' has no day of month '30'"),
        (["put", "x", "broken", "--cron", "@daily", "--timezone", "Europe/Pari"], 2, "did you mean 'Europe/Paris'"),
        (["put", "x", "brokn", "--cron", "@daily"], 2, "no job is called 'brokn': did you mean 'broken'?"),
        (["put", "nightly", "broken", "--cron", "@daily"], 2, "nightly is declared in code"),
        (["run", "no name"], 2, "a name of a periodic job is"),
    ],
)
def test_what_cannot_be_done_is_one_line(declaring: Run, args: list[str], code: int, said: str) -> None:
    """And changes nothing."""
    result = declaring(*args)
    assert said in result.stderr
    assert "Traceback" not in result.stderr
    assert result.returncode == code


def test_doctor_says_what_the_clock_should_enqueue_and_does_not(app: Onward, url: str, invoke: Callable[..., Result]) -> None:
    """Paused by whom, due and nobody came, and what cannot be read; nothing of those that are well."""
    fail = app.definitions["fail"]
    for name in ("broken", "late", "left", "paused", "well"):
        app.periodic.put(Periodic(fail, "@yearly", payload="x", name=name))
    app.periodic.pause("paused")
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection, connection:
        for name, change in {
            "broken": "rule = '?'",
            "late": "next_moment = '2020-01-01T00:00:00.000000Z'",
            "left": "paused_at = '2020-01-01T00:00:00.000000Z', paused_by = 'undeclared'",
        }.items():
            connection.execute(f"UPDATE onward_periodic SET {change} WHERE name = ?", [name])
    found = [json.loads(line) for line in invoke("doctor", "--json").stdout.splitlines()]
    said = {one["text"].split()[0]: (one["level"], one["text"]) for one in found if one["name"] == "periodic jobs"}
    assert said.keys() == {"the", "late", "left", "paused"}
    assert said["the"] == ("error", "the row of broken cannot be read, so it is never due: correct it, or delete it")
    assert said["late"][1].endswith("ago, and no worker that knows it has come: start one")
    assert said["left"][1].endswith("ago, no code declares it any more: onward periodic resume left")
    assert said["paused"][1].endswith(", a person paused it: onward periodic resume paused")
