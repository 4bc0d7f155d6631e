"""Every error that Onward raises, as one short tree. Each message says what happened and what to do.

Vendor exceptions stop at the driver's boundary and become one of these.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onward.jobs import Job


class OnwardError(Exception):
    """Root of the tree. ``exit_code`` is what the command line exits with when it ends in this error."""

    exit_code = 1


# -- what a handler raises to say how its run ended ------------------------------------------------------------------


class PermanentJobError(OnwardError):
    """Raised by a handler: trying again cannot help. The job is dead-lettered at once."""


class TransientJobError(OnwardError):
    """Raised by a handler: trying again may help, whatever the policy says of unknown errors.

    ``retry_after`` (a ``timedelta``, seconds, digits, ``"5m"`` or an HTTP date) replaces the policy's back-off and its cap. A date that
    has passed is no wait. What cannot be read, is negative or longer than a hundred years is ignored, and the job's error says so.
    """

    def __init__(self, message: str = "", *, retry_after: timedelta | float | str | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


# -- what was asked for cannot be accepted ---------------------------------------------------------------------------


class InvalidPayload(OnwardError):
    """The payload is not of the definition's type, or not in the JSON subset that every backend stores.

    ``path`` is the field at fault, such as ``$.items[2].name``.
    """

    exit_code = 2

    def __init__(self, message: str, *, path: str = "$") -> None:
        super().__init__(f"{message} (at {path})")
        self.path = path


class PayloadTooLarge(InvalidPayload):
    """The encoded payload is larger than the driver takes. ``size`` and ``limit`` are bytes."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(
            f"the payload is {size:,} bytes and at most {limit:,} are allowed: store the data elsewhere and enqueue a reference to it"
        )
        self.size = size
        self.limit = limit


class InvalidDefinition(OnwardError):
    """A job, a policy or an application is declared wrongly. Raised at import or start, never when a job runs."""

    exit_code = 2


class InvalidTime(OnwardError, ValueError):
    """A duration, a moment or a delay cannot be used: naive, malformed, negative or too far away."""

    exit_code = 2


class DuplicateJob(OnwardError):
    """A job with this key, or this id, exists already. ``job_id`` names it."""

    def __init__(self, message: str, *, job_id: str) -> None:
        super().__init__(message)
        self.job_id = job_id


class KeyReused(DuplicateJob):
    """The key is held by a job with another payload, and ``on_duplicate="same"`` forbids that."""


class BreakerOpen(OnwardError):
    """The job's breaker is open, and its definition says that it is not accepted then (``when_open="refuse"``).

    ``key`` names the breaker, ``retry_at`` is when it is tried again (None: in this moment), ``alert_id`` names the alert that says so.
    """

    def __init__(self, key: str, *, retry_at: datetime | None, alert_id: str | None) -> None:
        when = "it is being tried in this moment" if retry_at is None else f"it is tried again at {retry_at:%Y-%m-%d %H:%M:%S} UTC"
        super().__init__(f"the breaker {key!r} is open, and nothing was accepted: {when}, and 'onward breakers show' tells more")
        self.key = key
        self.retry_at = retry_at
        self.alert_id = alert_id


class AlertNotFound(OnwardError):
    """No alert has this id: there never was one, or it was over for longer than alerts are kept."""

    def __init__(self, alert_id: str) -> None:
        super().__init__(f"there is no alert {alert_id!r}: 'onward alerts list' shows those that are open, and '--all' those that are over")


class FailureGroupNotFound(OnwardError):
    """No dead letter that was looked at belongs to this group: its jobs were retried or deleted, or it is mistyped.

    ``meant`` is the id of the group that it is most like.
    """

    def __init__(self, group_id: str, meant: str | None = None) -> None:
        hint = "'onward failures list' shows those that there are" if meant is None else f"did you mean {meant!r}?"
        super().__init__(f"there is no group of failures {group_id!r}: {hint}")
        self.group_id = group_id


class JobNotFound(OnwardError):
    """No job has this id, or the asker may not see it. The same error for both."""

    def __init__(self, job_id: str) -> None:
        super().__init__(
            f"there is no job {job_id}: it may have been pruned, its transaction may not have committed, or the id is mistyped"
        )
        self.job_id = job_id


class PeriodicJobNotFound(OnwardError):
    """No periodic job is called so. ``meant`` is the name that it is most like."""

    def __init__(self, name: str, meant: str | None = None) -> None:
        hint = "onward periodic list shows all of them" if meant is None else f"did you mean {meant!r}?"
        super().__init__(f"there is no periodic job {name!r}: {hint}")
        self.name = name


class JobNotEnded(OnwardError, TimeoutError):
    """The time of ``handle.wait`` is over, and the job has not ended. ``job`` is the job as it was then; it goes on."""

    def __init__(self, message: str, *, job: Job) -> None:
        super().__init__(message)
        self.job = job


class IllegalTransition(OnwardError):
    """The verb is not allowed in the job's status. Names both and what is allowed."""


class UnknownJobType(OnwardError):
    """No definition of the application has this name."""

    exit_code = 2


# -- the store -------------------------------------------------------------------------------------------------------


class StoreError(OnwardError):
    """The store did not do what it was asked to. Nothing was accepted unless the error says otherwise."""

    exit_code = 3


class StoreUnavailable(StoreError):
    """The store cannot be reached, opened or written: missing, read-only, full, or not a database of ours."""

    is_lasting = False
    """True when no waiting mends it: where the store should be, there is something else."""


class StoreBusy(StoreError):
    """Another writer held the store for longer than the time-out. Nothing was accepted; trying again is safe."""


class OutcomeUnknown(StoreError):
    """The commit itself failed, so the change may or may not be stored.

    Repeating the call with the same id (or key) is safe and settles the question. ``job_ids`` are the ids that were asked for.
    """

    def __init__(self, message: str, *, job_ids: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.job_ids = job_ids


class ValueRefused(StoreError):
    """One value cannot be stored, whenever it is tried: of the wrong type, out of range, or without a form in the database.

    Nothing of the call was stored. What else was in it can be stored without that value.
    """


class SchemaOutOfDate(StoreError):
    """The store's tables are older, newer or missing: says which, and the command that helps."""

    exit_code = 5


class NoTransaction(StoreError):
    """``within=`` was given a connection that commits by itself, so the job could not join a transaction."""

    exit_code = 2


class WeakDurability(StoreError):
    """The caller's connection may lose commits at a power cut (``synchronous`` below FULL), and ``strict`` forbids that."""


class DurabilityWarning(UserWarning):
    """The caller's connection may lose commits at a power cut (``synchronous`` below FULL). Said once a process."""


class TransactionOpen(StoreError):
    """This thread holds the store's write transaction already; the call could only wait for itself."""


class TransactionTooLong(StoreError):
    """A handler's transaction held the only write lock for too long and was rolled back."""


class LeaseLost(OnwardError):
    """The claim is not ours any more: the lease ran out, or another claim is newer. The handler should stop."""


# -- the command line and settings -----------------------------------------------------------------------------------


class InvalidSetting(OnwardError):
    """A setting has a value that cannot be used. Names the setting and where its value came from."""

    exit_code = 2


class ApplicationNotFound(OnwardError):
    """``module:attribute`` does not lead to an ``Onward`` application."""

    exit_code = 4
