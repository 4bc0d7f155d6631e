"""``onward history``: the attempts of all jobs."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from click.testing import Result

from onward import Onward
from onward.attempts import MOST_LOOKED_AT
from onward.testing import drain

Invoke = Callable[..., Result]


@pytest.fixture
def failed(app: Onward) -> Onward:
    """Three jobs failed, and one completed, of which nothing is kept."""
    echo, fail = app.definitions["echo"], app.definitions["fail"]
    app.enqueue_many([fail.new_job(text) for text in ("a", "b", "c")])
    app.enqueue(echo, "fine")
    drain(app)
    return app


def test_attempts_are_listed_with_their_error_on_one_line(failed: Onward, invoke: Invoke) -> None:
    result = invoke("history")
    head, _, *lines = result.stdout.splitlines()
    assert head.split() == ["ended", "job", "type", "queue", "attempt", "outcome", "took", "processed", "failed", "worker", "error"]
    assert len(lines) == 3
    assert all("dead_lettered" in line and "ValueError: cannot do" in line and "second line" not in line for line in lines)
    found = [json.loads(one) for one in invoke("history", "--json").stdout.splitlines()]
    assert {(one["type"], one["queue"], one["outcome"], one["attempt"]) for one in found} == {("fail", "default", "dead_lettered", 1)}
    assert "second line" in found[0]["error"]


def test_pages_follow_one_another(failed: Onward, invoke: Invoke) -> None:
    first = invoke("history", "--limit", "2", "--json")
    said, cursor = first.stderr.strip().rsplit(" ", 1)
    assert said == "There are more: --before"
    second = invoke("history", "--limit", "2", "--before", cursor, "--json")
    ids = [json.loads(one)["job_id"] for page in (first, second) for one in page.stdout.splitlines()]
    assert (len(ids), len(set(ids)), second.stderr) == (3, 3, "")


@pytest.mark.parametrize(
    ("options", "count"),
    [
        (["--type", "fail"], 3),
        (["--type", "echo"], 0),
        (["--queue", "mail"], 0),
        (["--queue", "default", "--outcome", "dead_lettered", "--outcome", "lost"], 3),
        (["--outcome", "retried"], 0),
        (["--worker", "nobody:1:x"], 0),
        (["--since", "1h"], 3),
        (["--since", "2020-01-01T00:00:00Z", "--until", "2021-01-01T00:00:00Z"], 0),
        (["--until", "1h"], 0),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_each_option_narrows(failed: Onward, invoke: Invoke, options: list[str], count: int) -> None:
    result = invoke("history", "--json", *options)
    assert (result.exit_code, len(result.stdout.splitlines())) == (0, count), result.stderr
    if not count:
        assert "No attempts." not in result.stdout


def test_a_look_that_stopped_says_where_to_go_on(failed: Onward, invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was found so far, and that is not all there is."""
    look = type(failed.store).attempts

    def near(self: object, where: object, **asked: object) -> object:
        return look(self, where, **asked, looks=2)  # type: ignore[arg-type]

    monkeypatch.setattr(type(failed.store), "attempts", near)
    result = invoke("history", "--type", "echo", "--limit", "1")
    assert result.stdout == ""
    said, cursor = result.stderr.strip().splitlines()[-1].rsplit(" ", 1)
    assert said == f"Looked at {MOST_LOOKED_AT:,} attempts, and stopped there. To go on: --before"
    assert invoke("history", "--type", "echo", "--limit", "1", "--before", cursor).stderr.endswith("No attempts.\n")


def test_secrets_that_were_written_by_hand_are_not_shown_unless_they_are_asked_for(failed: Onward, invoke: Invoke, url: str) -> None:
    """What a worker writes has none."""
    import sqlite3

    with sqlite3.connect(url.removeprefix("sqlite:///")) as connection:
        connection.execute("UPDATE onward_history SET error = 'password=hunter2'")
    connection.close()
    assert "hunter2" not in invoke("history").stdout + invoke("history", "--json").stdout
    assert "hunter2" in invoke("history", "--raw").stdout
    assert "hunter2" in invoke("history", "--raw", "--json").stdout


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--before", "01JTDX2F8M6Z0Q4V5N7R9K3B1C"], "Error: --before is where the page before says that the next one begins"),
        (["--since", "yesterday"], "Error: --since: 'yesterday' is neither a duration"),
        (["--until", "2026-01-01"], "Error: --until: '2026-01-01' is neither a duration"),
        (["--outcome", "dead_letter"], "dead_letter"),
        (["--limit", "0"], "--limit"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_what_makes_no_sense_is_one_line(app: Onward, invoke: Invoke, options: list[str], says: str) -> None:
    app.store.open()
    result = invoke("history", *options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert says in result.stderr


def test_nothing_is_listed_where_nothing_ended(app: Onward, invoke: Invoke) -> None:
    app.store.open()
    assert invoke("history").stderr == "No attempts.\n"
