"""``onward history``: the attempts of all jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from onward.attempts import OUTCOMES, AttemptOutcome
from onward.cli.output import escape, put_json, relative, rough, say, shorten, usage_error
from onward.cli.target import app_option, json_option, open_store_and_application, url_option
from onward.cli.whole_number import WholeNumber

if TYPE_CHECKING:
    from datetime import datetime

    from onward.attempts import Attempts, ListedAttempt, Place

LONGEST_ERROR = 80


@click.command()
@click.option("--type", "types", multiple=True, metavar="NAME", help="Only of this job type; repeatable.")
@click.option("--queue", "queues", multiple=True, metavar="NAME", help="Only of this queue; repeatable.")
@click.option("--outcome", "outcomes", multiple=True, type=click.Choice(OUTCOMES), help="Only those that ended so; repeatable.")
@click.option("--worker", metavar="LEASE_OWNER", help="Only those of this process, as the list shows it.")
@click.option("--since", metavar="DURATION|TIME", help="Only those that ended since: 1h, 2d, or a time with its zone.")
@click.option("--until", metavar="DURATION|TIME", help="Only those that ended before.")
@click.option("--limit", type=WholeNumber(min=1), default=50, show_default=True, help="At most so many.")
@click.option("--before", metavar="CURSOR", help="Go on where the page before ended, as it says.")
@click.option("--raw", is_flag=True, help="Show errors as they are stored.")
@json_option
@app_option
@url_option
def command(
    types: tuple[str, ...],
    queues: tuple[str, ...],
    outcomes: tuple[AttemptOutcome, ...],
    worker: str | None,
    since: str | None,
    until: str | None,
    limit: int,
    before: str | None,
    raw: bool,
    as_json: bool,
) -> None:
    """List the attempts of all jobs that were kept, newest first.

    Those that did not complete are kept always, successes where the job is declared with history="all". Where few match, a page looks
    at 10,000 of them; it says then where to go on.
    """
    from onward.attempts import AttemptFilter
    from onward.cli.strange_names import point_out_strange_names
    from onward.inspection import JobFilter

    page = None if before is None else _place(before)
    with open_store_and_application() as (store, app):
        now = store.clock.now()
        where = AttemptFilter(
            types=types,
            queues=queues,
            outcomes=outcomes,
            lease_owner=worker,
            since=_end("--since", since, now),
            until=_end("--until", until, now),
        )
        found = store.attempts(where, limit=limit, before=page)
        if not found.found and not found.is_capped and page is None:
            point_out_strange_names(store, app, JobFilter(types=types, queues=queues))
    if as_json:
        for one in found.found:
            put_json(_as_json(one, raw=raw))
    elif found.found:
        _put(found.found, now, raw=raw)
    elif not found.is_capped:
        say("No attempts.")
    _say_where_to_go_on(found)


def _say_where_to_go_on(page: Attempts) -> None:
    if page.next is None:
        return
    if page.is_capped:
        from onward.attempts import MOST_LOOKED_AT

        say(f"Looked at {MOST_LOOKED_AT:,} attempts, and stopped there. To go on: --before {escape(page.next)}")
    else:
        say(f"There are more: --before {escape(page.next)}")


def _put(found: tuple[ListedAttempt, ...], now: datetime, *, raw: bool) -> None:
    from onward.cli.tables import put_table

    columns = ("ended", "job", "type", "queue", "attempt", "outcome", "took", "processed", "failed", "worker", "error")
    put_table(columns, [_row(one, now, raw=raw) for one in found])


def _row(one: ListedAttempt, now: datetime, *, raw: bool) -> tuple[str | int, ...]:
    return (
        relative(one.finished_at, now),
        one.job_id,
        shorten(one.type, 40),
        shorten(one.queue, 20),
        one.attempt,
        one.outcome,
        "-" if one.started_at is None else rough(one.finished_at - one.started_at),
        one.processed,
        one.failed,
        one.lease_owner or "-",
        shorten((_error(one, raw=raw) or "").partition("\n")[0], LONGEST_ERROR),
    )


def _as_json(one: ListedAttempt, *, raw: bool) -> dict[str, Any]:
    import msgspec

    return {**msgspec.to_builtins(one), "error": _error(one, raw=raw)}


def _error(one: ListedAttempt, *, raw: bool) -> str | None:
    """Secrets are taken out before it is stored; what was written by hand, or by older code, is looked at once more."""
    from onward.redact import redact

    return one.error if raw or one.error is None else redact(one.error)


def _place(text: str) -> Place:
    from onward.attempts import read_place
    from onward.errors import InvalidDefinition

    try:
        return read_place(text)
    except InvalidDefinition as error:
        raise usage_error(f"--{str(error).replace('=', '', 1)}") from None


def _end(option: str, text: str | None, now: datetime) -> datetime | None:
    from onward.attempts import read_end
    from onward.errors import InvalidTime

    if text is None:
        return None
    try:
        return read_end(text, now)
    except InvalidTime as error:
        raise usage_error(f"{option}: {error}") from None
