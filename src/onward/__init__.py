"""Background jobs that commit together with your data, and are never lost. The public names, nothing else.

Each name is loaded when it is first asked for, so that importing the package costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onward.alert_rules import AlertRules
    from onward.app import Onward
    from onward.breaker import Breaker
    from onward.context import JobContext
    from onward.definition import JobDefinition, define_job, job
    from onward.errors import (
        AlertNotFound,
        BreakerOpen,
        DuplicateJob,
        DurabilityWarning,
        FailureGroupNotFound,
        IllegalTransition,
        InvalidDefinition,
        InvalidPayload,
        JobNotEnded,
        JobNotFound,
        KeyReused,
        LeaseLost,
        OnwardError,
        OutcomeUnknown,
        PayloadTooLarge,
        PeriodicJobNotFound,
        PermanentJobError,
        StoreBusy,
        StoreError,
        StoreUnavailable,
        TransientJobError,
    )
    from onward.events import Event
    from onward.handle import JobHandle
    from onward.inspection import Kept, Retention
    from onward.jobs import Job
    from onward.limit import Limit
    from onward.outcome import Cancel, Release, Snooze
    from onward.periodic import Periodic
    from onward.reasons import public_reason
    from onward.retry import CONNECTION_ERRORS, RetryPolicy
    from onward.secret_types import Secret
    from onward.status import Status
    from onward.transaction import awith_transactional_state_and_enqueue, with_transactional_state_and_enqueue
    from onward.webhooks import Webhook

__all__ = [
    "CONNECTION_ERRORS",
    "AlertNotFound",
    "AlertRules",
    "Breaker",
    "BreakerOpen",
    "Cancel",
    "DuplicateJob",
    "DurabilityWarning",
    "Event",
    "FailureGroupNotFound",
    "IllegalTransition",
    "InvalidDefinition",
    "InvalidPayload",
    "Job",
    "JobContext",
    "JobDefinition",
    "JobHandle",
    "JobNotEnded",
    "JobNotFound",
    "Kept",
    "KeyReused",
    "LeaseLost",
    "Limit",
    "Onward",
    "OnwardError",
    "OutcomeUnknown",
    "PayloadTooLarge",
    "Periodic",
    "PeriodicJobNotFound",
    "PermanentJobError",
    "Release",
    "Retention",
    "RetryPolicy",
    "Secret",
    "Snooze",
    "Status",
    "StoreBusy",
    "StoreError",
    "StoreUnavailable",
    "TransientJobError",
    "Webhook",
    "awith_transactional_state_and_enqueue",
    "define_job",
    "job",
    "public_reason",
    "with_transactional_state_and_enqueue",
]

# Which module holds which names; errors hold the rest. A test compares this with the imports above.
_MODULES = {
    "alert_rules": ("AlertRules",),
    "app": ("Onward",),
    "breaker": ("Breaker",),
    "context": ("JobContext",),
    "definition": ("JobDefinition", "define_job", "job"),
    "inspection": ("Kept", "Retention"),
    "events": ("Event",),
    "handle": ("JobHandle",),
    "jobs": ("Job",),
    "limit": ("Limit",),
    "outcome": ("Cancel", "Release", "Snooze"),
    "periodic": ("Periodic",),
    "reasons": ("public_reason",),
    "retry": ("CONNECTION_ERRORS", "RetryPolicy"),
    "secret_types": ("Secret",),
    "status": ("Status",),
    "transaction": ("awith_transactional_state_and_enqueue", "with_transactional_state_and_enqueue"),
    "webhooks": ("Webhook",),
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module = next((module for module, names in _MODULES.items() if name in names), "errors")
    value: object = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
