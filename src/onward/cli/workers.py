"""``onward workers``: who works on a store."""

from __future__ import annotations

import click

from onward.cli.output import put_json, relative, say, shorten
from onward.cli.target import app_option, json_option, open_store, url_option


@click.command()
@click.option("--all", "is_all", is_flag=True, help="Also those that have not been heard of for three minutes, for a day.")
@json_option
@app_option
@url_option
def command(is_all: bool, as_json: bool) -> None:
    """List the workers that are running: what each of them serves, and when it was seen last.

    A worker says every minute that it is there. One of --drain does not, and one of an older release neither.
    """
    import msgspec

    from onward.cli.tables import put_table
    from onward.presence import living

    with open_store() as store:
        now = store.now()
        known = store.workers()
    alive = living(known, now)
    if as_json:
        for one in known if is_all else alive:
            put_json(msgspec.to_builtins(one) | {"is_alive": one.is_alive(now)})
        return
    if rows := [
        (
            one.lease_owner,
            one.name if one.name != one.lease_owner else "",
            "" if one.is_alive(now) else "gone",
            shorten(", ".join(one.queues) or "(all)", 40),
            len(one.types),
            one.concurrency,
            relative(one.started_at, now),
            relative(one.seen_at, now),
        )
        for one in (known if is_all else alive)
    ]:
        put_table(("worker", "name", "", "queues", "types", "concurrency", "started", "seen"), rows)
    else:
        say("No worker is running." if not known or is_all else "No worker is running; --all lists those of the last day.")
