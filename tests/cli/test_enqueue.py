"""``onward enqueue``: a job from the shell, as durable as one from code."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

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
