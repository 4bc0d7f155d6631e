"""Attempts of all jobs together: what is asked of them, and a page of what is found."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple, TypeAlias, get_args

from msgspec import Struct

from onward.durations import parse_duration, parse_moment
from onward.errors import InvalidDefinition, InvalidTime
from onward.jobs import HIGHEST_COUNT, Attempt
from onward.spelling import did_you_mean, shown

AttemptOutcome: TypeAlias = Literal["completed", "retried", "snoozed", "released", "cancelled", "dead_lettered", "lost"]
OUTCOMES: tuple[AttemptOutcome, ...] = get_args(AttemptOutcome)
MOST_LOOKED_AT = 10_000
"""Attempts that one page looks at where a filter matches few of them; then it says so, and where to go on."""
LONGEST_CURSOR = 400
FIRST, LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


class AttemptFilter(Struct, frozen=True, kw_only=True):
    """Which attempts. Every field narrows; an empty one does not."""

    types: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    outcomes: tuple[AttemptOutcome, ...] = ()
    lease_owner: str | None = None
    """Only those of this process start."""
    since: datetime | None = None
    """Only those that ended then or later."""
    until: datetime | None = None
    """Only those that ended before."""

    @property
    def may_match_rarely(self) -> bool:
        """True where a page may have to look at more attempts than it shows."""
        return bool(self.types or self.queues or self.outcomes or self.lease_owner is not None)


class ListedAttempt(Attempt, frozen=True, kw_only=True, gc=False):
    """An attempt among those of other jobs."""

    type: str
    """Of its job."""
    queue: str
    """Of its job."""


class Attempts(Struct, frozen=True, kw_only=True):
    """A page of attempts, newest first."""

    found: tuple[ListedAttempt, ...] = ()
    next: str | None = None
    """Where the next page begins (``before``). None where nothing is left to look at."""
    is_capped: bool = False
    """So few matched that the look stopped at its bound before the page was full. ``next`` goes on from there."""


class Place(NamedTuple):
    """Where an attempt stands among all of them: by when it ended, then by job and fence."""

    finished_at: datetime
    job_id: str
    fence: int

    def __str__(self) -> str:
        at = self.finished_at.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds")
        return f"{at}Z/{self.job_id}/{self.fence}"


def read_place(text: str) -> Place:
    """Where a page begins, as the page before it said. Raises ``InvalidDefinition``."""
    if isinstance(text, str) and len(text) <= LONGEST_CURSOR:
        at, _, rest = text.strip().partition("/")
        job_id, _, fence = rest.rpartition("/")
        if job_id.isprintable() and job_id and fence.isascii() and fence.isdigit() and int(fence) <= HIGHEST_COUNT:
            try:
                return Place(parse_moment(at), job_id, int(fence))
            except InvalidTime:
                pass
    raise InvalidDefinition(f"before= is where the page before says that the next one begins, not {shown(text)}")


def begin_of(where: AttemptFilter, before: Place | None) -> Place:
    """The place before which a page looks, newest first."""
    until = Place(where.until or LAST, "", 0)
    return until if before is None else min(until, before)


def end_of(where: AttemptFilter) -> Place:
    """The last place that a filter lets a page look at."""
    return Place(where.since or FIRST, "", 0)


def read_outcome(outcome: str) -> AttemptOutcome:
    """Give an outcome back if an attempt can have it. Raises ``InvalidDefinition``."""
    for one in OUTCOMES:
        if one == outcome:
            return one
    raise InvalidDefinition(f"no attempt ends {shown(outcome)}{did_you_mean(str(outcome), OUTCOMES)}; it is one of {', '.join(OUTCOMES)}")


def read_end(given: datetime | timedelta | float | str, now: datetime) -> datetime:
    """A moment, or a duration before now. Raises ``InvalidTime`` for what is neither."""
    if isinstance(given, datetime):
        return parse_moment(given)
    try:
        return now - parse_duration(given)
    except InvalidTime:
        if not isinstance(given, str):
            raise
    try:
        return parse_moment(given)
    except InvalidTime:
        raise InvalidTime(f"{shown(given)} is neither a duration such as '1h' or '2d', nor a time such as '2026-03-01T09:30:00Z'") from None
