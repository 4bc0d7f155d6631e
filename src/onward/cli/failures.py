"""``onward failures``: list, show, retry, purge."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from onward.cli.actor import actor_option, user_at_host
from onward.cli.output import escape, put, put_json, relative, say, shorten, utc
from onward.cli.pace import pace_option
from onward.cli.target import app_option, json_option, onward_as_typed, open_store, open_store_and_application, target, url_option

if TYPE_CHECKING:
    from onward.bulk import BulkResult, OnProgress
    from onward.failures import FailureGroup
    from onward.inspection import BulkVerb, JobFilter

SHOWN_JOBS = 10
WIDEST_MESSAGE = 80


@click.group()
@app_option
@url_option
def command() -> None:
    """Look at dead letters by what they died of, retry and purge them."""


def _looked_at(function: Callable[..., Any]) -> Callable[..., Any]:
    """Which dead letters are looked at."""
    for add in (
        url_option,
        app_option,
        json_option,
        click.option("--queue", "queues", multiple=True, metavar="NAME", help="Only this queue; repeatable."),
        click.option("--type", "types", multiple=True, metavar="NAME", help="Only this job type; repeatable."),
    ):
        function = add(function)
    return function


@command.command("list")
@click.option("--raw", is_flag=True, help="Show what looks like a secret in a message, too.")
@_looked_at
def list_groups(types: tuple[str, ...], queues: tuple[str, ...], raw: bool, as_json: bool) -> None:
    """List what jobs died of: type, exception, message and place, the largest group first.

    Numbers, ids, quoted texts, dates, addresses and paths do not tell causes apart. The newest 10,000 dead letters are looked at; with
    --type or --queue those of it.
    """
    import msgspec

    from onward.cli.strange_names import point_out_strange_names
    from onward.cli.tables import put_table
    from onward.failure_verbs import groups_of

    where = _filter(types, queues)
    with open_store_and_application() as (store, app):
        found = groups_of(store, where, raw=raw)
        if not found:
            point_out_strange_names(store, app, where)
        now = store.clock.now()
    if as_json:
        for one in found:
            put_json(msgspec.to_builtins(one))
        return
    if not found:
        say("No dead letters.")
        return
    columns = ("group", "count", "type", "error", "where", "first", "last")
    rows = [
        (
            one.id,
            _count(one),
            shorten(one.type, 40),
            shorten(_error(one), WIDEST_MESSAGE),
            one.where or "-",
            relative(one.first_at, now),
            relative(one.last_at, now),
        )
        for one in found
    ]
    put_table(columns, rows)
    typed = onward_as_typed(target())
    say(f"More of one: '{typed} failures show {found[0].id}'. Again: '{typed} failures retry {found[0].id} --pace 10/s'")


@command.command()
@click.argument("group_id", metavar="GROUP")
@click.option("--raw", is_flag=True, help="Show what looks like a secret in the error, too.")
@_looked_at
def show(group_id: str, types: tuple[str, ...], queues: tuple[str, ...], raw: bool, as_json: bool) -> None:
    """Show one group: what its jobs have in common, the whole error of the newest, and the newest ten jobs."""
    import msgspec

    from onward.cli.tables import put_table
    from onward.failure_verbs import find_group
    from onward.redact import redact

    with open_store() as store:
        group, dead_letters = find_group(store, group_id, _filter(types, queues), raw=raw)
        now = store.clock.now()
    newest = dead_letters[:SHOWN_JOBS]
    error = newest[0].error or ""
    error = error if raw else redact(error)
    if as_json:
        put_json({**msgspec.to_builtins(group), "error": error, "jobs": [one.id for one in newest]})
        return
    for label, value in (
        ("group", group.id),
        ("type", group.type),
        ("error", _error(group)),
        ("where", group.where or "-"),
        ("count", str(_count(group))),
        ("first", f"{utc(group.first_at)} ({relative(group.first_at, now)})"),
        ("last", f"{utc(group.last_at)} ({relative(group.last_at, now)})"),
        ("queues", ", ".join(group.queues)),
    ):
        put(f"{label:<6}  {escape(value)}")
    put()
    put(f"The error of {escape(group.example_id)}:")
    for line in error.split("\n"):
        put(f"  {escape(line)}")
    put()
    rows = [(one.id, shorten(one.queue, 20), one.attempts, relative(one.finished_at, now)) for one in newest]
    put_table(("job", "queue", "attempts", "dead"), rows)
    typed = onward_as_typed(target())
    say(f"Again: '{typed} failures retry {group.id} --pace 10/s'. Away with them: '{typed} failures purge {group.id}'")


@command.command()
@click.argument("group_id", metavar="GROUP")
@pace_option
@click.option("--dry-run", is_flag=True, help="Only say how many jobs are in the group.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@actor_option
@_looked_at
def retry(group_id: str, **given: Any) -> int:
    """Queue the jobs of a group again, with all their tries. Their history stays, their error is cleared.

    Meant are those that are in the group when the command begins.
    """
    return _act("retry", group_id, **given)


@command.command()
@click.argument("group_id", metavar="GROUP")
@click.option("--dry-run", is_flag=True, help="Only say how many jobs are in the group.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@actor_option
@_looked_at
def purge(group_id: str, **given: Any) -> int:
    """Delete the jobs of a group, with their history.

    Meant are those that are in the group when the command begins.
    """
    return _act("delete", group_id, **given)


def _act(
    verb: BulkVerb,
    group_id: str,
    *,
    types: tuple[str, ...],
    queues: tuple[str, ...],
    dry_run: bool,
    yes: bool,
    actor: str | None,
    as_json: bool,
    pace: str | None = None,
) -> int:
    from onward.cli.many import ask_and_act, read_pace
    from onward.failure_verbs import act_on_group, find_group

    rate = read_pace(pace)
    with open_store() as store:
        group, dead_letters = find_group(store, group_id, _filter(types, queues))

        def act(note: OnProgress) -> BulkResult:
            by = user_at_host() if actor is None else actor
            return act_on_group(store, verb, group, dead_letters, on_progress=note, actor=by, pace=rate)

        code = ask_and_act(verb, len(dead_letters), act, dry_run=dry_run, yes=yes, as_json=as_json)
    if group.is_capped and not as_json:
        say("Older dead letters were not looked at: the same command goes on with those of the group, if there are any.")
    return code


def _filter(types: tuple[str, ...], queues: tuple[str, ...]) -> JobFilter:
    from onward.inspection import JobFilter

    return JobFilter(types=types, queues=queues)


def _error(group: FailureGroup) -> str:
    return ": ".join(part for part in (group.exception, group.message) if part) or "(no error is stored)"


def _count(group: FailureGroup) -> int | str:
    from onward.metrics import shown_count

    return shown_count(group.count, is_capped=True) if group.is_capped else group.count
