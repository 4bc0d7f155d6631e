"""Background jobs that commit together with your data, and are never lost. The public names, nothing else."""

from onward.app import JobHandle, Onward
from onward.context import JobContext
from onward.definition import JobDefinition, define_job, job
from onward.driver import Retention
from onward.errors import (
    DuplicateJob,
    DurabilityWarning,
    IllegalTransition,
    InvalidDefinition,
    InvalidPayload,
    JobNotFound,
    KeyReused,
    LeaseLost,
    OnwardError,
    OutcomeUnknown,
    PayloadTooLarge,
    PermanentJobError,
    StoreBusy,
    StoreError,
    StoreUnavailable,
    TransientJobError,
)
from onward.events import Event
from onward.job import Job
from onward.outcome import Cancel, Release, Snooze
from onward.retry import RetryPolicy
from onward.status import Status

__all__ = [
    "Cancel",
    "DuplicateJob",
    "DurabilityWarning",
    "Event",
    "IllegalTransition",
    "InvalidDefinition",
    "InvalidPayload",
    "Job",
    "JobContext",
    "JobDefinition",
    "JobHandle",
    "JobNotFound",
    "KeyReused",
    "LeaseLost",
    "Onward",
    "OnwardError",
    "OutcomeUnknown",
    "PayloadTooLarge",
    "PermanentJobError",
    "Release",
    "Retention",
    "RetryPolicy",
    "Snooze",
    "Status",
    "StoreBusy",
    "StoreError",
    "StoreUnavailable",
    "TransientJobError",
    "define_job",
    "job",
]
