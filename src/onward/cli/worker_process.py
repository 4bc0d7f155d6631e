"""One worker process, as the supervisor starts it. Not for people: ``onward worker`` is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from onward.cli.target import app_option, elsewhere, needed_application, open_application

if TYPE_CHECKING:
    from collections.abc import Iterable
    from logging import Logger

    from onward.app import Onward
    from onward.telemetry.log import LifecycleLog


@click.command(hidden=True)
@click.argument("options")
@click.argument("pipes")
@app_option
def command(options: str, pipes: str) -> int:
    """Run jobs under a supervisor."""
    from msgspec.json import decode

    from onward.events import Event
    from onward.telemetry.log import LifecycleLog
    from onward.telemetry.records import configure_logging
    from onward.worker.child import ChildPipes
    from onward.worker.process import run_supervised

    given: dict[str, Any] = decode(options)
    with open_application(may_create=True) as app:
        # After the application was imported: how it set up logging is what holds.
        configure_logging()
        own, log = app.events.copy(), LifecycleLog()
        app.events.subscribe(log)
        _say_where(app, given, log)
        given["application"] = needed_application()

        def tell(line: bytes) -> None:
            """What the supervisor took back from a dead process. It has written the line to the log itself."""
            own.emit(decode(line, type=Event))

        return run_supervised(app.store, lambda **decided: app.worker(**given, **decided), decode(pipes, type=ChildPipes), tell)


def _say_where(app: Onward, options: dict[str, Any], log: LifecycleLog) -> None:
    """The first line: which store, which schema, how old its newest job is. A worker on an abandoned store looks healthy otherwise."""
    import logging
    import os

    from onward.clock import SystemClock
    from onward.errors import StoreBusy, StoreUnavailable
    from onward.inspection import JobFilter

    logger = logging.getLogger("onward.worker")
    if other := elsewhere(app.store):
        logger.warning("%s names %s, but the application names its own store, which is used: %s", *other, app.store.url)
    is_new = not app.store.exists()
    line: dict[str, Any] = {"event": "worker_started", "at": SystemClock().now(), "pid": os.getpid(), "store": app.store.url}
    try:
        app.store.open()
        if is_new:
            logger.warning("there was no %s: created a new, empty one; a relative path is looked for in %s", app.store.url, os.getcwd())
        line["schema"] = app.store.schema_version
        newest = app.store.find(JobFilter(), limit=1)
        line["newest_job_at"] = newest[0].created_at if newest else None
        _point_out_strange_queues(app, options["queues"], logger)
        if options["drain"]:
            # A write that changes nothing: with a store that is only readable, the end would never come.
            app.store.recover("nobody", ())
    except (StoreBusy, StoreUnavailable) as error:
        if isinstance(error, StoreUnavailable) and (options["drain"] or error.is_lasting):
            raise
        # It may come back; the worker tries on by itself.
        line["error"] = str(error)
    log.write({**line, "queues": options["queues"], "concurrency": options["concurrency"]})


def _point_out_strange_queues(app: Onward, served: Iterable[str], logger: Logger) -> None:
    """Warn of each queue that nothing is in. It is served all the same: another application may use it later."""
    from contextlib import suppress
    from datetime import timedelta

    from onward.errors import StoreError
    from onward.inspection import JobFilter
    from onward.spelling import nearest

    known = {definition.queue for definition in app.definitions}
    strange = [queue for queue in served if queue not in known]
    if not strange:
        return
    with suppress(StoreError):  # a store that is away is told of by what comes next
        # What is newest and what ended within a day: no index leads to a queue without jobs, and the table may be large.
        known |= {job.queue for job in app.store.find(JobFilter(), limit=50)}
        known |= {rollup.queue for rollup in app.store.rollups(app.store.clock.now() - timedelta(days=1))}
    for queue in strange:
        if queue not in known:
            close = nearest(queue, sorted(known))
            meant = f": is {close!r} meant?" if close else f"; known are {', '.join(sorted(known)) or 'none'}"
            logger.warning("no job is declared for the queue %r, which is served, and none was in it lately%s", queue, meant)
