"""``onward actions``: who did what to how many."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from onward.cli.output import escape, put_json, relative, say, usage_error, utc
from onward.cli.target import app_option, json_option, open_store, url_option
from onward.cli.whole_number import WholeNumber

if TYPE_CHECKING:
    from datetime import datetime

    from onward.actions import Action


@click.command()
@click.option("--limit", type=WholeNumber(min=1), default=50, show_default=True, help="At most so many.")
@click.option("--before", metavar="ID", help="Only those that began before this one: the last id of the page before.")
@json_option
@app_option
@url_option
def command(limit: int, before: str | None, as_json: bool) -> None:
    """Show who did what to how many jobs, newest first.

    Of each verb for all jobs that match, and of what was done to queues, breakers and limits by hand. The counts are what was done, also
    where whoever did it was killed in the middle: such a one never ended.
    """
    import msgspec

    from onward.ids import is_id

    if before is not None and not is_id(before := before.strip().upper()):
        raise usage_error(f"--before is the id of an action, 26 characters, not {before!r:.60}")
    with open_store() as store:
        found = store.actions(limit=limit, before=before)
        now = store.clock.now()
    if as_json:
        for one in found:
            put_json({**msgspec.to_builtins(one), "filter": _as_object(one.filter)})
    elif found:
        _put(found, now)
        if len(found) == limit:
            say(f"There may be more: --before {escape(found[-1].id)}")
    else:
        say("No actions: nobody has acted on many jobs, or on a queue, a breaker or a limit.")


def _put(found: list[Action], now: datetime) -> None:
    from onward.cli.tables import put_table

    columns = ("id", "began", "actor", "verb", "for", "matched", "done", "refused", "ended")
    rows = [
        (one.id, utc(one.began_at), one.actor or "-", one.verb, _words(one.filter), one.matched, one.done, one.refused, _ended(one, now))
        for one in found
    ]
    put_table(columns, rows)


def _as_object(text: str) -> Any:
    """The filter as it was; a text that somebody wrote by hand and that is no JSON stays a text."""
    from json import loads

    try:
        return loads(text)
    except (ValueError, RecursionError):
        return text


def _words(text: str) -> str:
    """The filter as a person would say it: ``queue mail; status queued, retrying``."""
    named = _as_object(text)
    try:
        words = [f"{name} {', '.join(value) if isinstance(value, list) else value}" for name, value in named.items()]
    except (AttributeError, TypeError):  # written by hand
        return text
    return "; ".join(words)


def _ended(one: Action, now: datetime) -> str:
    if one.finished_at is None:
        return "not yet, or killed"
    return f"{'stopped ' if one.was_stopped else ''}{relative(one.finished_at, now)}"
