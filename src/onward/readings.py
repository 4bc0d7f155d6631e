"""What the rules of alerts measure of a look at a store: each rule, at each queue and type where there is something to measure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from msgspec import Struct

from onward.alert_rules import AlertRules
from onward.alerts import Severity
from onward.durations import format_duration
from onward.metrics import Backlog, Flow, Lane, Metrics
from onward.presence import living, who_is_lacking

CATEGORIES = frozenset({"depth", "age", "run_p95", "success_rate", "dead_letters", "unserved", "no_worker"})
"""Of the alerts that rules open."""
MARGIN = 0.8
"""Of a threshold: below that an alert is over."""
OURS = "onward."
"""How the types begin that are ours: how long a webhook takes is the receiver's."""
LONGEST_NAME = 100
"""Characters that a queue or a type may have."""


class Reading(Struct, frozen=True, kw_only=True):
    """One rule at one place: what was measured, against what."""

    category: str
    severity: Severity
    where: str
    value: float
    threshold: float
    message: str
    queue: str | None = None
    type: str | None = None
    is_least: bool = False
    """True where a value below the threshold is the bad one."""

    @property
    def cause(self) -> str:
        return f"{self.category}:{self.where}"

    @property
    def is_over(self) -> bool:
        """Whether the rule is broken."""
        return self.value < self.threshold if self.is_least else self.value > self.threshold

    @property
    def is_clear(self) -> bool:
        """Whether it is kept by a margin."""
        if self.is_least:
            return 1 - self.value <= (1 - self.threshold) * MARGIN
        return self.value <= self.threshold * MARGIN


def read(rules: AlertRules, look: Metrics) -> Iterator[Reading]:
    """Measure each rule wherever there is something to measure: nothing of a queue where nothing is due and nothing ended."""
    for backlog in look.backlog:
        if backlog.depth and _is_named(backlog.lane) and not _has_alert_of_its_own(backlog):
            yield from _of_backlog(rules, look, backlog)
    for flow in look.flows:
        if _is_named(flow.lane):
            yield from _of_flow(rules, look.window, flow)
    yield from _unserved(rules, look)


def _of_backlog(rules: AlertRules, look: Metrics, backlog: Backlog) -> Iterator[Reading]:
    paused = f"; queue {backlog.queue} is paused" if backlog.queue in look.paused else ""
    if rules.depth is not None:
        yield _reading(
            "depth", "warning", backlog.lane, backlog.depth, rules.depth,
            f"{_count(backlog.depth)} of {_place(backlog.lane)} are due, more than {rules.depth:,}{paused}",
        )  # fmt: skip
    if rules.age is not None and backlog.oldest_due_at is not None:
        age = look.at - backlog.oldest_due_at
        yield _reading(
            "age", "warning", backlog.lane, age.total_seconds(), rules.age.total_seconds(),
            f"the oldest job of {_place(backlog.lane)} has been due for {_rough(age)}, longer than {format_duration(rules.age)}{paused}",
        )  # fmt: skip


def _of_flow(rules: AlertRules, window: timedelta, flow: Flow) -> Iterator[Reading]:
    within = f"within the last {format_duration(window)}"
    budget, p95 = rules.budget(flow.type), flow.run(0.95)
    if budget is not None and not flow.type.startswith(OURS) and p95 is not None and sum(flow.ran.values()) >= rules.samples:
        yield _reading(
            "run_p95", "warning", flow.lane, p95, budget.total_seconds(),
            f"one in twenty runs of {_place(flow.lane)} took {_seconds(p95)} or longer {within}, and {format_duration(budget)} is allowed",
        )  # fmt: skip
    dead, ended = flow.outcomes.get("dead_lettered", 0), flow.outcomes.get("completed", 0) + flow.outcomes.get("dead_lettered", 0)
    if rules.success_rate is not None and flow.success_rate is not None and ended >= rules.samples:
        yield _reading(
            "success_rate", "critical", flow.lane, flow.success_rate, rules.success_rate,
            f"{flow.success_rate:.1%} of {_place(flow.lane)} completed {within}, and {rules.success_rate:.1%} should", is_least=True,
        )  # fmt: skip
    if rules.dead_letters is not None and dead:
        yield _reading(
            "dead_letters", "critical", flow.lane, dead, rules.dead_letters,
            f"{_count(dead)} of {_place(flow.lane)} became dead letters {within}, more than {rules.dead_letters:,}",
        )  # fmt: skip


def _unserved(rules: AlertRules, look: Metrics) -> Iterator[Reading]:
    if rules.unserved is None:
        return
    alive = living(look.workers, look.at)
    served = {flow.lane for flow in look.latest}
    longest: tuple[timedelta, Backlog] | None = None
    for backlog in look.backlog:
        if backlog.oldest_due_at is None or not backlog.depth or backlog.queue in look.paused or backlog.lane in served:
            continue
        if not _is_named(backlog.lane):
            continue
        age = look.at - backlog.oldest_due_at
        lacking = who_is_lacking(alive, backlog.queue, backlog.type)
        if lacking == "worker":
            longest = max(longest or (age, backlog), (age, backlog), key=lambda one: one[0])
        elif lacking is not None:
            why = f"serves queue {backlog.queue}" if lacking == "queue" else f"serving queue {backlog.queue} knows the type {backlog.type}"
            yield _reading(
                "unserved", "critical", backlog.lane, age.total_seconds(), rules.unserved.total_seconds(),
                f"{_place(backlog.lane)} has been due for {_rough(age)}, and no worker {why}",
            )  # fmt: skip
    if longest is not None:
        age, _ = longest
        yield Reading(
            category="no_worker", severity="critical", where="", value=age.total_seconds(), threshold=rules.unserved.total_seconds(),
            message=f"jobs have been due for {_rough(age)}, and no worker is alive",
        )  # fmt: skip


def _reading(
    category: str, severity: Severity, lane: Lane, value: float, threshold: float, message: str, *, is_least: bool = False
) -> Reading:
    queue, type_ = lane
    return Reading(
        category=category, severity=severity, where=f"{queue}/{type_}", value=value, threshold=threshold, message=message,
        queue=queue, type=type_, is_least=is_least,
    )  # fmt: skip


def _has_alert_of_its_own(backlog: Backlog) -> bool:
    """True where all that is due waits for a breaker, or for a worker that knows its type: of one cause, people are told once."""
    return not backlog.due and backlog.blocked.keys() <= {"breaker", "type"}


def _is_named(lane: Lane) -> bool:
    """False for names that no definition can have: a row that was written by hand must not keep the others from being told of."""
    return all(len(name) <= LONGEST_NAME and name.isprintable() for name in lane)


def _place(lane: Lane) -> str:
    queue, type_ = lane
    return f"{type_} in queue {queue}"


def _count(jobs: float) -> str:
    return "1 job" if jobs == 1 else f"{jobs:,} jobs"


def _rough(age: timedelta) -> str:
    return format_duration(timedelta(seconds=round(age.total_seconds())))


def _seconds(time: float) -> str:
    return format_duration(timedelta(milliseconds=round(time * 1000)))
