"""Circuit breakers: what a definition says of one, what is stored of it, and the rules by which it opens, tries and closes.

The names are those of the field: closed lets everything through, open nothing, half-open one probe. (M. Nygard, Release It!, chapter 5)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any, Generic, Literal, TypeAlias, TypeVar, get_args

from msgspec import Struct
from msgspec.structs import replace

from onward.durations import parse_duration
from onward.errors import InvalidDefinition, InvalidTime
from onward.rate import SLACK, Rate, parse_rate
from onward.spelling import did_you_mean, shown

P = TypeVar("P")
Failure: TypeAlias = Literal["transient", "unknown", "timeout", "permanent"]
"""How a run can fail: as ``RetryPolicy.judge`` says of its error, or by its time limit."""
BreakerStatus: TypeAlias = Literal["closed", "open", "half_open"]
RunEnding: TypeAlias = Literal["success", "failure", "other"]
"""What the end of a run says of the provider: nothing, where it was released, snoozed, cancelled, lost, or failed by its own fault."""

COUNTED: tuple[Failure, ...] = ("transient", "unknown", "timeout")
MOST_FAILURES = 1_000_000
MOST_AT_ONCE = 1000
ASKED_FOR_PROBE = 20
"""Jobs that are asked together whether they can be the probe, once the first of them could not begin."""
SHORTEST_PAUSE = timedelta(milliseconds=1)


class BreakerPolicy(Struct, frozen=True, kw_only=True):
    """The numbers of a breaker, as a worker hands them to the store."""

    threshold: int
    pause: timedelta
    pace: Rate


class Breaker(Generic[P]):
    """A definition's breaker: jobs that share its key pause together when their provider fails.

    ``key`` is a text, or a function of the payload that gives one; definitions may share a key. After ``threshold`` failures in a row the
    breaker opens for ``pause``: waiting jobs spend no try. Then one job runs as a probe; its success closes the breaker, and the jobs that
    wait go on at ``pace``; its failure opens it again. ``counts`` says which failures count. While it is open, an enqueue is accepted and
    waits (``when_open="wait"``), or raises ``BreakerOpen`` (``"refuse"``). Raises ``InvalidDefinition``.
    """

    def __init__(
        self,
        key: Callable[[P], str] | str,
        *,
        threshold: int = 5,
        pause: timedelta | float | str = "30m",
        counts: Iterable[Failure] = COUNTED,
        pace: str = "100/s",
        when_open: Literal["wait", "refuse"] = "wait",
    ) -> None:
        if not (callable(key) or isinstance(key, str)):
            raise InvalidDefinition(f"the key of a breaker is text, or a function of the payload that gives text, not {shown(key)}")
        self.key = key
        if isinstance(threshold, bool) or not isinstance(threshold, int) or not 1 <= threshold <= MOST_FAILURES:
            raise InvalidDefinition(f"threshold= of a breaker is a whole number from 1 to {MOST_FAILURES:,}, not {shown(threshold)}")
        try:
            length = parse_pause(pause)
        except InvalidTime as error:
            raise InvalidDefinition(f"pause= of a breaker: {error}") from None
        self.policy = BreakerPolicy(threshold=threshold, pause=length, pace=parse_rate("pace", pace))
        self.counts = _failures(counts)
        if when_open not in ("wait", "refuse"):
            raise InvalidDefinition(f"when_open= of a breaker is 'wait' or 'refuse', not {shown(when_open)}")
        self.refuses = when_open == "refuse"


def parse_pause(pause: timedelta | float | str) -> timedelta:
    """Read how long a breaker stays open before it tries again. Raises ``InvalidTime``."""
    length = parse_duration(pause)
    if length < SHORTEST_PAUSE:
        raise InvalidTime(f"{shown(pause)} is too short: a breaker stays open for 1ms or longer, and a reset closes it")
    return length


def _failures(counts: Iterable[Failure]) -> frozenset[Failure]:
    if not isinstance(counts, Iterable):
        raise InvalidDefinition(f"counts= of a breaker names kinds of failures, such as ('transient', 'timeout'), not {shown(counts)}")
    chosen: tuple[Any, ...] = (counts,) if isinstance(counts, str) else tuple(counts)
    known: tuple[Any, ...] = get_args(Failure)
    for one in chosen:
        if one not in known:
            raise InvalidDefinition(f"counts= of a breaker: {shown(one)} is no kind of failure{did_you_mean(str(one), known)}")
    if not chosen:
        raise InvalidDefinition(f"counts= of a breaker names at least one of {', '.join(known)}")
    return frozenset(chosen)


class BreakerState(Struct, frozen=True, kw_only=True):
    """A breaker as it is stored. Every instant is aware UTC. One that was never stored is closed."""

    key: str
    status: BreakerStatus = "closed"
    failures: int = 0
    """Failures in a row."""
    opened_at: datetime | None = None
    """Since when it has not been closed."""
    retry_at: datetime | None = None
    """While it is open: when a probe may run. While it is closed: when the next of the jobs that still wait may go on."""
    probe_id: str | None = None
    """While it is half-open: the job that is the probe."""
    probe_fence: int | None = None
    pause: timedelta = timedelta(0)
    """How long it opens."""
    pace: Rate = Rate(100, timedelta(seconds=1))
    """At which waiting jobs go on once it is closed."""

    @property
    def portion(self) -> int:
        """How many of them go on together: those of a second, or one."""
        return max(min(int(timedelta(seconds=1) / self.pace.interval), MOST_AT_ONCE), 1)


def after_run(state: BreakerState, claim: tuple[str, int], ending: RunEnding, policy: BreakerPolicy | None, now: datetime) -> BreakerState:
    """The state after a run of one of its jobs. ``claim`` is the job's id and its fence; ``policy`` is None where code names no breaker.

    While it is not closed, only the probe is listened to: other runs began before it opened, and say nothing new.
    """
    if state.status == "half_open" and claim == (state.probe_id, state.probe_fence):
        return _after_probe(state, ending, policy, now)
    if state.status != "closed" or ending == "other" or policy is None:
        return state
    if ending == "success":
        return replace(state, failures=0) if state.failures else state
    failures = min(state.failures + 1, MOST_FAILURES)
    if failures < policy.threshold:
        return replace(state, failures=failures)
    return _opened(replace(state, failures=failures, opened_at=now), policy, now)


def _after_probe(state: BreakerState, ending: RunEnding, policy: BreakerPolicy | None, now: datetime) -> BreakerState:
    if ending == "success":
        return closed(state, None if policy is None else policy.pace, now)
    if ending == "failure" and policy is not None:
        return _opened(replace(state, failures=min(state.failures + 1, MOST_FAILURES)), policy, now)
    return replace(state, status="open", retry_at=now, probe_id=None, probe_fence=None)


def _opened(state: BreakerState, policy: BreakerPolicy, now: datetime) -> BreakerState:
    return replace(state, status="open", retry_at=now + policy.pause, probe_id=None, probe_fence=None, pause=policy.pause, pace=policy.pace)


def opened_by_hand(state: BreakerState, pause: timedelta, now: datetime) -> BreakerState:
    """The state once a person has opened it for so long; one that is open stays so from now on for so long."""
    return replace(
        state, status="open", opened_at=state.opened_at or now, retry_at=now + pause, probe_id=None, probe_fence=None, pause=pause
    )


def closed(state: BreakerState, pace: Rate | None, now: datetime) -> BreakerState:
    """The state once it is closed, by a probe or by a person: the jobs that wait may go on from now."""
    return replace(
        state,
        status="closed",
        failures=0,
        opened_at=None,
        retry_at=now,
        probe_id=None,
        probe_fence=None,
        pace=pace or state.pace,
    )


class Admission(Struct, frozen=True):
    """What an asked breaker says of one job that is to be claimed."""

    is_let: bool
    state: BreakerState
    """As it is afterwards: the job may have become the probe."""


def may_try(state: BreakerState, is_probe_alive: bool, now: datetime) -> bool:
    """Say whether one job may try it. A pause that ends much later than a whole one from now was begun before the clock went back."""
    if state.status == "half_open":
        return not is_probe_alive
    return state.status == "open" and (state.retry_at is None or not now < state.retry_at <= now + state.pause + SLACK)


def refuses(state: BreakerState, is_probe_alive: bool, now: datetime) -> bool:
    """Say whether new jobs are refused that ask for it: not where one might run as the probe, since nobody else may be there to be it."""
    return state.status != "closed" and not may_try(state, is_probe_alive, now)


def ask(state: BreakerState, claim: tuple[str, int], is_probe_alive: bool, now: datetime) -> Admission:
    """Say whether the job may run, and whether it is the probe. ``is_probe_alive`` is whether the probe's claim is held still."""
    if state.status == "closed":
        return Admission(True, state)
    if not may_try(state, is_probe_alive, now):
        return Admission(False, state)
    return Admission(True, replace(state, status="half_open", retry_at=None, probe_id=claim[0], probe_fence=claim[1]))


def released(state: BreakerState, are_left: bool, now: datetime) -> BreakerState:
    """The state after some of the jobs that waited behind a closed breaker were let go; ``are_left`` says whether others wait still."""
    return replace(state, retry_at=now + state.portion * state.pace.interval if are_left else None)
