"""Settle as an operation: the row, then, only for what was really settled, keys, children and history."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct

from onward.driver import Settlement
from onward.drivers.sql.enqueue import enqueue
from onward.drivers.sql.rows import write_instant
from onward.drivers.sql.statements import Operation, Row, Statement, as_json
from onward.errors import DuplicateJob
from onward.jobs import NewJob
from onward.outcome import Completed, Outcome, Released, Retried, Snoozed
from onward.status import Status


class Settled(Struct, frozen=True):
    """Which settlements hold, and which were refused."""

    settled: tuple[Settlement, ...] = ()
    lost: tuple[Settlement, ...] = ()


def settle(settlements: Sequence[Settlement], now: datetime) -> Operation[Settled]:
    """Store how these claims ended. A refused one changes nothing and does not undo its neighbours."""
    now_text = write_instant(now)
    ended: dict[str, str] = {}
    plain = [one for one in settlements if _is_plain(one)]
    if plain:
        rows = [(one.claim.job.id, one.claim.job.fence, one.outcome.result) for one in plain]  # type: ignore[union-attr]
        ended.update((yield Statement("complete", {"rows": as_json(rows), "now": now_text})))
    if len(plain) < len(settlements):
        others = [_ending(one, now) for one in settlements if not _is_plain(one)]
        ended.update((yield Statement("settle", {"rows": as_json(others), "now": now_text})))
    done = [one for one in settlements if one.claim.job.id in ended]
    yield from _after(done, ended, now)
    if len(done) == len(settlements):
        return Settled(tuple(settlements))

    missing = [one for one in settlements if one.claim.job.id not in ended]
    rows_shown = yield Statement("shown", {"ids": as_json([one.claim.job.id for one in missing])})
    shown = {row[0]: row for row in rows_shown}
    lost = [one for one in missing if not _is_shown(one, shown.get(one.claim.job.id))]
    refused = {id(one) for one in lost}
    return Settled(tuple(one for one in settlements if id(one) not in refused), tuple(lost))


def _is_plain(settlement: Settlement) -> bool:
    outcome = settlement.outcome
    return type(outcome) is Completed and outcome.error is None and settlement.progress is None and _has_form(outcome.result)


def _has_form(text: str | None) -> bool:
    """Say whether a database can store the text: a lone surrogate has no form in UTF-8."""
    if text is None or text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _ending(settlement: Settlement, now: datetime) -> tuple[Any, ...]:
    outcome = settlement.outcome
    later = write_instant(now + outcome.delay) if isinstance(outcome, Retried | Snoozed) else None
    result, error = outcome.result if isinstance(outcome, Completed) else None, error_of(outcome)
    if not _has_form(result):
        result, error = None, "result could not be stored: it contains a lone surrogate"
    job = settlement.claim.job
    released, snoozed = isinstance(outcome, Released), isinstance(outcome, Snoozed)
    return (
        job.id,
        job.fence,
        outcome.status.value,
        later,
        error,
        result,
        settlement.progress if _has_form(settlement.progress) else None,
        int(released),
        int(snoozed),
    )


def error_of(outcome: Outcome) -> str | None:
    """Say what the outcome has to say of why the job did not complete."""
    text = getattr(outcome, "error", None) or getattr(outcome, "reason", None)
    # SQLite's text functions end at a NUL.
    return None if text is None else str(text).replace("\0", "\\x00")


def _after(done: Sequence[Settlement], ended: dict[str, str], now: datetime) -> Operation[None]:
    freed = [one.claim.job.id for one in done if one.claim.job.idempotency_key is not None and Status(ended[one.claim.job.id]).is_final]
    if freed:
        yield Statement("free_keys", {"ids": as_json(freed)})
    history = [_attempt(one, ended[one.claim.job.id], now) for one in done if one.keeps_history or not isinstance(one.outcome, Completed)]
    if history:
        yield Statement("write_history", {"rows": as_json(history)})
    children = [child for one in done if isinstance(one.outcome, Completed) for child in one.children]
    if children:
        yield from _enqueue_children(children, now)


def _enqueue_children(children: Sequence[NewJob], now: datetime) -> Operation[None]:
    try:
        yield from enqueue([_welcome(child) for child in children], now)
    except DuplicateJob:
        # An id that belongs to another job. One at a time, so that the other children and the completion stand.
        for child in children:
            try:
                yield from enqueue([_welcome(child)], now)
            except DuplicateJob:
                continue


def _welcome(child: NewJob) -> NewJob:
    # A completion cannot be refused for a child whose key is held: the holder stands for it.
    if child.on_duplicate == "return":
        return child
    return NewJob(**{name: getattr(child, name) for name in NewJob.__struct_fields__} | {"on_duplicate": "return"})


def _attempt(settlement: Settlement, status: str, now: datetime) -> tuple[Any, ...]:
    job, outcome = settlement.claim.job, settlement.outcome
    name = "cancelled" if status == Status.CANCELLED.value else outcome.name
    started = None if job.started_at is None else write_instant(job.started_at)
    return (
        job.id,
        job.fence,
        job.attempts,
        job.lease_owner,
        name,
        error_of(outcome),
        settlement.processed,
        settlement.failed,
        started,
        write_instant(now),
    )


def _is_shown(settlement: Settlement, row: Row | None) -> bool:
    """Say whether the row is what this settlement would have written: then an earlier try was stored, and it counts as settled."""
    if row is None:
        return False
    job, outcome = settlement.claim.job, settlement.outcome
    _, status, fence, *counts = row
    if fence != job.fence or status != outcome.status.value:
        return False
    # A sweep leaves a job queued under the same fence, as a release does; what they count tells them apart.
    expected = [job.lost_leases, job.releases + isinstance(outcome, Released), job.snoozes + isinstance(outcome, Snoozed)]
    return outcome.status.is_final or counts == expected
