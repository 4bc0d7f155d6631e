"""``onward failures``: list, show, retry, purge."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from click.testing import Result

from onward.app import Onward
from onward.testing import drain

Invoke = Callable[..., Result]


@pytest.fixture
def group(app: Onward) -> str:
    """Three dead letters of one cause. Gives the id of the group."""
    app.enqueue_many([app.definitions["fail"].new_job(f"order {number}") for number in (7, 11, 4711)])
    drain(app)
    (found,) = app.failures.groups()
    return found.id


def test_groups_are_listed_with_the_commands_for_the_next_step(app: Onward, invoke: Invoke, group: str) -> None:
    result = invoke("failures", "list")
    (line,) = result.stdout.splitlines()[2:]
    assert line.split()[:3] == [group, "3", "fail"]
    assert "ValueError: cannot do order <n>" in line
    assert "cli/conftest.py:fail" in line
    assert f"failures show {group}'" in result.stderr
    assert f"failures retry {group} --pace 10/s'" in result.stderr
    (found,) = [json.loads(one) for one in invoke("failures", "list", "--json").stdout.splitlines()]
    assert (found["id"], found["count"], found["queues"]) == (group, 3, ["default"])


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["--type", "echo"], "No dead letters.\n"),
        (["--type", "fial"], "No job of the store is of the type 'fial': did you mean 'fail'?\nNo dead letters.\n"),
        (["--queue", "nowhere"], "No job of the store is in the queue 'nowhere'; known are default\nNo dead letters.\n"),
    ],
)
def test_where_nothing_matches_a_slip_is_pointed_out(app: Onward, invoke: Invoke, group: str, asked: list[str], said: str) -> None:
    app.enqueue(app.definitions["echo"], "a", queue="default")
    result = invoke("failures", "list", *asked)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", said)


def test_one_is_shown_with_a_whole_error_and_its_newest_jobs(app: Onward, invoke: Invoke, group: str) -> None:
    """Made harmless for the terminal."""
    result = invoke("failures", "show", group)
    assert "error   ValueError: cannot do order <n>" in result.stdout
    assert "ValueError: cannot do order 4711" in result.stdout
    assert "in fail" in result.stdout
    assert "\x1b" not in result.stdout
    assert all(job.id in result.stdout for job in app.find(status="dead_letter"))
    assert f"failures purge {group}'" in result.stderr
    found = json.loads(invoke("failures", "show", group, "--json").stdout)
    assert found["jobs"] == [job.id for job in app.failures.jobs(group)]
    assert found["error"].startswith("ValueError: cannot do order")


def test_secrets_are_shown_only_to_those_who_ask_for_them(app: Onward, invoke: Invoke) -> None:
    """Errors are redacted when they are stored; a row may have been written otherwise."""
    from onward.outcome import DeadLettered
    from onward.testing.conformance.steps import claim, enqueue, settle

    enqueue(app.store, "work")
    settle(app.store, claim(app.store)[0], DeadLettered("E: password=hunter"))
    (group,) = app.failures.groups()
    for command in (["list"], ["show", group.id]):
        for form in ([], ["--json"]):
            assert "hunter" not in invoke("failures", *command, *form).stdout
            assert "hunter" in invoke("failures", *command, *form, "--raw").stdout


def test_a_group_is_retried_at_a_pace_and_purged(app: Onward, invoke: Invoke, group: str) -> None:
    """Once it was agreed to; the record says who did it."""
    asked = invoke("failures", "retry", group)
    assert (asked.exit_code, asked.stdout) == (2, "")
    assert "this is for 3 jobs, and there is no terminal to ask on: pass --yes" in asked.stderr
    assert invoke("failures", "retry", group, "--dry-run").stdout == "3 jobs match\n"
    result = invoke("failures", "retry", group, "--pace", "1000/s", "--yes", "--actor", "ada")
    assert (result.exit_code, result.stdout) == (0, "3 of 3 jobs queued again\n")
    assert len(app.find(status="queued")) == 3
    drain(app)
    assert invoke("failures", "purge", group.upper(), "--yes", "--json").stdout.startswith('{"verb": "delete", "matched": 3, "done": 3')
    assert app.find() == []
    assert [(one.verb, one.actor) for one in app.actions()][1] == ("retry", "ada")
    assert f"group {group}" in invoke("actions").stdout


def test_jobs_of_a_type_are_retried_at_a_pace(app: Onward, invoke: Invoke, group: str) -> None:
    result = invoke("jobs", "retry", "--type", "fail", "--pace", "1000/s", "--yes")
    assert (result.exit_code, result.stdout) == (0, "3 of 3 jobs queued again\n")


@pytest.mark.parametrize(
    ("command", "code", "says"),
    [
        (["failures", "show", "0123456789"], 1, "Error: there is no group of failures '0123456789': 'onward failures list' shows"),
        (["failures", "retry", "0123456789", "--yes"], 1, "Error: there is no group of failures '0123456789'"),
        (["failures", "purge", "x\ny", "--yes"], 1, "Error: there is no group of failures"),
        (["failures", "retry", "0123456789", "--pace", "fast"], 2, "--pace is a rate such as '10/s'"),
        (["jobs", "retry", "--type", "fail", "--pace", "10", "--yes"], 2, "--pace is a rate such as '10/s'"),
        (["jobs", "retry", "01JE0000000000000000000000", "--pace", "10/s"], 2, "--pace is for all jobs that match"),
    ],
)
def test_what_is_not_there_or_makes_no_sense_is_one_line(app: Onward, invoke: Invoke, command: list[str], code: int, says: str) -> None:
    app.store.open()
    result = invoke(*command)
    assert (result.exit_code, result.stdout) == (code, "")
    assert says in " ".join(result.stderr.split())


def test_where_nothing_died_that_is_said(app: Onward, invoke: Invoke) -> None:
    app.store.open()
    assert invoke("failures", "list").stderr == "No dead letters.\n"
    assert invoke("failures", "list", "--json").stdout == ""
