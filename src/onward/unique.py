"""Keys: what must be unique, for how long, and what a duplicate does."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from inspect import iscoroutinefunction, signature
from typing import Any, get_args

from onward.durations import parse_duration
from onward.errors import DuplicateJob, InvalidDefinition, InvalidPayload, InvalidTime, KeyReused
from onward.jobs import Accepted, Job, NewJob, OnDuplicate, Scope
from onward.spelling import shown

LONGEST_KEY = 255


def read_scope(scope: Scope | str | float) -> Scope:
    """Read how long a key stays taken: ``"active"``, ``"forever"``, or a window such as ``"24h"``.

    Raises ``InvalidDefinition``.
    """
    if scope == "active":
        return "active"
    if scope == "forever":
        return "forever"
    try:
        window = parse_duration(scope)
    except InvalidTime:
        raise InvalidDefinition(f"scope must be 'active', 'forever' or a window such as '24h', not {shown(scope)}") from None
    if not window:
        raise InvalidDefinition("scope must be longer than nothing; for no uniqueness, give no key")
    return window


def read_on_duplicate(mode: str) -> OnDuplicate:
    """Read what a duplicate does. Raises ``InvalidDefinition``."""
    for known in get_args(OnDuplicate):
        if mode == known:
            return known  # type: ignore[no-any-return]  # as get_args gives it
    raise InvalidDefinition(f"on_duplicate must be 'return', 'same' or 'raise', not {shown(mode)}")


def check_key(key: str) -> str:
    """Give the key back if it can be one: text of 1 to 255 printable characters. Raises ``InvalidDefinition``."""
    if not isinstance(key, str) or not 1 <= len(key) <= LONGEST_KEY or not key.isprintable():
        raise InvalidDefinition(f"a key is text of 1 to {LONGEST_KEY} printable characters, not {shown(key)}")
    return key


def check_key_function(make: Callable[[Any], object], what: str) -> None:
    """Look at a function that makes a key of a payload: it takes one, and is not awaited. Raises ``InvalidDefinition``."""
    if iscoroutinefunction(make):
        raise InvalidDefinition(f"{what} is an async function: it has to give the key at once")
    try:
        signature(make).bind(None)
    except TypeError:
        raise InvalidDefinition(f"{what} is a function of one argument, the payload") from None
    except ValueError:  # made in C, which does not say what it takes
        return


def made_of(make: Callable[[Any], object], payload: Any, what: str) -> Any:
    """The key that a function makes of a payload. Raises ``InvalidPayload`` for one that it fails on."""
    try:
        return make(payload)
    except Exception as error:
        raise InvalidPayload(f"{what} cannot be made of this payload: {type(error).__name__}: {error}") from error


def answer_duplicate(asked: NewJob, holder_id: str, holder_hash: str) -> Accepted:
    """Say what an enqueue gets whose key is held: the holder, or ``KeyReused`` or ``DuplicateJob``, as it asked for."""
    differs = asked.payload_hash != holder_hash
    if asked.on_duplicate == "raise":
        raise DuplicateJob(f"the key {asked.key!r} of {asked.type} is held by job {holder_id}", job_id=holder_id)
    if asked.on_duplicate == "same" and differs:
        raise KeyReused(f"the key {asked.key!r} of {asked.type} is held by job {holder_id} with another payload", job_id=holder_id)
    return Accepted(holder_id, is_new=False, payload_differs=differs)


def answer_same_id(asked: NewJob, stored_type: str, stored_hash: str, stored_owner: str) -> Accepted:
    """Say what an enqueue gets whose id is stored already: the same request again is accepted, anything else is refused.

    The refusal tells nothing of the other job, which may be somebody else's.
    """
    if (stored_type, stored_hash, stored_owner) != (asked.type, asked.payload_hash, asked.owner):
        raise DuplicateJob(f"the id {asked.id} belongs to another job: leave id= out, or repeat the same request", job_id=asked.id)
    return Accepted(asked.id, is_new=False)


def refuse_retry(job: Job, holder: str) -> DuplicateJob:
    """What a person is told whose retry would run a second job with a key that ``holder`` has."""
    return DuplicateJob(
        f"the key {job.idempotency_key!r} of {job.type} is held by job {holder}: job {job.id} cannot run beside it", job_id=holder
    )


def key_lasts(scope: Scope) -> timedelta | None:
    """Say how long after the enqueue a key frees itself; None where something else does, or nothing."""
    return scope if isinstance(scope, timedelta) else None
