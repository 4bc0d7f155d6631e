"""Periodic jobs: what an application declares, and what is stored of it. The rules that say what is due are in ``onward.moments``."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, get_args

import msgspec
from msgspec import Struct

from onward.definition import Duration, JobDefinition, check_name
from onward.durations import format_duration, parse_duration
from onward.errors import InvalidDefinition, InvalidTime
from onward.jobs import NewJob, Scope
from onward.spelling import did_you_mean, shown
from onward.unique import read_scope

if TYPE_CHECKING:
    from typing import Unpack

    from onward.jobs import EnqueueOptions

CatchUp: TypeAlias = Literal["skip", "once", "all"]
Overlap: TypeAlias = Literal["allow", "skip"]
PausedBy: TypeAlias = Literal["person", "undeclared"]

SHORTEST_INTERVAL = timedelta(seconds=1)
MOST_CAUGHT_UP = 1000
ITS_OWN = frozenset({"every", "timezone", "payload", "name", "catch_up", "most_catch_up", "overlap", "jitter"})
OPTIONS = frozenset({"key", "scope", "owner", "priority", "queue", "expires", "metadata"})
"""The options of an enqueue that make sense for every moment."""


class Times(Protocol):
    """When something is due."""

    def after(self, instant: datetime) -> datetime:
        """The first moment after an instant."""
        ...

    def explain(self) -> str:
        """The same in words."""
        ...


class PeriodicRule(Struct, frozen=True, kw_only=True):
    """When a periodic job is due, and what becomes of moments that were missed."""

    cron: str | None = None
    every: str | None = None
    """An interval, in place of ``cron``, as text such as ``10m``."""
    timezone: str = "UTC"
    """In which the expression's times of day are meant."""
    catch_up: CatchUp = "once"
    most_catch_up: int = 100
    """How many of the newest missed moments ``all`` runs."""
    overlap: Overlap = "allow"
    """What becomes of a moment while the last moment's job is live."""
    jitter: str = "0s"
    """By how much at most a job starts later than its moment, as text such as ``90s``."""

    def times(self) -> Times:
        """What computes the moments. Raises ``InvalidDefinition`` for a rule that makes no sense."""
        from onward.cron import Every, read_cron

        if self.every is not None:
            return Every(parse_duration(self.every))
        return read_cron(self.cron or "", self.timezone)

    def explain(self) -> str:
        """The rule in words: ``At 02:30 every day, in Europe/Paris``."""
        return self.times().explain() + ("" if self.every is not None else f", in {self.timezone}")


class PeriodicRequest(Struct, frozen=True, kw_only=True):
    """The job of every moment: a ``NewJob`` without what a moment decides. Durations are text such as ``2h``."""

    type: str
    payload: str
    payload_hash: str
    queue: str = "default"
    priority: int = 0
    expires: str | None = None
    max_attempts: int = 3
    isolated: bool = False
    key: str | None = None
    scope: str = "active"
    owner: str = ""
    metadata: str = "{}"
    concurrency_key: str | None = None
    serial_key: str | None = None
    breaker: str | None = None


class PeriodicJob(Struct, frozen=True, kw_only=True):
    """A periodic job as it is stored. Every instant is aware UTC."""

    name: str
    rule: PeriodicRule
    request: PeriodicRequest
    is_declared: bool
    """True when code declares it; False when it was made at run time."""
    next_moment: datetime
    """The first moment that has no job yet, and was not skipped."""
    paused_at: datetime | None = None
    paused_by: PausedBy | None = None
    """``person``, or ``undeclared``: it was due and no worker's code declares it any more."""
    last_moment: datetime | None = None
    """The newest moment that was fired."""
    last_job_id: str | None = None
    """The job of that moment, or the one that stands for it because it holds the key."""
    skipped: int = 0
    """Moments that got no job, because they were missed, or the last moment's job was live. One whose key was held is not counted."""
    version: int = 0
    """Raised by one with every change: who changes it says which one it has read."""
    updated_at: datetime

    def check(self) -> None:
        """Raise ``InvalidDefinition`` or ``InvalidTime`` for a row that somebody wrote by hand and that makes no sense."""
        self.rule.times()
        if self.rule.every is not None and parse_duration(self.rule.every) < SHORTEST_INTERVAL:
            raise InvalidDefinition(f"every= is an interval of a second or longer, not {shown(self.rule.every)}")
        if not 1 <= self.rule.most_catch_up <= MOST_CAUGHT_UP:
            raise InvalidDefinition(f"most_catch_up is a whole number from 1 to {MOST_CAUGHT_UP:,}, not {self.rule.most_catch_up}")
        msgspec.json.decode(self.request.metadata, type=dict[str, Any])
        parse_duration(self.rule.jitter)
        parse_duration(self.request.expires or 0)
        read_scope(self.request.scope)
        for instant in (self.next_moment, self.updated_at, self.paused_at, self.last_moment):
            if instant is not None and instant.tzinfo is None:
                raise InvalidTime(f"{instant.isoformat()} has no time zone")

    def moments(self, after: datetime, count: int) -> list[datetime]:
        """The next moments after an instant, whether it is paused or not."""
        times, found = self.rule.times(), [after]
        for _ in range(count):
            found.append(times.after(found[-1]))
        return found[1:]


