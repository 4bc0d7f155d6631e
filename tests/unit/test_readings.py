import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from onward.alert_rules import AlertRules
from onward.errors import InvalidDefinition
from onward.metrics import Backlog, Flow, Metrics
from onward.presence import KnownWorker
from onward.readings import Reading, read
from onward.rollups import Histogram, bucket_of

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
RULES = AlertRules(depth=10, age="1h", run_p95="10s", run_p95_of={"train": "2h", "free": None}, dead_letters=3, unserved="5m")


def backlog(due: int = 1, ago: float = 1, type_: str = "work", queue: str = "mail", **more: Any) -> Backlog:
    return Backlog(queue=queue, type=type_, due=due, oldest_due_at=NOW - timedelta(seconds=ago), **more)


def flow(type_: str = "work", ran: Histogram | None = None, **outcomes: int) -> Flow:
    return Flow(queue="mail", type=type_, seconds=3600, outcomes=outcomes, ran=ran or {})


def worker(queues: tuple[str, ...] = (), types: tuple[str, ...] = ("work",), ago: float = 0) -> KnownWorker:
    seen = NOW - timedelta(seconds=ago)
    return KnownWorker(lease_owner="a", name="a", queues=queues, types=types, concurrency=1, started_at=seen, seen_at=seen)


def broken(rules: AlertRules = RULES, **look: Any) -> dict[str, Reading]:
    """The rules that are broken, by cause."""
    fields = {"workers": (worker(),)} | look
    return {one.cause: one for one in read(rules, Metrics(at=NOW, window=HOUR, **fields)) if one.is_over}


def test_an_idle_store_breaks_no_rule_and_is_not_even_measured() -> None:
    for workers in ((), (worker(),)):
        assert list(read(RULES, Metrics(at=NOW, window=HOUR, workers=workers))) == []
    running = Backlog(queue="mail", type="work", in_progress=5, dead_letters=50)
    assert list(read(RULES, Metrics(at=NOW, window=HOUR, backlog=(running,), workers=()))) == []


@pytest.mark.parametrize(("due", "is_broken", "is_clear"), [(10, False, False), (11, True, False), (8, False, True), (9, False, False)])
def test_depth_is_broken_above_its_threshold_and_clear_a_fifth_below_it(due: int, is_broken: bool, is_clear: bool) -> None:
    (reading,) = [
        one for one in read(RULES, Metrics(at=NOW, window=HOUR, backlog=(backlog(due),), workers=(worker(),))) if one.category == "depth"
    ]
    assert (reading.is_over, reading.is_clear) == (is_broken, is_clear)


def test_depth_counts_those_that_wait_for_others_and_says_where_it_is() -> None:
    found = broken(backlog=(backlog(6, blocked={"limit": 5}),))
    assert found["depth:mail/work"].message == "11 jobs of work in queue mail are due, more than 10"
    assert (found["depth:mail/work"].severity, found["depth:mail/work"].value, found["depth:mail/work"].threshold) == ("warning", 11, 10)


def test_age_is_told_and_that_the_queue_is_paused() -> None:
    found = broken(backlog=(backlog(1, 3661),), paused=frozenset({"mail"}))
    assert list(found) == ["age:mail/work"]
    assert (
        found["age:mail/work"].message
        == "the oldest job of work in queue mail has been due for 1h1m1s, longer than 1h; queue mail is paused"
    )
    assert broken(backlog=(backlog(1, 3600),)) == {}


@pytest.mark.parametrize(
    ("type_", "seconds", "is_broken"),
    [("work", 9, False), ("work", 12, True), ("train", 12, False), ("train", 8000, True), ("free", 8000, False)],
)
def test_runs_have_a_budget_by_type(type_: str, seconds: float, is_broken: bool) -> None:
    ran = {bucket_of(0.1): 19, bucket_of(seconds): 2}
    assert bool(broken(flows=(flow(type_, ran, completed=21),))) == is_broken


