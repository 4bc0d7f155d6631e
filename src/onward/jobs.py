"""What is stored for a job, and what is asked for when one is enqueued."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Literal, TypeAlias, TypedDict

from msgspec import Struct

from onward.ids import is_id
from onward.status import Status

LOWEST_PRIORITY, HIGHEST_PRIORITY = -100, 100
HIGHEST_COUNT = 2**53
"""What is counted can be raised from here, and goes through JSON unchanged on the way to any database."""
LONGEST_LEASE = timedelta(days=1)
"""A lease that ends further ahead than this was given before the clock went back."""

# How long a key stays taken: while its job is live, for a window from the enqueue on, or for ever.
Scope: TypeAlias = timedelta | Literal["active", "forever"]
OnDuplicate: TypeAlias = Literal["return", "same", "raise"]
BlockedBy: TypeAlias = Literal["type", "breaker", "limit", "serial"]


class Job(Struct, frozen=True, kw_only=True, gc=False):
    """One stored request to run a handler. Every instant is aware UTC."""

    id: str
    """ULID, made by the client before the insert; never changes."""
    type: str
    """Name of the definition; set by enqueue."""
    queue: str
    """Named lane that workers serve; set by enqueue."""
    priority: int
    """-100 to 100, higher first; set by enqueue."""
    status: Status
    """Where the job is; changes only along ``onward.status.TRANSITIONS``."""
    payload: str
    """JSON text in a deterministic order; set by enqueue, never changes, not even when it cannot be decoded."""
    payload_hash: str
    """SHA-256 of the stored bytes, in hex."""
    scheduled_at: datetime
    """Not run before; set by enqueue, and again by retry, snooze and run now. The true due time, also while blocked."""
    expires_at: datetime | None = None
    """Not run after: it ends ``cancelled`` with the error "expired"."""
    attempts: int = 0
    """0 when enqueued; raised by one on each claim; given back by a release or a snooze; 0 again after a manual retry."""
    max_attempts: int
    """Tries, the first one included; from the definition's policy at enqueue."""
    fence: int = 0
    """Raised by one on each claim, never lowered: proves which claim is the newest."""
    lost_leases: int = 0
    """How many claims ended because their lease ran out or their process died; from the 20th on each counts as a try, before only
    those that ran isolated. 0 again after a manual retry."""
    releases: int = 0
    """How many claims a stopping worker gave back; from the 20th on each counts as a try. 0 again after a manual retry."""
    snoozes: int = 0
    """How many times the handler asked to run later; at most 1,000. 0 again after a manual retry."""
    isolated: bool = False
    """True when this claim runs with no neighbour in its process: asked for by the definition, or a lease was lost before."""
    ran_isolated: bool = False
    """True once the newest claim's handler had its process to itself: then a loss is its own doing. Cleared by each claim."""
    lease_owner: str | None = None
    """Which process start holds the claim (host:pid:nonce); cleared by settle and sweep."""
    lease_until: datetime | None = None
    """When the claim is given up unless the heartbeat renews it; cleared by settle and sweep."""
    blocked_by: BlockedBy | None = None
    """Why a due job may not run now, or None."""
    idempotency_key: str | None = None
    """What must be unique per owner and type; who holds it stands in the table ``keys``."""
    concurrency_key: str | None = None
    """Jobs that share it share a limit on how many run at once; set by enqueue."""
    serial_key: str | None = None
    """Jobs that share it run one after the other; set by enqueue."""
    breaker: str | None = None
    """Jobs that share it pause together when their provider fails; set by enqueue."""
    owner: str = ""
    """Who may see the job; empty when nobody owns it."""
    cancel_requested_at: datetime | None = None
    """When a person asked a running job to stop."""
    error: str | None = None
    """Why the last attempt did not complete; redacted and bounded before it is stored."""
    result: str | None = None
    """JSON text of what the handler returned."""
    progress: str | None = None
    """JSON text of what the handler last reported."""
    metadata: str = "{}"
    """JSON text: correlation id, trace context, tags, parent job."""
    created_at: datetime
    """When the job was enqueued, by the store's clock."""
    updated_at: datetime
    """When the row last changed."""
    started_at: datetime | None = None
    """When the newest claim was made."""
    finished_at: datetime | None = None
    """When the job became final."""


class NewJob(Struct, frozen=True, kw_only=True, gc=False):
    """What an enqueue asks for. Delays are durations; the store makes them instants by its own clock."""

    id: str
    type: str
    payload: str
    payload_hash: str
    queue: str = "default"
    priority: int = 0
    delay: timedelta = timedelta(0)
    """How long from now; ignored when ``at`` is given."""
    at: datetime | None = None
    expires: timedelta | None = None
    """Not run later than this long after it is due."""
    max_attempts: int = 3
    isolated: bool = False
    key: str | None = None
    scope: Scope = "active"
    on_duplicate: OnDuplicate = "return"
    concurrency_key: str | None = None
    serial_key: str | None = None
    breaker: str | None = None
    refuses_open_breaker: bool = False
    """While its breaker is open, the enqueue raises ``BreakerOpen`` instead of accepting a job that waits."""
    owner: str = ""
    metadata: str = "{}"


class Accepted(Struct, frozen=True, gc=False):
    """The answer to one ``NewJob``: which job stands for it."""

    id: str
    is_new: bool = True
    """False when a live job held the key, or the very same request had been stored before."""
    payload_differs: bool = False
    """True when the job that stands for it has another payload."""


class Attempt(Struct, frozen=True, kw_only=True, gc=False):
    """One row of ``history``: a try that ended."""

    job_id: str
    fence: int
    attempt: int
    """Numbered from 1; two rows share a number when a try was given back."""
    lease_owner: str | None
    outcome: str
    """completed, retried, snoozed, released, cancelled, dead_lettered or lost."""
    error: str | None = None
    processed: int = 0
    failed: int = 0
    started_at: datetime | None = None
    finished_at: datetime


class EnqueueOptions(TypedDict, total=False):
    """What may be said at an enqueue beside definition and payload; the definition's rules hold for what is left out."""

    id: str | None
    """A ULID: repeats a request whose outcome was unknown."""
    delay: timedelta | float | str | None
    at: datetime | str | None
    key: str | None
    scope: Scope | str | None
    on_duplicate: OnDuplicate | None
    owner: str
    priority: int | None
    queue: str | None
    expires: timedelta | float | str | None
    metadata: Mapping[str, Any] | None


def why_unusable(job: Job) -> str | None:
    """Say what is wrong with a row that reads well and that no worker can work with: somebody wrote it by hand."""
    if not is_id(job.id):
        return "its id has not the form of an id"
    counts = (job.attempts, job.max_attempts, job.fence, job.lost_leases, job.releases, job.snoozes)
    if min(counts) < 0 or max(counts) > HIGHEST_COUNT:
        return "one of its counts is out of range"
    return None


def uses_of_key(job: NewJob) -> tuple[str, str, str]:
    """Say under what the job's key is unique: (owner, type, key). Only for jobs that have one."""
    assert job.key is not None
    return (job.owner, job.type, job.key)
