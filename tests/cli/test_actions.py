"""``onward actions``, and whose name the commands that act on many leave there."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable

import pytest
from click.testing import Result

from onward.actions import new_action
from onward.app import Onward
from onward.cli.actor import user_at_host
from onward.inspection import JobFilter

Invoke = Callable[..., Result]


def test_nothing_to_show_is_said(app: Onward, invoke: Invoke) -> None:
    """On stderr, since it is no data."""
    assert app.queues() == []
    result = invoke("actions")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "No actions: nobody has acted on many jobs, or on a queue, a breaker or a limit.\n"


def test_who_did_what_is_shown_newest_first(app: Onward, invoke: Invoke) -> None:
    """In words, and as JSON."""
    app.enqueue(app.definitions["echo"], "a")
    invoke("jobs", "cancel", "--queue", "mail", "--type", "echo", "--yes", "--actor", "ada")
    app.bulk("retry", queue="mail", on_progress=lambda _: False)
    invoke("queues", "pause", "mail", "--actor", "Bob Ross")
    invoke("queues", "resume", "mail", "--actor", "")
    head, _, *lines = invoke("actions").stdout.splitlines()
    assert head.split() == ["id", "began", "actor", "verb", "for", "matched", "done", "refused", "ended"]
    said = [" ".join(line.split()[3:]) for line in lines]
    assert said[0].startswith("- resume queues mail 1 1 0 ")
    assert said[1].startswith("Bob Ross pause queues mail 1 1 0 ")
    assert said[2].startswith("- retry statuses dead_letter, cancelled; queues mail 1 1 0 stopped ")
    assert said[3].startswith("ada cancel statuses queued, in_progress, retrying; types echo; queues mail 1 1 0 ")
    shown = [json.loads(line) for line in invoke("actions", "--json").stdout.splitlines()]
    assert [(one["verb"], one["actor"], one["done"]) for one in shown] == [
        ("resume", "", 1),
        ("pause", "Bob Ross", 1),
        ("retry", "", 1),
        ("cancel", "ada", 1),
    ]
    assert shown[3]["began_at"].endswith("Z")


def test_one_that_never_ended_says_so(app: Onward, invoke: Invoke) -> None:
    """It goes on, or whoever did it was killed: nobody can know which."""
    app.store.begin_action(new_action("cancel", JobFilter(key="k"), actor="", matched=7))
    assert invoke("actions").stdout.splitlines()[-1].endswith("  not yet, or killed")


def test_a_long_record_is_read_in_pages(app: Onward, invoke: Invoke) -> None:
    for _ in range(3):
        app.pause("mail")
    result = invoke("actions", "--limit", "2")
    last = result.stdout.splitlines()[-1].split()[0]
    assert result.stderr == f"There may be more: --before {last}\n"
    assert len(invoke("actions", "--before", last.lower(), "--json").stdout.splitlines()) == 1
    wrong = invoke("actions", "--before", "nothing")
    assert (wrong.exit_code, "--before is the id of an action, 26 characters" in wrong.stderr) == (2, True)


def test_without_a_name_it_is_the_user_and_the_host(app: Onward, invoke: Invoke) -> None:
    """Who typed the command, so that nobody has to think of it."""
    app.enqueue(app.definitions["echo"], "a")
    invoke("jobs", "cancel", "--queue", "mail", "--yes")
    invoke("queues", "pause", "mail")
    assert {one.actor for one in app.actions()} == {user_at_host()}
    assert user_at_host().endswith(f"@{socket.gethostname()}")


def test_a_user_without_a_name_is_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """As containers have them; and what is read from the system is made harmless."""
    monkeypatch.setattr("os.getuid", lambda: 4_000_000_000)
    monkeypatch.setattr("socket.gethostname", lambda: "web\n1" + "x" * 300)
    assert user_at_host().startswith("4000000000@web\\n1x")
    assert len(user_at_host()) == 255


@pytest.mark.parametrize("arguments", [("queues", "pause", "mail"), ("jobs", "cancel", "--queue", "mail", "--yes")])
def test_what_is_no_actor_changes_nothing(app: Onward, invoke: Invoke, arguments: tuple[str, ...]) -> None:
    """It would be a line of its own in every list."""
    app.enqueue(app.definitions["echo"], "a")
    result = invoke(*arguments, "--actor", "a\nb")
    assert (result.exit_code, "--actor is at most 255 printable characters" in result.stderr) == (2, True)
    assert (app.actions(), app.queues()[0].paused_at, len(app.find(status="queued"))) == ([], None, 1)


def test_single_jobs_leave_no_record_and_take_no_actor(app: Onward, invoke: Invoke) -> None:
    """An option that does nothing would mislead."""
    job = app.enqueue(app.definitions["echo"], "a")
    result = invoke("jobs", "cancel", job.id, "--actor", "ada")
    assert (result.exit_code, "jobs that are given by their ids leave none" in result.stderr) == (2, True)
    assert invoke("jobs", "cancel", job.id).exit_code == 0
    assert app.actions() == []
