"""``run_job``: call one handler in a unit test, without a store."""

from __future__ import annotations

from typing import Any, NoReturn, TypeVar

from onward.context import JobContext
from onward.definition import JobDefinition
from onward.errors import InvalidDefinition, OnwardError
from onward.status import Status
from onward.testing.factories import make_job

P = TypeVar("P")


def run_job(definition: JobDefinition[P], payload: P = None, *, services: Any = None, **job_fields: Any) -> Any:  # type: ignore[assignment]  # right for a job without payload, refused by the codec for any other
    """Call the handler with a plain context and give what it returns, a ``Snooze`` or ``Cancel`` too; what it raises is raised.

    The payload goes through JSON as it would in a worker. ``job_fields`` are fields of the job that ``ctx.job`` shows, such as
    ``attempts=3``. An async handler runs on an event loop of its own. For a look at the context, use ``make_context`` and call the
    definition itself.
    """
    context = make_context(definition, payload, services=services, **job_fields)
    returned = definition.call(definition.codec.decode(context.job.payload), context)
    return _await(definition, returned) if definition.is_async else returned


def make_context(definition: JobDefinition[P], payload: P = None, *, services: Any = None, **job_fields: Any) -> JobContext:  # type: ignore[assignment]  # as above
    """Make the context of a run that just began: ``ctx.children``, ``ctx.processed`` and the rest can be read afterwards."""
    if not isinstance(definition, JobDefinition):
        raise InvalidDefinition(
            f"{definition!r:.100} is not a job: give what define_job(name, handler) returned, or call the function itself"
        )
    text = definition.codec.encode(payload)
    asked = {
        "type": definition.name,
        "queue": definition.queue,
        "priority": definition.priority,
        "max_attempts": definition.retry.max_attempts,
    }
    job = make_job(Status.IN_PROGRESS, payload_text=text, **(asked | job_fields))
    return JobContext(job, services=services, transactions=_NoStore())


class _NoStore:
    """Stands where a worker's transactions would, and says what to do instead."""

    def begin(self, context: JobContext) -> NoReturn:
        raise OnwardError(
            "ctx.transaction() needs a store, and run_job() has none: in the test make "
            'Onward(f"sqlite:///{tmp_path}/test.db", jobs=[...]), enqueue the job, and call onward.testing.drain(app)'
        )

    def join(self, context: JobContext, connection: Any) -> NoReturn:
        self.begin(context)

    def has_completed(self, context: JobContext) -> bool:
        return False


def _await(definition: JobDefinition[Any], awaitable: Any) -> Any:
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(awaitable)
    awaitable.close()
    raise OnwardError(
        f"run_job() cannot wait for {definition.name} inside a running event loop: "
        "there, use 'await definition.call(payload, make_context(definition, payload))'"
    )
