"""The protocol as the search runs it. What can be the code's own rule is: how a run ends, what is written of it, what is legal.

A planted fault (``tests.model.faults``) is a subclass that gets one of these methods wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from random import Random

from msgspec.structs import replace

from onward import outcome as code
from onward.errors import PermanentJobError
from onward.jobs import Job
from onward.outcome import Cancel, Ending, Outcome, Release, Released, Retried, Snooze, decide, end_lost, end_settled, is_stored
from onward.retry import RetryPolicy
from onward.status import Status
from onward.testing.factories import START, make_job
from tests.model.state import CLAIMABLE, FINAL, IN_PROGRESS, LEASE, Claim, Row

RETURNED, FAILED, TIMED_OUT, PERMANENT, SNOOZED, CANCELLED, RELEASED = (
    "returned", "failed", "timed out", "permanent error", "snoozed", "cancelled", "released",
)  # fmt: skip
_ENDINGS: dict[str, object] = {
    RETURNED: None,
    FAILED: RuntimeError("boom"),
    TIMED_OUT: TimeoutError("boom"),
    PERMANENT: PermanentJobError("hopeless"),
    SNOOZED: Snooze(1),
    CANCELLED: Cancel("not needed"),
    RELEASED: Release(),
}
CAPS = {"MOST_RELEASES": 2, "MOST_SNOOZES": 1, "MOST_LOSSES": 3}
"""The bounds of ``onward.outcome`` while a search runs: small, so that it comes to an end, and each is reached."""


@contextmanager
def small_caps() -> Iterator[None]:
    """Let the code's rules count to less."""
    before = {name: getattr(code, name) for name in CAPS}
    _set_caps(CAPS)
    try:
        yield
    finally:
        _set_caps(before)


def _set_caps(caps: Mapping[str, int]) -> None:
    for name, cap in caps.items():
        setattr(code, name, cap)
    for remembered in (_decide, _settled, _lost, _is_stored):
        remembered.cache_clear()


class Rules:
    """The protocol as it is."""

    key_is_looked_up_first = False
    """True where a client asks whether the key is free, and enqueues in another transaction."""
    children_come_first = False
    """True where a handler enqueues its children at once, and not with its completion."""

    def __init__(self, max_attempts: int) -> None:
        self.max_attempts = max_attempts

    # -- claims --------------------------------------------------------------------------------------------------------

    def may_claim(self, row: Row) -> bool:
        return row.status in CLAIMABLE and row.due <= 0 and not self.has_expired(row)

    def has_expired(self, row: Row) -> bool:
        return row.expiry is not None and row.expiry <= 0

    def claimed(self, row: Row, process: int, past_due: int) -> Row:
        return row._replace(
            status=IN_PROGRESS,
            attempts=row.attempts + 1,
            fence=row.fence + 1,
            isolated=row.isolated or row.lost > 0,
            ran_isolated=False,
            owner=process,
            lease=LEASE,
            due=past_due,
        )

    def holds(self, row: Row | None, claim: Claim) -> bool:
        """Say whether a statement that names this claim finds its row."""
        return row is not None and row.status == IN_PROGRESS and row.fence == claim.row.fence

    def may_settle(self, row: Row | None, claim: Claim) -> bool:
        return self.holds(row, claim)

    def may_extend(self, row: Row | None, claim: Claim) -> bool:
        return self.holds(row, claim)

    def may_begin_alone(self, row: Row | None, claim: Claim) -> bool:
        return self.holds(row, claim)

    # -- endings -------------------------------------------------------------------------------------------------------

    def outcome(self, claim: Claim, ending: str) -> Outcome:
        return _decide(_counts(claim.row, self.max_attempts), ending)

    def settled(self, row: Row, claim: Claim, outcome: Outcome) -> Ending:
        return _settled(_counts(claim.row, self.max_attempts), outcome, row.cancel)

    def is_stored(self, row: Row | None, claim: Claim, outcome: Outcome) -> bool:
        """Say whether an answer is "stored" though the claim does not hold: it is when an earlier try was stored."""
        return row is not None and _is_stored(row.status, _counts(row, self.max_attempts), _counts(claim.row, self.max_attempts), outcome)

    def may_sweep(self, row: Row) -> bool:
        return row.status == IN_PROGRESS and not 0 < row.lease <= LEASE

    def may_lose(self, row: Row | None, seen: Row) -> bool:
        """Say whether what a sweep or recovery has read still stands when it writes."""
        return row is not None and row.status == IN_PROGRESS and (row.fence, row.lease, row.cancel) == (seen.fence, seen.lease, seen.cancel)

    def lost(self, seen: Row, why: str) -> Ending:
        return _lost(_counts(seen, self.max_attempts), why)

    def given_back(self, seen: Row) -> Ending:
        """What the recovery of a dead process writes for a claim whose handler had not begun."""
        return _settled(_counts(seen, self.max_attempts), Released(), seen.cancel)

    def fence_after_loss(self, row: Row) -> int:
        return row.fence

    # -- keys ----------------------------------------------------------------------------------------------------------

    def frees_key(self, status: str) -> bool:
        return status in FINAL

    def takes_key_again(self) -> bool:
        """Say whether a retry by a person needs the key."""
        return True


Counts = tuple[int, int, int, int, int, int, bool, bool, bool, str | None]


def _counts(row: Row, max_attempts: int) -> Counts:
    return (
        max_attempts, row.attempts, row.fence, row.lost, row.releases, row.snoozes, row.isolated, row.ran_isolated, row.cancel, row.error,
    )  # fmt: skip


def _job(counts: Counts, status: str = IN_PROGRESS) -> Job:
    max_attempts, attempts, fence, lost, releases, snoozes, isolated, ran_isolated, cancel, error = counts
    return make_job(
        Status(status),
        max_attempts=max_attempts,
        attempts=attempts,
        fence=fence,
        lost_leases=lost,
        releases=releases,
        snoozes=snoozes,
        isolated=isolated,
        ran_isolated=ran_isolated,
        cancel_requested_at=START if cancel else None,
        error=error,
        lease_owner="process",
    )


@cache
def _decide(counts: Counts, ending: str) -> Outcome:
    policy = RetryPolicy(counts[0], base=1, backoff="fixed", jitter=0)
    outcome = decide(_job(counts), _ENDINGS[ending], policy, START, Random(1))
    # As the executor does: a handler that did not end in time has no neighbours the next time.
    return replace(outcome, isolated=True) if ending == TIMED_OUT and isinstance(outcome, Retried) else outcome


@cache
def _settled(counts: Counts, outcome: Outcome, cancel: bool) -> Ending:
    return end_settled(_job(counts), outcome, is_cancel_requested=cancel)


@cache
def _lost(counts: Counts, why: str) -> Ending:
    return end_lost(_job(counts), why)


@cache
def _is_stored(status: str, row: Counts, claimed: Counts, outcome: Outcome) -> bool:
    return is_stored(_job(row, status), _job(claimed), outcome)
