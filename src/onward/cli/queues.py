"""``onward queues``: list, pause, resume."""

from __future__ import annotations

import click

from onward.cli.actor import actor_option, user_at_host
from onward.cli.output import put, put_json, say
from onward.cli.target import app_option, json_option, open_store, open_store_and_application, url_option


@click.group()
@app_option
@url_option
def command() -> None:
    """Look at queues, pause and resume them."""


@command.command("list")
@json_option
@app_option
@url_option
def list_queues(as_json: bool) -> None:
    """List the queues that are paused or have jobs that wait or run.

    WAITING counts the jobs that are queued or retrying, whenever they are due.
    """
    import msgspec

    from onward.cli.output import relative
    from onward.cli.tables import put_table

    with open_store() as store:
        queues = store.queues()
        now = store.clock.now()
    if as_json:
        for one in queues:
            put_json(msgspec.to_builtins(one))
    elif queues:
        paused = ["" if one.paused_at is None else relative(one.paused_at, now) for one in queues]
        rows = [(one.name, one.waiting, one.in_progress, since) for one, since in zip(queues, paused, strict=True)]
        put_table(("queue", "waiting", "in_progress", "paused"), rows)
    else:
        say("No queues: none is paused, and no job waits or runs.")


@command.command()
@click.argument("queues", metavar="QUEUE...", nargs=-1, required=True)
@actor_option
@json_option
@app_option
@url_option
def pause(queues: tuple[str, ...], actor: str | None, as_json: bool) -> None:
    """Let no more jobs of these queues start, in any worker of the store.

    Jobs that run go on, and what is enqueued is accepted and waits. A job with an expiry may expire meanwhile.
    """
    _change(queues, "pause", ("paused", "paused already"), actor, as_json)


@command.command()
@click.argument("queues", metavar="QUEUE...", nargs=-1, required=True)
@actor_option
@json_option
@app_option
@url_option
def resume(queues: tuple[str, ...], actor: str | None, as_json: bool) -> None:
    """Let the jobs of paused queues start again."""
    _change(queues, "resume", ("resumed", "not paused"), actor, as_json)


def _change(queues: tuple[str, ...], verb: str, said: tuple[str, str], actor: str | None, as_json: bool) -> None:
    from onward.cli.strange_names import point_out_strange_queue
    from onward.settings import check_queues

    names = check_queues(queues)  # all of them, before any is changed
    who = user_at_host() if actor is None else actor
    with open_store_and_application() as (store, app):
        known = {one.name for one in store.queues()} | {one.queue for one in app.definitions} if app else None
        for name in names:
            if verb == "pause" and known is not None:
                point_out_strange_queue(name, known)
            is_changed = store.pause(name, actor=who) if verb == "pause" else store.resume(name, actor=who)
            if as_json:
                put_json({"name": name, "paused": verb == "pause", "changed": is_changed})
            else:
                put(f"{name}: {said[0] if is_changed else said[1]}")
