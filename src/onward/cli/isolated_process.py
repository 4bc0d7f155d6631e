"""The process of isolated jobs, as a worker starts it. Not for people: ``onward worker`` is."""

from __future__ import annotations

import click

from onward.cli.target import app_option, open_application


@click.command(hidden=True)
@click.argument("descriptor", type=int)
@click.argument("worker", type=int)
@click.argument("paths")
@app_option
def command(descriptor: int, worker: int, paths: str) -> None:
    """Run isolated jobs for a worker."""
    import sys

    from msgspec.json import decode

    from onward.telemetry.log import LifecycleLog
    from onward.telemetry.records import configure_logging
    from onward.worker.isolated_main import run_isolated

    sys.path[:] = decode(paths, type=list[str])
    with open_application(may_create=True) as app:
        configure_logging()
        app.events.subscribe(LifecycleLog())
        run_isolated(app.store, app.definitions, app.services, descriptor, worker)
