"""Runs of file jobs without a worker, but with its transactions; and without a store, for what only touches the disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from onward.context import JobContext
from onward.definition import JobDefinition
from onward.driver import Store
from onward.errors import LeaseLost, OnwardError
from onward.ids import new_id
from onward.jobs import Job
from onward.outcome import Completed, DeadLettered, Released
from onward.registry import Registry
from onward.status import Status
from onward.turn import Claim, Demand, Settlement
from onward.worker.transactions import StoreTransactions

LEASE = timedelta(seconds=60)
NOW = datetime(2026, 1, 1, tzinfo=UTC)


class LooseTransactions:
    """Transactions without a store, for what only touches the disk. ``before`` runs once inside; ``lost`` refuses the claim."""

    def __init__(
        self, before: Callable[[], object] | None = None, *, lost: bool = False, fails_at_commit: bool = False, connection: Any = None
    ) -> None:
        self.before = before
        self.lost = lost
        self.fails_at_commit = fails_at_commit
        self.connection = connection

    @contextmanager
    def begin(self, context: JobContext) -> Iterator[Any]:
        if self.before is not None:
            self.before()
        if self.lost:
            raise LeaseLost("another claim is newer")
        yield self.connection
        if self.fails_at_commit:
            raise LeaseLost("the commit came too late")
        context.completed_in_transaction = True

    def join(self, context: JobContext, connection: Any) -> Any:
        raise NotImplementedError


def loose_context(fence: int = 1, *, job_id: str | None = None, **options: Any) -> JobContext:
    """A context of an invented claim."""
    job = Job(
        id=job_id or new_id(),
        type="create_file",
        queue="default",
        priority=0,
        status=Status.IN_PROGRESS,
        payload="{}",
        payload_hash="",
        scheduled_at=NOW,
        attempts=1,
        fence=fence,
        max_attempts=3,
        created_at=NOW,
        updated_at=NOW,
    )
    return JobContext(job, transactions=LooseTransactions(**options))


def enqueue(store: Store, definition: JobDefinition[Any], payload: Any) -> str:
    """Accept one job and give its id."""
    (accepted,) = store.enqueue([definition.new_job(payload)])
    return accepted.id


def claim_next(store: Store, *definitions: JobDefinition[Any]) -> Claim:
    """Claim the next due job of these definitions."""
    leases = {definition.name: definition.lease for definition in definitions}
    (claim,) = store.turn(demand=Demand(lease_owner="test:1:aa", slots=1, types=leases)).claims
    return claim


def run_claim(store: Store, claim: Claim, *definitions: JobDefinition[Any]) -> str:
    """Run a claim as a worker does, and say how it ended."""
    (definition,) = [one for one in definitions if one.name == claim.job.type]
    context = JobContext(claim.job, transactions=StoreTransactions(store, Registry(definitions)))
    try:
        definition.call(definition.codec.decode(claim.job.payload), context)
    except OnwardError as error:
        store.turn([Settlement(claim=claim, outcome=DeadLettered(str(error)))])
        return str(error)
    if not context.completed_in_transaction:
        store.turn([Settlement(claim=claim, outcome=Completed())])
    return "completed"


def run_all(store: Store, definition: JobDefinition[Any], *payloads: Any) -> list[str]:
    """Enqueue and run, one after the other; give the ids of the jobs."""
    ids = []
    for payload in payloads:
        ids.append(enqueue(store, definition, payload))
        run_claim(store, claim_next(store, definition), definition)
    return ids


def release(store: Store, claim: Claim) -> None:
    """End a claim so that the job is live and not in progress."""
    store.turn([Settlement(claim=claim, outcome=Released())])
