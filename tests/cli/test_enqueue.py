"""``onward enqueue``: a job from the shell, as durable as one from code."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]


def stored(onward: Run) -> list[dict[str, object]]:
    done = onward("-A", "shop:app", "jobs", "list", "--json")
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_the_id_is_all_that_is_printed(onward: Run) -> None:
    """``id=$(onward enqueue …)`` is the use."""
    done = onward("-A", "shop:app", "enqueue", "send-welcome", '{"user_id": "42"}')
    assert (done.returncode, done.stderr) == (0, "")
    (job,) = stored(onward)
    assert done.stdout == f"{job['id']}\n"
    assert job["payload"]["user_id"] == "42"  # type: ignore[index]  # an object by its type
    assert (job["queue"], job["status"]) == ("mail", "queued")


def test_a_payload_comes_from_stdin_or_a_file(onward: Run, shop: Path) -> None:
    """Large payloads do not fit on a command line, secret ones must not be on it."""
    (shop / "one.json").write_text('{"user_id": "fïle"}')
    assert onward("-A", "shop:app", "enqueue", "send-welcome", "@one.json").returncode == 0
    assert onward("-A", "shop:app", "enqueue", "send-welcome", "-", input='{"user_id": "stdin"}').returncode == 0
    assert {job["payload"]["user_id"] for job in stored(onward)} == {"fïle", "stdin"}  # type: ignore[index]  # an object by its type


def test_every_option_is_stored(onward: Run) -> None:
    """What was asked for on the command line is what the library would store."""
    options = [
        "--key",
        "k",
        "--at",
        "2099-03-01T09:30:00+02:00",
        "--owner",
        "eve",
        "--priority",
        "-5",
        "--queue",
        "slow",
        "--expires",
        "1h",
    ]
    done = onward("-A", "shop:app", "enqueue", "broken", *options, "--metadata", '{"tag": "x"}', "--id", "01JE0000000000000000000000")
    assert done.returncode == 0, done.stderr
    (job,) = stored(onward)
    expected = {
        "id": "01JE0000000000000000000000",
        "idempotency_key": "k",
        "scheduled_at": "2099-03-01T07:30:00Z",
        "expires_at": "2099-03-01T08:30:00Z",
        "owner": "eve",
        "priority": -5,
        "queue": "slow",
        "metadata": {"tag": "x"},
        "payload": None,
    }
    assert {name: job[name] for name in expected} == expected


def test_a_held_key_gives_the_job_that_holds_it(onward: Run) -> None:
    """Repeating a command is safe; stderr says that nothing new was made."""
    first = onward("-A", "shop:app", "enqueue", "send-welcome", '{"user_id": "1"}', "--key", "k")
    again = onward("-A", "shop:app", "enqueue", "send-welcome", '{"user_id": "2"}', "--key", "k")
    assert again.returncode == 0
    assert again.stdout == first.stdout
    assert "exists already" in again.stderr
    assert "payload differs" in again.stderr
    as_json = onward("-A", "shop:app", "enqueue", "send-welcome", '{"user_id": "1"}', "--key", "k", "--json")
    assert json.loads(as_json.stdout) == {"id": first.stdout.strip(), "is_new": False, "payload_differs": False}
    assert as_json.stderr == ""


def test_a_key_is_taken_for_as_long_as_was_asked_for(onward: Run) -> None:
    """``forever`` for a cron line that may run twice; ``--on-duplicate`` for a script that must know."""
    asked = ("-A", "shop:app", "enqueue", "send-welcome", '{"user_id": "1"}', "--key", "k")
    first = onward(*asked, "--scope", "forever")
    assert onward("-A", "shop:app", "worker", "--drain").returncode == 0
    assert onward(*asked).stdout == first.stdout
    assert onward(*asked, "--on-duplicate", "same").stdout == first.stdout
    raised = onward(*asked, "--on-duplicate", "raise")
    assert (raised.returncode, raised.stdout) == (1, "")
    assert f"the key 'k' of send-welcome is held by job {first.stdout.strip()}" in raised.stderr
    other = onward("-A", "shop:app", "enqueue", "send-welcome", '{"user_id": "2"}', "--key", "k", "--on-duplicate", "same")
    assert (other.returncode, other.stdout) == (1, "")
    assert "with another payload" in other.stderr
    assert [len(done.stderr.splitlines()) for done in (raised, other)] == [1, 1]
    assert len(stored(onward)) == 1


def test_the_zone_of_the_machine_changes_nothing(onward: Run) -> None:
    """A laptop in Kolkata and a server in UTC store the same moment, and agree on what is due."""
    began, kolkata = datetime.now(UTC), {"TZ": "Asia/Kolkata"}
    at = ("-A", "shop:app", "enqueue", "send-welcome", '{"user_id": "1"}', "--at")
    assert onward(*at, "2099-03-01T05:00:00+05:30", env=kolkata).returncode == 0
    assert onward(*at, "2099-02-28T23:30:00Z", env={"TZ": "America/New_York"}).returncode == 0
    assert onward("-A", "shop:app", "enqueue", "send-welcome", '{"user_id": "2"}', "--delay", "2h", env=kolkata).returncode == 0
    assert onward("-A", "shop:app", "enqueue", "send-welcome", '{"user_id": "3"}', env=kolkata).returncode == 0
    naive = onward(*at, "2099-03-01T05:00:00", env=kolkata)
    assert naive.returncode == 2
    assert "has no time zone: add one" in naive.stderr
    assert onward("-A", "shop:app", "worker", "--drain", env={"TZ": "America/New_York"}).returncode == 0
    now, later, *far = stored(onward)
    assert (now["status"], later["status"]) == ("completed", "queued")
    due, asked = (datetime.fromisoformat(str(later[name])) for name in ("scheduled_at", "created_at"))
    assert due - asked == timedelta(hours=2)
    assert began <= asked <= datetime.now(UTC)
    assert [job["scheduled_at"] for job in far] == ["2099-02-28T23:30:00Z"] * 2


def test_the_application_may_be_named_in_each_way(onward: Run, shop: Path) -> None:
    """Before the command, after it, by the environment, by the settings file; and as a factory."""
    assert onward("enqueue", "broken", "-A", "shop:app").returncode == 0
    assert onward("enqueue", "broken", env={"ONWARD_APP": "shop:app"}).returncode == 0
    assert onward("enqueue", "broken", "-A", "shop:make_app").returncode == 0
    (shop / "onward.toml").write_text('app = "shop:app"\n')
    assert onward("enqueue", "broken").returncode == 0
    assert onward("enqueue", "broken", env={"ONWARD_APP": "nowhere:app"}).returncode == 4
    assert onward("enqueue", "broken", "-A", "shop:app", env={"ONWARD_APP": "nowhere:app"}).returncode == 0
    assert len(stored(onward)) == 5


FORMS = """
from dataclasses import dataclass, field
from typing import TypedDict

