"""What the type of a payload marks as secret is shown by no command, unless it is asked for."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from tests.cli.conftest import Run

TOKEN = "Vogelfluglinie"
SHOP = """
from dataclasses import dataclass

from onward import Onward, RetryPolicy, Secret, define_job


@dataclass
class Login:
    user: str
    token: Secret[str]


@dataclass
class Batch:
    logins: list[Login]


def sign_in(payload: Batch) -> None:
    raise ValueError(f"bad {payload.logins[0].token}")


app = Onward("sqlite:///shop.db", jobs=[define_job("sign-in", sign_in, retry=RetryPolicy(1))])
"""
PAYLOAD = json.dumps({"logins": [{"user": "ada", "token": TOKEN}]})


@pytest.fixture
def job_id(shop: Path, onward: Run) -> str:
    """A job that has failed, with an error that older code has written: it knew nothing of the mark."""
    (shop / "shop.py").write_text(SHOP)
    asked = onward("-A", "shop:app", "enqueue", "sign-in", PAYLOAD, "--json")
    assert TOKEN not in asked.stdout + asked.stderr
    done = onward("-A", "shop:app", "worker", "--drain")
    assert "[redacted]" in done.stdout
    assert TOKEN not in done.stdout + done.stderr
    for row in ("jobs", "history"):
        with sqlite3.connect(shop / "shop.db") as connection:
            ((error,),) = connection.execute(f"SELECT error FROM onward_{row}").fetchall()
            assert error.startswith("ValueError: bad [redacted]")
            connection.execute(f"UPDATE onward_{row} SET error = ?", [f"ValueError: bad {TOKEN}"])
        connection.close()
    job: str = json.loads(asked.stdout)["id"]
    return job


def test_no_command_shows_a_marked_field(job_id: str, onward: Run) -> None:
    """Neither for people nor for programs."""
    for command in (["show", job_id], ["show", job_id, "--full"], ["show", job_id, "--json"], ["list"], ["list", "--json"]):
        shown = onward("-A", "shop:app", "jobs", *command)
        assert shown.returncode == 0
        assert TOKEN not in shown.stdout + shown.stderr
    payload = json.loads(onward("-A", "shop:app", "jobs", "show", job_id, "--json").stdout)["payload"]
    assert payload == {"logins": [{"user": "ada", "token": "[redacted]"}]}


def test_it_is_shown_to_who_asks_for_it(job_id: str, onward: Run) -> None:
    """As every other secret is."""
    for command in (["show", job_id, "--raw"], ["show", job_id, "--json", "--raw"], ["list", "--json", "--raw"]):
        assert TOKEN in onward("-A", "shop:app", "jobs", *command).stdout


def test_what_cannot_be_read_is_not_shown_where_it_may_hold_a_marked_field(job_id: str, onward: Run, shop: Path) -> None:
    """Nobody knows where in it the secret is."""
    with sqlite3.connect(shop / "shop.db") as connection:
        connection.execute("UPDATE onward_jobs SET payload = ?, error = NULL", [PAYLOAD[:-1]])
        connection.execute("DELETE FROM onward_history")
    connection.close()
    for command in (["show", job_id], ["show", job_id, "--json"], ["list", "--json"]):
        assert TOKEN not in onward("-A", "shop:app", "jobs", *command).stdout
    assert TOKEN in onward("-A", "shop:app", "jobs", "show", job_id, "--raw").stdout


def test_a_payload_that_is_refused_is_not_repeated(shop: Path, onward: Run) -> None:
    """The error names the place."""
    (shop / "shop.py").write_text(SHOP)
    wrong = json.dumps({"logins": [{"user": "ada", "token": TOKEN}, {"user": 7, "token": TOKEN}]})
    refused = onward("-A", "shop:app", "enqueue", "sign-in", wrong)
    assert refused.returncode == 2
    assert "$.logins[1].user" in refused.stderr
    assert TOKEN not in refused.stderr
