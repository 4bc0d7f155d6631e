"""``onward queues`` on a store with jobs in it."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from click.testing import Result

from onward.app import Onward
from tests.cli.conftest import Run

Invoke = Callable[..., Result]


def test_a_queue_is_paused_listed_and_resumed(app: Onward, invoke: Invoke) -> None:
    """Each says what it did, in words and as JSON."""
    job = app.enqueue(app.definitions["fail"], "a")
    assert invoke("queues", "pause", "default", "mail").stdout == "default: paused\nmail: paused\n"
    assert invoke("queues", "pause", "mail").stdout == "mail: paused already\n"
    head, _, first, second = invoke("queues", "list").stdout.splitlines()
    assert head.split() == ["queue", "waiting", "in_progress", "paused"]
    assert (first.split()[:3], second.split()[:3]) == (["default", "1", "0"], ["mail", "0", "0"])
    shown = [json.loads(line) for line in invoke("queues", "list", "--json").stdout.splitlines()]
    assert [(one["name"], one["waiting"], one["in_progress"]) for one in shown] == [("default", 1, 0), ("mail", 0, 0)]
    assert all(one["paused_at"].endswith("Z") for one in shown)
    assert "queues resume default' lets it start." in invoke("jobs", "show", job.id).stdout
    resumed = invoke("queues", "resume", "default", "nowhere", "--json").stdout.splitlines()
    assert [json.loads(line) for line in resumed] == [
        {"name": "default", "paused": False, "changed": True},
        {"name": "nowhere", "paused": False, "changed": False},
    ]


def test_nothing_to_list_is_said(app: Onward, invoke: Invoke) -> None:
    """On stderr, since it is no data."""
    assert app.queues() == []
    result = invoke("queues", "list")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "No queues: none is paused, and no job waits or runs.\n")


@pytest.mark.parametrize("verb", ["pause", "resume"])
def test_a_name_that_no_queue_can_have_changes_nothing(app: Onward, invoke: Invoke, verb: str) -> None:
    """Also not the queues that were named before it."""
    app.pause("other")
    result = invoke("queues", verb, "mail", "other", "no queue")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "a queue is 1 to 100 letters" in result.stderr
    assert [one.name for one in app.queues()] == ["other"]


def test_queues_that_are_not_named_are_asked_for(invoke: Invoke) -> None:
    """One line, and the exit code of a wrong usage."""
    result = invoke("queues", "pause")
    assert result.exit_code == 2
    assert "Missing argument 'QUEUE...'" in result.stderr


def test_a_queue_that_nobody_knows_is_paused_and_told(onward: Run) -> None:
    """Whoever misspells it in a hurry would believe that it stands still."""
    onward("-A", "shop:app", "migrate")
    result = onward("-A", "shop:app", "queues", "pause", "mial")
    assert (result.returncode, result.stdout) == (0, "mial: paused\n")
    assert "is declared for queue 'mial', and none is in it" in result.stderr
    assert "'mail'" in result.stderr
    assert onward("-A", "shop:app", "queues", "pause", "mail").stderr == ""


def test_a_pause_that_was_forgotten_is_a_finding(app: Onward, invoke: Invoke) -> None:
    """It looks like workers that do nothing."""
    app.pause("mail")
    found = [json.loads(line) for line in invoke("doctor", "--json").stdout.splitlines()]
    (told,) = (one for one in found if one["name"] == "paused queues")
    assert told["level"] == "warning"
    assert told["text"].startswith("no job of queue mail starts")
    assert told["text"].endswith("onward queues resume mail")
