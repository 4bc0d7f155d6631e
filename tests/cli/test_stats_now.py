"""``onward stats now``: how each queue is doing, once or again and again, and as text for Prometheus."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from click.testing import Result

from onward import Onward
from onward.cli.stats_now import put_now, seconds
from onward.inspection import MOST_COUNTED
from onward.metrics import Backlog, Metrics

Invoke = Callable[..., Result]


def work(app: Onward) -> None:
    app.enqueue_many([app.definitions["echo"].new_job(str(number)) for number in range(3)])
    app.enqueue(app.definitions["fail"], "this")
    app.worker(concurrency=1, drain=True).run()
    app.enqueue(app.definitions["echo"], "waiting")
    app.enqueue(app.definitions["echo"], "later", delay="1h")


def test_it_says_what_waits_and_what_ended(app: Onward, invoke: Invoke) -> None:
    work(app)
    lines = [line.split() for line in invoke("stats", "now").stdout.splitlines()]
    (waiting, ended), (dead, failed) = ([line for line in lines if name in line[1:2]] for name in ("echo", "fail"))
    assert (waiting[2], waiting[4:7], ended[2:6], ended[7]) == ("1", ["-", "0", "0"], ["3", "0", "0", "0"], "100.0%")
    assert (dead[2], dead[6], failed[2:6], failed[7]) == ("0", "1", ["0", "0", "1", "0"], "0.0%")


def test_it_is_the_first_of_all_answers_and_of_no_query(app: Onward, invoke: Invoke) -> None:
    work(app)
    answers = [json.loads(line) for line in invoke("stats", "--json").stdout.splitlines()]
    assert answers[0]["question"] == "now"
    assert [(row["type"], row["due"], row["outcomes"]) for row in answers[0]["rows"]] == [
        ("fail", 0, {"dead_lettered": 1}),
        ("echo", 1, {"completed": 3}),
    ]
    assert answers[0]["rows"][1]["ran"]["p50"] > 0
    assert "now" not in [json.loads(line)["question"] for line in invoke("stats", "--sql", "--json").stdout.splitlines()]


def test_an_empty_store_has_nothing_to_tell(app: Onward, invoke: Invoke) -> None:
    app.store.open()
    assert invoke("stats", "now").stdout.splitlines()[1:] == [
        "no worker is running",
        "nothing waits or runs",
        "",
        "What ended in the last 1h?",
        "none",
    ]
    app.worker().lookout.tick()
    assert invoke("stats", "now").stdout.splitlines()[1] == "1 worker running"
    assert json.loads(invoke("stats", "now", "--json").stdout)["workers"] == 1


def test_prometheus_reads_it(app: Onward, invoke: Invoke) -> None:
    work(app)
    lines = invoke("stats", "--prometheus").stdout.splitlines()
    assert 'onward_runs_total{queue="mail",type="echo",outcome="completed"} 3' in lines
    assert [line for line in lines if "oldest" not in line] == [
        line for line in app.metrics.prometheus().splitlines() if "oldest" not in line
    ]


def test_it_looks_again_until_it_is_ended(app: Onward, url: str, environment: dict[str, str]) -> None:
    """One line of JSON for each look."""
    work(app)
    command = [sys.executable, "-m", "onward", "-u", url, "stats", "now", "--watch", "0.2", "--json"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        seen = [json.loads(watching.stdout.readline())["question"] for _ in range(3)]
        watching.send_signal(signal.SIGINT)
        assert watching.wait(60) == 130
    assert seen == ["now"] * 3


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (["now", "--sql"], "`now` is made of several queries, and has none to print"),
        (["--prometheus", "--json"], "--prometheus prints all that there is, once, in its own form"),
        (["--prometheus", "now"], "--prometheus prints all that there is, once, in its own form"),
        (["--watch", "1", "--sql"], "a query does not change"),
        (["--watch", "0"], "--watch"),
        (["--prometheus", "--watch", "1"], "leave QUESTION, --sql, --json and --watch out"),
        (["--window", "5s"], "--window is 1m or longer: what ended is counted by the minute"),
        (["--window", "soon"], "--window 'soon' is not a duration"),
    ],
)
def test_what_makes_no_sense_is_one_line(invoke: Invoke, command: list[str], says: str) -> None:
    result = invoke("stats", *command)
    assert (result.exit_code, result.stdout) == (2, "")
    assert says in result.stderr


@pytest.mark.parametrize(
    ("time", "shown"), [(None, None), (0.00123, "1.23ms"), (0.0994, "99.4ms"), (0.1, "0.1s"), (1.534, "1.53s"), (125.0, "2m5s")]
)
def test_a_time_is_shown_in_its_largest_unit(time: float | None, shown: str | None) -> None:
    assert seconds(time) == shown


def test_a_count_that_reached_its_bound_says_that_there_may_be_more(capsys: pytest.CaptureFixture[str]) -> None:
    many = Backlog(queue="q", type="a", due=7, blocked={"limit": MOST_COUNTED, "type": 2}, dead_letters=MOST_COUNTED)
    put_now(Metrics(at=datetime(2026, 3, 1, tzinfo=UTC), window=timedelta(hours=1), backlog=(many,)))
    line = capsys.readouterr().out.splitlines()[4]
    assert "10k+ by limit, 2 by type" in line
    assert line.split()[-2] == "10k+"
