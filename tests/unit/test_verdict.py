"""What becomes of alerts over simulated days: each opens once and is over once, and noise tells nobody anything."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from onward.alert_rules import AlertRules
from onward.alerts import Alert
from onward.metrics import Backlog, Flow, Metrics
from onward.presence import KnownWorker
from onward.readings import CATEGORIES
from onward.rollups import bucket_of
from onward.verdict import MOST_NEW, Condition, as_alerts_are, judge

BEGIN = datetime(2026, 3, 1, tzinfo=UTC)
HOUR, EVERY = timedelta(hours=1), timedelta(minutes=5)
A_DAY = int(timedelta(days=1) / EVERY)
RULES = AlertRules()
Told = list[tuple[str, int]]
"""What was told: ``+cause`` or ``-cause``, and at which look."""


def days(looks: Iterable[dict[str, Any]], rules: AlertRules = RULES, *, restarts: bool = False) -> Told:
    """Look each five minutes. With ``restarts`` nothing is known before a look but what was written down by the one before."""
    told: Told = []
    known: dict[str, Condition] = {}
    for number, seen in enumerate(looks):
        verdict = judge(rules, Metrics(at=BEGIN + number * EVERY, window=HOUR, **seen), known)
        told += [("+" + one.cause, number) for one in verdict.opened] + [("-" + cause, number) for cause in verdict.resolved]
        known = {one.cause: one for one in verdict.conditions}
        if restarts:
            known = {one.cause: Condition(one.cause, one.is_open, one.since) for one in verdict.conditions}
    return told


def worker(number: int, **fields: Any) -> KnownWorker:
    at = BEGIN + number * EVERY
    fields = {"queues": (), "types": ("work",)} | fields
    return KnownWorker(lease_owner="a", name="a", concurrency=1, started_at=at, seen_at=at, **fields)


def due(number: int, count: int, ago: timedelta = timedelta(0), **more: Any) -> dict[str, Any]:
    at = BEGIN + number * EVERY - ago
    backlog = (Backlog(queue="mail", type="work", due=count, oldest_due_at=at),) if count else ()
    return {"backlog": backlog, "workers": (worker(number),)} | more


def ended(number: int, completed: int = 0, dead: int = 0, seconds: float = 0.1) -> dict[str, Any]:
    runs = {bucket_of(seconds): completed + dead}
    flow = Flow(queue="mail", type="work", seconds=3600, outcomes={"completed": completed, "dead_lettered": dead}, ran=runs)
    return {"flows": (flow,) if completed or dead else (), "workers": (worker(number),)}


BAD: dict[str, Callable[[int], dict[str, Any]]] = {
    "depth:mail/work": lambda number: due(number, 1001),
    "age:mail/work": lambda number: due(number, 1, timedelta(hours=2)),
    "run_p95:mail/work": lambda number: ended(number, 100, seconds=30),
    "success_rate:mail/work": lambda number: ended(number, 90, 10),
    "dead_letters:mail/work": lambda number: ended(number, 1000, 11),
    "unserved:mail/work": lambda number: due(number, 1, timedelta(minutes=20), workers=(worker(number, queues=("slow",)),)),
    "no_worker:": lambda number: due(number, 1, timedelta(minutes=20), workers=()),
}
GOOD: dict[str, Callable[[int], dict[str, Any]]] = {
    "idle": lambda number: {},
    "busy": lambda number: due(number, 500) | {"flows": ended(number, 1000, 3)["flows"]},
}


@pytest.mark.parametrize("restarts", [False, True], ids=["one watcher", "another at each look"])
@pytest.mark.parametrize("good", GOOD)
@pytest.mark.parametrize("cause", BAD)
def test_each_rule_tells_once_that_it_is_broken_and_once_that_it_is_over(cause: str, good: str, restarts: bool) -> None:
    """A quiet day, a bad one, a quiet one."""
    looks = [BAD[cause](n) if A_DAY <= n < 2 * A_DAY else GOOD[good](n) for n in range(3 * A_DAY)]
    assert days(looks, restarts=restarts) == [("+" + cause, A_DAY + 1), ("-" + cause, 2 * A_DAY + 1)]


@pytest.mark.parametrize("cause", BAD)
def test_what_holds_at_single_looks_only_is_noise(cause: str) -> None:
    """Two days at which every look is bad or not by chance, never twice in a row."""
    chance = Random(7)
    looks: list[dict[str, Any]] = []
    was_bad = False
    for n in range(2 * A_DAY):
        was_bad = not was_bad and chance.random() < 0.5
        looks.append(BAD[cause](n) if was_bad else GOOD["busy"](n))
    assert days(looks) == []


@pytest.mark.parametrize("seed", range(5))
def test_noise_around_the_threshold_of_an_open_alert_does_not_end_it(seed: int) -> None:
    """Depth between 850 and 1,150 for two days: it opens once, and stays."""
    chance = Random(seed)
    told = days([due(n, chance.randint(850, 1150)) for n in range(2 * A_DAY)])
    assert [what for what, _ in told] == ["+depth:mail/work"]


def test_an_idle_queue_is_never_told_of() -> None:
    """Nor one that was never used, nor one whose jobs are all planned for later."""
    assert days([{}] * 5 * A_DAY) == []
    assert days([{"workers": (worker(n),)} for n in range(5 * A_DAY)]) == []


def test_it_can_come_back() -> None:
    """And is told of again."""
    looks = [due(n, 2000 if n // 50 % 2 else 0) for n in range(250)]
    assert [what for what, _ in days(looks)] == ["+depth:mail/work", "-depth:mail/work"] * 2


def test_without_a_duration_it_is_told_at_once() -> None:
    """Both times."""
    rules = AlertRules(lasts=0)
    assert days([due(n, 2000 if n == 3 else 0) for n in range(6)], rules) == [("+depth:mail/work", 3), ("-depth:mail/work", 4)]


def test_a_clock_that_went_back_delays_and_loses_nothing() -> None:
    """What was seen first in the future counts from now on."""
    ahead = {"depth:mail/work": Condition("depth:mail/work", since=BEGIN + 10 * HOUR)}
    first = judge(RULES, Metrics(at=BEGIN, window=HOUR, **due(0, 2000)), ahead)
    assert first.conditions == (Condition("depth:mail/work", since=BEGIN),)
    second = judge(RULES, Metrics(at=BEGIN + EVERY, window=HOUR, **due(1, 2000)), {one.cause: one for one in first.conditions})
    assert [one.cause for one in second.opened] == ["depth:mail/work"]


def test_a_look_takes_up_a_bounded_number_of_causes_and_the_next_the_others() -> None:
    """However many types there are."""
    many = tuple(Backlog(queue="mail", type=f"type{n:04}", due=2000, oldest_due_at=BEGIN) for n in range(250))
    told = days([{"backlog": many, "workers": (worker(n, types=tuple(one.type for one in many)),)} for n in range(4)])
    assert [sum(number == n for _, number in told) for n in range(4)] == [0, MOST_NEW, MOST_NEW, 50]


def test_one_that_is_forgotten_leaves_the_others_as_they_are() -> None:
    """What was noise in one queue hides nothing of another."""
    known = {cause: Condition(cause, since=BEGIN) for cause in ("depth:a/work", "depth:mail/work")}
    verdict = judge(RULES, Metrics(at=BEGIN + EVERY, window=HOUR, **due(1, 2000)), known)
    assert [one.cause for one in verdict.opened] == ["depth:mail/work"]
    assert [one.cause for one in verdict.conditions] == ["depth:mail/work"]


def test_a_value_is_told_to_a_millionth() -> None:
    """A rate of many digits says no more."""
    verdict = judge(AlertRules(lasts=0, dead_letters=None), Metrics(at=BEGIN, window=HOUR, **ended(0, 200, 100)), {})
    assert '"value":0.666667,' in verdict.opened[0].context


def test_an_alert_says_what_was_measured_against_what() -> None:
    """For programs, as JSON."""
    verdict = judge(AlertRules(lasts=0), Metrics(at=BEGIN, window=HOUR, **due(0, 2000)), {})
    (alert,) = verdict.opened
    assert alert.context == '{"metric":"depth","value":2000,"threshold":1000,"queue":"mail","type":"work"}'


@pytest.fixture
def an_alert() -> Alert:
    return Alert(
        id="01JE0000000000000000000000", category="depth", severity="warning", cause="depth:mail/work", message="", opened_at=BEGIN
    )


def test_an_alert_that_somebody_deleted_opens_again_while_its_cause_lasts() -> None:
    known = as_alerts_are({"depth:mail/work": Condition("depth:mail/work", is_open=True)}, [])
    first = judge(RULES, Metrics(at=BEGIN, window=HOUR, **due(0, 2000)), known)
    second = judge(RULES, Metrics(at=BEGIN + EVERY, window=HOUR, **due(1, 2000)), {one.cause: one for one in first.conditions})
    assert ([one.cause for one in first.opened], [one.cause for one in second.opened]) == ([], ["depth:mail/work"])


@pytest.mark.parametrize("known", [{}, {"depth:mail/work": Condition("depth:mail/work", since=BEGIN)}], ids=["lost", "not open"])
def test_an_alert_of_which_nothing_is_known_any_more_is_resolved_all_the_same(known: dict[str, Condition], an_alert: Alert) -> None:
    told = as_alerts_are(known, [an_alert])
    assert told == {"depth:mail/work": Condition("depth:mail/work", is_open=True)}
    assert judge(AlertRules(lasts=0), Metrics(at=BEGIN, window=HOUR), told).resolved == ("depth:mail/work",)


def test_alerts_that_no_rule_opened_are_no_condition(an_alert: Alert) -> None:
    assert as_alerts_are({}, [replace(an_alert, category="breaker_open", cause="breaker:s3")]) == {}


def test_every_rule_has_a_category_that_is_known() -> None:
    found = {cause.partition(":")[0] for cause in BAD}
    assert found == CATEGORIES


@pytest.mark.parametrize(
    ("due_now", "blocked", "is_told"),
    [(0, {"breaker": 2000}, False), (0, {"type": 2000}, False), (0, {"limit": 2000}, True), (1, {"breaker": 2000}, True)],
    ids=["a breaker", "a type", "a limit", "one is free to run"],
)
def test_of_one_cause_people_are_told_once(due_now: int, blocked: dict[Any, int], is_told: bool) -> None:
    """An open breaker, and a type that nobody knows, have an alert of their own."""
    waiting = Backlog(queue="mail", type="work", due=due_now, blocked=blocked, oldest_due_at=BEGIN - 2 * HOUR)
    verdict = judge(AlertRules(lasts=0), Metrics(at=BEGIN, window=HOUR, backlog=(waiting,), workers=(worker(0),)), {})
    assert {one.category for one in verdict.opened} == ({"depth", "age"} if is_told else set())


def test_how_long_our_own_jobs_take_is_no_rule_s_business() -> None:
    """It is a receiver of webhooks that is slow."""
    slow = Flow(queue="onward.alerts", type="onward.webhook", seconds=3600, outcomes={"completed": 100}, ran={bucket_of(30): 100})
    assert judge(AlertRules(lasts=0), Metrics(at=BEGIN, window=HOUR, flows=(slow,)), {}).opened == ()