class Periodic:
    """A job that is enqueued by the clock: ``Periodic(report, "30 2 * * *", timezone="Europe/Paris")``, or ``every="10m"``.

    ``cron`` has five fields, or is a nickname such as ``@daily``; what its times mean on the days on which the clocks change stands at
    ``onward.cron``. ``every`` is an interval from one second on, counted from 1970-01-01 00:00 UTC. ``payload`` is what each job gets,
    ``name`` what the periodic job is called, which is its definition's name if it has none of its own. ``catch_up`` says what becomes of
    moments that were missed because no worker was there: ``"once"`` runs the newest of them, ``"all"`` each of them, but no more than
    the newest ``most_catch_up``, ``"skip"`` none that is more than a minute late. ``overlap="skip"`` leaves a moment out while the job of
    the one before is not done with. ``jitter`` moves the start of each job by up to that much, and no moment. The other keywords are
    options of ``enqueue`` that hold for each job: ``queue``, ``priority``, ``key``, ``scope``, ``owner``, ``expires``, ``metadata``.
    Raises ``InvalidDefinition``, ``InvalidPayload``.
    """

    def __init__(
        self,
        definition: JobDefinition[Any],
        cron: str | None = None,
        *,
        every: Duration | None = None,
        timezone: str | None = None,
        payload: Any = None,
        name: str | None = None,
        catch_up: CatchUp = "once",
        most_catch_up: int = 100,
        overlap: Overlap = "allow",
        jitter: Duration = "0s",
        **options: Unpack[EnqueueOptions],
    ) -> None:
        if not isinstance(definition, JobDefinition):
            raise InvalidDefinition(f"Periodic takes what define_job(name, handler) returned, not {shown(definition)}")
        self.definition = definition
        self.name = check_name("name of a periodic job", definition.name if name is None else name)
        for option in options:
            if option not in OPTIONS:
                raise InvalidDefinition(
                    f"{self.name}: a periodic job has no option {option!r}{did_you_mean(option, sorted(OPTIONS | ITS_OWN))}"
                )
        interval, longest = _read_interval(self.name, cron, every, timezone)
        _check_choice(self.name, "catch_up", catch_up, get_args(CatchUp))
        _check_choice(self.name, "overlap", overlap, get_args(Overlap))
        if isinstance(most_catch_up, bool) or not isinstance(most_catch_up, int) or not 1 <= most_catch_up <= MOST_CAUGHT_UP:
            raise InvalidDefinition(
                f"{self.name}: most_catch_up is a whole number from 1 to {MOST_CAUGHT_UP:,}, not {shown(most_catch_up)}"
            )
        if catch_up == "all" and overlap == "skip":
            raise InvalidDefinition(f"{self.name}: catch_up='all' runs missed moments beside each other, which overlap='skip' forbids")
        self.rule = PeriodicRule(
            cron=cron,
            every=interval,
            timezone=timezone or "UTC",
            catch_up=catch_up,
            most_catch_up=most_catch_up,
            overlap=overlap,
            jitter=_read_jitter(self.name, jitter, longest),
        )
        self.rule.times()
        self.request = _request(definition.new_job(payload, **options))

    def __repr__(self) -> str:
        return f"<Periodic {self.name}>"


def _read_interval(name: str, cron: str | None, every: Duration | None, timezone: str | None) -> tuple[str | None, timedelta]:
    """The interval as text, and the longest jitter that it allows."""
    if (cron is None) == (every is None):
        raise InvalidDefinition(f"{name}: say when it is due, by cron='30 2 * * *' or by every='10m', and not by both")
    if every is None:
        return None, timedelta(days=1)
    if timezone is not None:
        raise InvalidDefinition(f"{name}: an interval is the same in every time zone: leave out timezone=, or give cron= instead")
    try:
        interval = parse_duration(every)
    except InvalidTime as error:
        raise InvalidDefinition(f"{name}: every={error}") from None
    if interval < SHORTEST_INTERVAL or interval % timedelta(milliseconds=1):
        raise InvalidDefinition(f"{name}: every= is an interval of a second or longer, in whole milliseconds, not {shown(every)}")
    return format_duration(interval), interval


def _read_jitter(name: str, jitter: Duration, longest: timedelta) -> str:
    try:
        parsed = parse_duration(jitter)
    except InvalidTime as error:
        raise InvalidDefinition(f"{name}: jitter={error}") from None
    if parsed > longest:
        raise InvalidDefinition(f"{name}: jitter= is at most {format_duration(longest)} here, not {shown(jitter)}")
    return format_duration(parsed)


def _check_choice(name: str, option: str, given: object, known: Sequence[str]) -> None:
    if given not in known:
        choices = ", ".join(map(repr, known))
        raise InvalidDefinition(f"{name}: {option} is one of {choices}, not {shown(given)}")


def _request(job: NewJob) -> PeriodicRequest:
    return PeriodicRequest(
        type=job.type,
        payload=job.payload,
        payload_hash=job.payload_hash,
        queue=job.queue,
        priority=job.priority,
        expires=None if job.expires is None else format_duration(job.expires),
        max_attempts=job.max_attempts,
        isolated=job.isolated,
        key=job.key,
        scope=_write_scope(job.scope),
        owner=job.owner,
        metadata=job.metadata,
        concurrency_key=job.concurrency_key,
        serial_key=job.serial_key,
        breaker=job.breaker,
    )


def _write_scope(scope: Scope) -> str:
    return format_duration(max(scope, timedelta(milliseconds=1))) if isinstance(scope, timedelta) else scope
