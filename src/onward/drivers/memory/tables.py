"""The store's content: dictionaries of frozen values, so that a copy is a snapshot and the old value is the undo."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from msgspec import Struct

from onward.actions import Action
from onward.alerts import Alert
from onward.breaker import BreakerState
from onward.jobs import Attempt, Job, Scope
from onward.limit import LimitKind, LimitState
from onward.metrics import Total, add_rollups
from onward.periodic import PeriodicJob
from onward.presence import KnownWorker
from onward.rollups import Rollup, Written, of_jobs
from onward.verdict import Condition

KeyName = tuple[str, str, str]
"""Under what a key is unique: (owner, type, key)."""
_ABSENT: Any = object()


class KeyHolder(Struct, frozen=True):
    """Which job has a key, and until when."""

    job_id: str
    payload_hash: str
    scope: Scope
    expires_at: datetime | None
    """When a window is over; None while something else holds the key."""

    def holds_at(self, now: datetime) -> bool:
        return self.expires_at is None or self.expires_at > now


class Tables:
    """All that a store holds. Every write goes through ``put`` or ``remove`` of one of these, so that it can be undone."""

    def __init__(self) -> None:
        self.jobs: dict[str, Job] = {}
        self.waiting: dict[str, None] = {}
        """The ids of jobs that a claim may look at, so that its cost does not depend on those it may not take."""
        self.blocked: dict[str, None] = {}
        """The ids of jobs that wait for a worker that knows their type."""
        self.keys: dict[KeyName, KeyHolder] = {}
        self.scopes: dict[str, Scope] = {}
        """The scope that each job with a key asked for: a retry by a person takes the key again."""
        self.history: dict[str, tuple[Attempt, ...]] = {}
        self.rollups: dict[tuple[str, ...], Rollup] = {}
        """By minute, queue, type, outcome and worker."""
        self.totals: dict[tuple[str, str, str], Total] = {}
        """What was counted of rollups, by queue, type and outcome."""
        self.counted_until = ""
        """From which minute on rollups are not counted yet."""
        self.paused: dict[str, datetime] = {}
        """Since when each queue is paused that is."""
        self.periodic: dict[str, PeriodicJob] = {}
        self.actions: dict[str, Action] = {}
        self.behind: dict[str, None] = {}
        """The ids of jobs that wait for others."""
        self.breakers: dict[str, BreakerState] = {}
        self.limits: dict[tuple[LimitKind, str], LimitState] = {}
        self.alerts: dict[str, Alert] = {}
        self.told: frozenset[tuple[str, str]] = frozenset()
        """Of which alerts, and whether of their opening or their end, somebody was told."""
        self.workers: dict[str, KnownWorker] = {}
        self.conditions: dict[str, Condition] = {}
        self.looked_at: datetime | None = None
        """When somebody was to look whether rules of alerts are broken."""
        self.changed: dict[tuple[str, str], datetime] = {}
        """When each breaker and each limit was written last."""
        self._undo: list[tuple[dict[Any, Any], Any, Any]] | None = None

    def copy(self) -> Tables:
        """A snapshot that can be changed without touching this one."""
        other = Tables()
        other.jobs, other.waiting, other.keys = self.jobs.copy(), self.waiting.copy(), self.keys.copy()
        other.blocked, other.paused, other.periodic = self.blocked.copy(), self.paused.copy(), self.periodic.copy()
        other.actions, other.behind, other.breakers = self.actions.copy(), self.behind.copy(), self.breakers.copy()
        other.limits, other.alerts, other.changed = self.limits.copy(), self.alerts.copy(), self.changed.copy()
        other.told, other.looked_at = self.told, self.looked_at
        other.workers, other.conditions = self.workers.copy(), self.conditions.copy()
        other.totals, other.counted_until = self.totals.copy(), self.counted_until
        other.scopes, other.history, other.rollups = self.scopes.copy(), self.history.copy(), self.rollups.copy()
        return other

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """Undo what the block wrote when it raises. Blocks nest."""
        outer, self._undo = self._undo, []
        try:
            yield
        except BaseException:
            for table, name, before in reversed(self._undo):
                _write(table, name, before)
            self._undo = outer
            raise
        if outer is not None:
            outer.extend(self._undo)
        self._undo = outer

    def put_job(self, job: Job) -> Job:
        self._put(self.jobs, job.id, job)
        is_waiting = job.status.is_claimable and job.blocked_by is None
        self._put(self.waiting, job.id, None if is_waiting else _ABSENT)
        self._put(self.blocked, job.id, None if job.blocked_by == "type" else _ABSENT)
        self._put(self.behind, job.id, _ABSENT if job.blocked_by in (None, "type") else None)
        return job

    def remove_job(self, job: Job) -> None:
        """Remove the row, its history and its key of scope ``active``."""
        self.free_key(job)
        for table in (self.jobs, self.waiting, self.blocked, self.behind, self.scopes, self.history):
            self._put(table, job.id, _ABSENT)

    def add_attempt(self, attempt: Attempt) -> None:
        self._put(self.history, attempt.job_id, (*self.history.get(attempt.job_id, ()), attempt))

    def write_rollups(self, written: Written) -> None:
        for one in written.values:
            self.put_rollup(one)
        for one in written.corrected:
            if (*one.cell, one.worker) in self.rollups:
                self.put_rollup(one)

    def count_unsettled(self, outcome: str, jobs: Sequence[Job], now: datetime) -> None:
        """Count what ended without a worker that tells of it: claims that were lost, jobs that expired."""
        self.write_rollups(Written(tuple(of_jobs(outcome, jobs, now))))

    def uncounted(self) -> list[Rollup]:
        """The rollups that are not counted into ``totals`` yet."""
        return [one for one in self.rollups.values() if one.minute >= self.counted_until]

    def count_totals(self, before: str) -> None:
        """Count rollups of minutes that nobody writes any more."""
        grown = add_rollups(self.totals.values(), (one for one in self.uncounted() if one.minute < before))
        self.totals = {(one.queue, one.type, one.outcome): one for one in grown}
        self.counted_until = max(self.counted_until, before)

    def put_rollup(self, rollup: Rollup) -> None:
        self._put(self.rollups, (*rollup.cell, rollup.worker), rollup)

    def remove_rollup(self, rollup: Rollup) -> None:
        self._put(self.rollups, (*rollup.cell, rollup.worker), _ABSENT)

    def pause(self, queue: str, now: datetime) -> bool:
        """False when it was paused before."""
        is_new = queue not in self.paused
        self._put(self.paused, queue, self.paused.get(queue, now))
        return is_new

    def resume(self, queue: str) -> bool:
        """False when it was not paused."""
        was_paused = queue in self.paused
        self._put(self.paused, queue, _ABSENT)
        return was_paused

    def put_periodic(self, row: PeriodicJob) -> None:
        self._put(self.periodic, row.name, row)

    def remove_periodic(self, name: str) -> bool:
        """False when there is none of this name."""
        is_there = name in self.periodic
        self._put(self.periodic, name, _ABSENT)
        return is_there

    def put_breaker(self, state: BreakerState, now: datetime) -> None:
        self._put(self.breakers, state.key, state)
        self._put(self.changed, ("breaker", state.key), now)

    def put_limit(self, state: LimitState, now: datetime) -> None:
        self._put(self.limits, (state.kind, state.name), state)
        self._put(self.changed, (state.kind, state.name), now)

    def remove_breaker(self, key: str) -> None:
        self._put(self.breakers, key, _ABSENT)

    def remove_limit(self, kind: LimitKind, name: str) -> bool:
        """False when there is none."""
        is_there = (kind, name) in self.limits
        self._put(self.limits, (kind, name), _ABSENT)
        return is_there

    def put_alert(self, alert: Alert) -> None:
        self._put(self.alerts, alert.id, alert)

    def remove_alert(self, alert: Alert) -> None:
        self._put(self.alerts, alert.id, _ABSENT)

    def put_worker(self, worker: KnownWorker) -> None:
        self._put(self.workers, worker.lease_owner, worker)

    def remove_worker(self, lease_owner: str) -> None:
        self._put(self.workers, lease_owner, _ABSENT)

    def put_action(self, action: Action) -> None:
        self._put(self.actions, action.id, action)

    def remove_action(self, action: Action) -> None:
        self._put(self.actions, action.id, _ABSENT)

    def put_scope(self, job_id: str, scope: Scope) -> None:
        self._put(self.scopes, job_id, scope)

    def put_key(self, name: KeyName, holder: KeyHolder) -> None:
        self._put(self.keys, name, holder)

    def remove_key(self, name: KeyName) -> None:
        self._put(self.keys, name, _ABSENT)

    def free_key(self, job: Job) -> None:
        """Give up the key that a job holds only while it is live; a window and ``forever`` hold on."""
        if job.idempotency_key is None:
            return
        name = (job.owner, job.type, job.idempotency_key)
        holder = self.keys.get(name)
        if holder is not None and holder.job_id == job.id and holder.scope == "active":
            self.remove_key(name)

    def _put(self, table: dict[Any, Any], name: Any, value: Any) -> None:
        if self._undo is not None:
            self._undo.append((table, name, table.get(name, _ABSENT)))
        _write(table, name, value)


def _write(table: dict[Any, Any], name: Any, value: Any) -> None:
    if value is _ABSENT:
        table.pop(name, None)
    else:
        table[name] = value