def test_too_few_runs_break_no_rule() -> None:
    few, enough = {bucket_of(60): 19}, {bucket_of(60): 20}
    assert broken(flows=(flow(ran=few, completed=0, dead_lettered=3),)) == {}
    assert broken(flows=(flow(completed=0, dead_lettered=19),), rules=AlertRules(dead_letters=None)) == {}
    assert list(broken(flows=(flow(ran=enough, completed=20),))) == ["run_p95:mail/work"]
    assert list(broken(flows=(flow(completed=18, dead_lettered=2),))) == ["success_rate:mail/work"]


@pytest.mark.parametrize(
    ("completed", "dead", "is_broken", "is_clear"),
    [(95, 5, False, False), (949, 51, True, False), (96, 4, False, True), (959, 41, False, False)],
)
def test_the_success_rate_is_broken_below_and_clear_a_fifth_of_the_failures_above(
    completed: int, dead: int, is_broken: bool, is_clear: bool
) -> None:
    look = Metrics(at=NOW, window=HOUR, flows=(flow(completed=completed, dead_lettered=dead),), workers=(worker(),))
    (reading,) = read(AlertRules(dead_letters=None), look)
    assert (reading.is_over, reading.is_clear) == (is_broken, is_clear)


def test_dead_letters_are_counted_within_the_window() -> None:
    assert broken(flows=(flow(dead_lettered=3),)) == {}
    found = broken(flows=(flow(dead_lettered=4),))["dead_letters:mail/work"]
    assert (found.message, found.severity) == (
        "4 jobs of work in queue mail became dead letters within the last 1h, more than 3",
        "critical",
    )


@pytest.mark.parametrize(
    ("workers", "cause", "message"),
    [
        ((), "no_worker:", "jobs have been due for 10m, and no worker is alive"),
        ((worker(ago=200),), "no_worker:", "jobs have been due for 10m, and no worker is alive"),
        ((worker(queues=("slow",)),), "unserved:mail/work", "work in queue mail has been due for 10m, and no worker serves queue mail"),
        (
            (worker(types=("other",)),),
            "unserved:mail/work",
            "work in queue mail has been due for 10m, and no worker serving queue mail knows the type work",
        ),
    ],
    ids=["nobody", "a dead one", "of another queue", "of another type"],
)
def test_jobs_that_nobody_serves_are_told_of(workers: tuple[KnownWorker, ...], cause: str, message: str) -> None:
    found = broken(backlog=(backlog(1, 600),), workers=workers)
    assert {one.cause: one.message for one in found.values()} == {cause: message}
    assert broken(backlog=(backlog(1, 300),), workers=workers) == {}


def test_what_is_paused_or_ran_a_moment_ago_is_not_unserved() -> None:
    old = backlog(1, 600)
    assert broken(backlog=(old,), workers=(), paused=frozenset({"mail"})) == {}
    assert broken(backlog=(old,), workers=(), latest=(flow(completed=1),)) == {}


def test_one_alert_tells_that_nobody_is_alive_whatever_waits() -> None:
    found = broken(backlog=(backlog(1, 600), backlog(1, 900, "other")), workers=())
    assert [one.message for one in found.values()] == ["jobs have been due for 15m, and no worker is alive"]


@pytest.mark.parametrize(
    ("look", "severity", "message"),
    [
        ({"backlog": (backlog(11),)}, "warning", "11 jobs of work in queue mail are due, more than 10"),
        ({"backlog": (backlog(1, 7200),)}, "warning", "the oldest job of work in queue mail has been due for 2h, longer than 1h"),
        (
            {"flows": (flow(ran={bucket_of(30): 20}, completed=20),)},
            "warning",
            r"one in twenty runs of work in queue mail took (29|30|31)(\.\d+)?s\S* or longer within the last 1h, and 10s is allowed",
        ),
        (
            {"flows": (flow(completed=92, dead_lettered=8),)},
            "critical",
            r"92\.0% of work in queue mail completed within the last 1h, and 95\.0% should",
        ),
    ],
    ids=["depth", "age", "run_p95", "success_rate"],
)
def test_each_says_how_bad_it_is_and_what_was_measured(look: dict[str, Any], severity: str, message: str) -> None:
    (found,) = broken(rules=AlertRules(depth=10, dead_letters=None), **look).values()
    assert found.severity == severity
    assert re.fullmatch(message, found.message), found.message


