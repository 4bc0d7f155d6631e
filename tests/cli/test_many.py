"""``onward jobs cancel|retry|run|delete`` for all jobs that match."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import Result

from onward.app import Onward
from tests.cli.conftest import Run

Invoke = Callable[..., Result]


@pytest.fixture
def mails(app: Onward) -> list[str]:
    """Three jobs that wait, and one that does not match them."""
    app.enqueue(app.definitions["fail"], "other")
    return [app.enqueue(app.definitions["echo"], str(number)).id for number in range(3)]


def statuses(app: Onward, ids: list[str]) -> list[str]:
    return [app.get(one).status.value for one in ids]


def test_all_that_match_are_cancelled_and_retried(app: Onward, invoke: Invoke, mails: list[str]) -> None:
    """Once it was agreed to, and no others."""
    assert invoke("jobs", "cancel", "--type", "echo", "--yes").stdout == "3 of 3 jobs cancelled or asked to stop\n"
    assert statuses(app, mails) == ["cancelled"] * 3
    assert len(app.find(status="queued")) == 1
    result = invoke("jobs", "retry", "--type", "echo", "--status", "cancelled", "--yes", "--json")
    (action,) = app.actions(limit=1)
    expected = {"verb": "retry", "matched": 3, "done": 3, "refused": 0, "reasons": {}, "was_stopped": False, "action_id": action.id}
    assert json.loads(result.stdout) == expected
    assert statuses(app, mails) == ["queued"] * 3


def test_a_dry_run_only_counts(app: Onward, invoke: Invoke, mails: list[str]) -> None:
    assert invoke("jobs", "delete", "--type", "echo", "--dry-run").stdout == "3 jobs match\n"
    assert json.loads(invoke("jobs", "delete", "--type", "echo", "--dry-run", "--json").stdout)["matched"] == 3
    assert statuses(app, mails) == ["queued"] * 3


def test_nobody_to_ask_changes_nothing(app: Onward, invoke: Invoke, mails: list[str]) -> None:
    """A script says --yes, or it has not thought of it."""
    result = invoke("jobs", "cancel", "--type", "echo")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "this is for 3 jobs, and there is no terminal to ask on: pass --yes" in result.stderr
    assert statuses(app, mails) == ["queued"] * 3


@pytest.mark.parametrize(("answer", "code", "status"), [("y\n", 0, "cancelled"), ("n\n", 1, "queued"), ("\n", 1, "queued")])
def test_a_person_is_asked_first(
    app: Onward, invoke: Invoke, mails: list[str], monkeypatch: pytest.MonkeyPatch, answer: str, code: int, status: str
) -> None:
    """Only a yes is a yes."""
    monkeypatch.setattr("onward.cli.asking.has_terminal", lambda: True)
    result = invoke("jobs", "cancel", "--type", "echo", input=answer)
    assert result.exit_code == code
    assert "Cancel 3 jobs?" in result.stderr
    assert statuses(app, mails) == [status] * 3


def test_what_is_refused_is_told(app: Onward, invoke: Invoke) -> None:
    """With the reason, and the exit code says that not all was done."""
    ids = []
    for number in range(7):
        ids.append(app.enqueue(app.definitions["echo"], "a", key=f"k{number}").id)
        app.cancel(ids[-1])
        app.enqueue(app.definitions["echo"], "b", key=f"k{number}")
    result = invoke("jobs", "retry", "--status", "cancelled", "--yes")
    assert (result.exit_code, result.stdout) == (1, "0 of 7 jobs queued again\n")
    lines = result.stderr.splitlines()
    assert [line.partition(":")[0] for line in lines[:5]] == ids[:1:-1]
    assert lines[5] == "… and 2 more were refused (--json says why of the first 7)"


def test_jobs_are_listed_and_cancelled_by_their_key(app: Onward, invoke: Invoke, mails: list[str]) -> None:
    """What somebody has in hand is often the key, not the id."""
    echo = app.definitions["echo"]
    meant = [app.enqueue(echo, "a", key="order-7").id, app.enqueue(echo, "b", key="order-7", owner="eve").id]
    app.enqueue(echo, "c", key="order-70")
    listed = [json.loads(line)["id"] for line in invoke("jobs", "list", "--key", "order-7", "--json").stdout.splitlines()]
    assert listed == meant[::-1]
    assert invoke("jobs", "cancel", "--key", "order-7", "--yes").stdout == "2 of 2 jobs cancelled or asked to stop\n"
    assert statuses(app, meant) == ["cancelled"] * 2
    assert len(app.find(status="queued")) == len(mails) + 2
    assert app.enqueue(echo, "a", key="order-7").is_new


@pytest.mark.parametrize("named", [[], ["--status", "cancelled", "--yes"]], ids=["by id", "by status"])
def test_a_retry_names_the_job_that_holds_the_key(app: Onward, invoke: Invoke, named: list[str]) -> None:
    """One line, with both ids: the person looks at the one, and leaves the other or cancels it."""
    first = app.enqueue(app.definitions["echo"], "a", key="k").id
    app.cancel(first)
    holder = app.enqueue(app.definitions["echo"], "b", key="k").id
    result = invoke("jobs", "retry", *(named or [first]))
    assert result.exit_code == 1
    assert f"the key 'k' of echo is held by job {holder}: job {first} cannot run beside it" in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert statuses(app, [first, holder]) == ["cancelled", "queued"]
    assert f"a retry is refused while job {holder} holds its key 'k'" in invoke("jobs", "show", first).stdout
    app.cancel(holder)
    assert "a retry is refused" not in invoke("jobs", "show", first).stdout
    assert invoke("jobs", "retry", first).exit_code == 0
    assert statuses(app, [first]) == ["queued"]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (("cancel",), "say which jobs: their ids, or --status, --type, --queue, --key or --owner"),
        (("cancel", "01JE0000000000000000000000", "--queue", "a"), "not both"),
        (("cancel", "01JE0000000000000000000000", "--dry-run"), "ids need no counting"),
        (("retry", "--status", "queued", "--yes"), "retry is not for jobs that are queued, only for dead_letter, cancelled"),
        (("delete", "--status", "in_progress", "--yes"), "delete is not for jobs that are in_progress"),
    ],
)
def test_what_cannot_be_meant_is_one_line(app: Onward, invoke: Invoke, mails: list[str], asked: tuple[Any, ...], said: str) -> None:
    result = invoke("jobs", *asked)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in " ".join(result.stderr.split())
    assert statuses(app, mails) == ["queued"] * 3


def test_nothing_that_matches_is_nothing_done(app: Onward, invoke: Invoke, mails: list[str]) -> None:
    """Nor is anybody asked."""
    result = invoke("jobs", "delete", "--queue", "nowhere")
    assert (result.exit_code, result.stdout) == (0, "no job matches\n")


@pytest.mark.parametrize("verb", ["cancel", "retry", "run", "delete"])
@pytest.mark.parametrize(
    ("named", "said"),
    [
        (("--type", "ecko"), "No job of the store is of the type 'ecko': did you mean 'echo'?\n"),
        (("--type", "payday"), "No job of the store is of the type 'payday'; known are echo, fail\n"),
        (("--queue", "mial"), "No job of the store is in the queue 'mial': did you mean 'mail'?\n"),
        (("--key", "order-7"), "No job of the store has the key 'order-7'.\n"),
        (("--owner", "eve"), ""),
    ],
)
def test_a_name_that_no_job_has_is_pointed_out(invoke: Invoke, mails: list[str], verb: str, named: tuple[str, str], said: str) -> None:
    """A slip of the pen must not look like work that is done already."""
    result = invoke("jobs", verb, *named, "--yes")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "no job matches\n", said)


def test_a_misspelt_name_beside_one_that_matches_is_pointed_out(app: Onward, invoke: Invoke, mails: list[str]) -> None:
    """What is done for the one hides that nothing is done for the other."""
    result = invoke("jobs", "cancel", "--type", "echo", "--type", "fial", "--dry-run", "--json")
    assert json.loads(result.stdout)["matched"] == 3
    assert result.stderr == "No job of the store is of the type 'fial': did you mean 'fail'?\n"
    assert "did you mean 'fail'?\nNo jobs.\n" in invoke("jobs", "list", "--type", "fial").stderr


def test_a_long_list_of_names_is_not_told(app: Onward, invoke: Invoke) -> None:
    """A store of many types would fill the screen."""
    for number in range(25):
        app.enqueue(app.definitions["echo"], "a", queue=f"tenant-{number}")
    assert invoke("jobs", "cancel", "--queue", "xyz").stderr == "No job of the store is in the queue 'xyz'.\n"


def test_what_the_application_declares_is_no_slip(onward: Run) -> None:
    """No job of it may have been enqueued yet, nor be left."""
    assert onward("-A", "shop:app", "migrate").returncode == 0
    said = onward("-A", "shop:app", "jobs", "cancel", "--type", "broken", "--queue", "mail", "--type", "brokn")
    slip = "No job of the store is of the type 'brokn', and the application declares none: did you mean 'broken'?\n"
    assert (said.returncode, said.stdout, said.stderr) == (0, "no job matches\n", slip)