from msgspec import Struct
from onward import Onward, define_job


class Line(TypedDict, total=False):
    note: str


class Cat(Struct, tag=True, omit_defaults=True):
    lives: int = 9


class Dog(Struct, tag=True, rename="camel"):
    good_boy: bool = True


@dataclass
class Form:
    n: int
    lines: list[Line] = field(default_factory=list)
    pet: Cat | Dog | None = None
    anything: dict[str, int] = field(default_factory=dict)
    maybe: tuple[int, Line] | None = None


def fill(payload: Form) -> None: ...


app = Onward("sqlite:///forms.db", jobs=[define_job("fill", fill)])
"""


@pytest.mark.parametrize(
    ("payload", "says"),
    [
        ({"n": 1, "noet": "x"}, "no field 'noet'"),
        ({"n": 1, "lines": [{}, {"noet": "x"}]}, "did you mean 'note'? (at $.lines[1])"),
        ({"n": 1, "pet": {"type": "Cat", "goodBoy": True}}, "no field 'goodBoy'; known are type, lives (at $.pet)"),
        ({"n": 1, "maybe": [1, {"noet": "x"}]}, "(at $.maybe[1])"),
        (
            {
                "n": 1,
                "lines": [{"note": "x"}],
                "pet": {"type": "Dog", "goodBoy": True},
                "anything": {"at all": 1},
                "maybe": [1, {"note": "x"}],
            },
            None,
        ),
        ({"n": 1, "pet": {"type": "Cat", "lives": 9}, "maybe": None}, None),
    ],
    ids=str,
)
def test_a_field_that_the_payload_does_not_have_is_refused(onward: Run, shop: Path, payload: dict[str, object], says: str | None) -> None:
    """What is typed on a command line has typing mistakes, and a dropped field is noticed by nobody."""
    (shop / "forms.py").write_text(FORMS)
    done = onward("-A", "forms:app", "enqueue", "fill", json.dumps(payload))
    assert done.returncode == (0 if says is None else 2), done.stderr
    assert (says or "") in done.stderr
    assert (shop / "forms.db").exists() is (says is None)