def test_those_that_nobody_serves_are_critical_wherever_they_stand_in_the_list() -> None:
    lanes = (backlog(1, 600, queue="a"), backlog(0, 600, queue="b"), backlog(1, 600, queue="c"))
    found = broken(backlog=lanes, workers=(worker(queues=("slow",)),), paused=frozenset({"a"}))
    assert {cause: one.severity for cause, one in found.items()} == {"unserved:c/work": "critical"}
    assert [one.severity for one in broken(backlog=(backlog(1, 600),), workers=()).values()] == ["critical"]


def test_one_job_is_one() -> None:
    found = broken(rules=AlertRules(depth=0, dead_letters=0), backlog=(backlog(1),), flows=(flow(dead_lettered=1),))
    assert [one.message.partition(" of")[0] for one in found.values()] == ["1 job", "1 job"]


@pytest.mark.parametrize(
    ("given", "read_as"),
    [
        ({"depth": 0}, 0),
        ({"depth": 9_999}, 9_999),
        ({"dead_letters": 0}, 0),
        ({"dead_letters": 1_000_000}, 1_000_000),
        ({"success_rate": 0}, 0.0),
        ({"success_rate": 1}, 1.0),
        ({"window": "1m"}, timedelta(minutes=1)),
        ({"every": 1}, timedelta(seconds=1)),
        ({"lasts": 0}, timedelta(0)),
    ],
    ids=str,
)
def test_the_least_and_the_most_that_a_rule_can_be(given: dict[str, Any], read_as: Any) -> None:
    ((name, value),) = given.items()
    assert getattr(AlertRules(**{name: value}), name) == read_as


@pytest.mark.parametrize(
    "name", ["depth", "age", "run_p95", "success_rate", "dead_letters", "unserved", "samples", "window", "every", "lasts"]
)
def test_what_is_refused_is_named(name: str) -> None:
    with pytest.raises(InvalidDefinition, match=rf"^AlertRules\({name}=\.\.\.\)"):
        AlertRules(**{name: "soon"})


def test_a_rule_that_is_left_out_measures_nothing() -> None:
    none = AlertRules(depth=None, age=None, run_p95=None, success_rate=None, dead_letters=None, unserved=None)
    look = Metrics(at=NOW, window=HOUR, backlog=(backlog(99, 99999),), flows=(flow(ran={bucket_of(99): 99}, dead_lettered=99),), workers=())
    assert list(read(none, look)) == []


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ({"depth": -1}, "depth"),
        ({"depth": 10_000}, "more are not counted"),
        ({"depth": True}, "depth"),
        ({"age": "soon"}, "age"),
        ({"run_p95_of": "2h"}, "run_p95_of"),
        ({"run_p95_of": {"train": "soon"}}, "run_p95_of"),
        ({"success_rate": 95}, "share from 0 to 1"),
        ({"success_rate": 1.5}, "share from 0 to 1"),
        ({"run_p95_of": {"train": -1}}, r"^AlertRules\(run_p95_of="),
        ({"window": "10s"}, "1m or longer"),
        ({"every": 0}, "1s or longer"),
        ({"samples": 1.5}, "samples"),
    ],
    ids=lambda given: given if isinstance(given, str) else next(iter(given.items()))[0] + str(next(iter(given.values()))),
)
def test_what_no_rule_can_be_is_refused_in_a_line(rules: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidDefinition, match=words):
        AlertRules(**rules)
