"""``onward periodic``: list, show, put, pause, resume, run, delete."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from onward.cli.option_words import option_words
from onward.cli.output import put, put_json, say
from onward.cli.target import app_option, json_option, open_application, open_store_and_application, url_option
from onward.cli.whole_number import WholeNumber

if TYPE_CHECKING:
    from datetime import datetime

    from onward.periodic import PeriodicJob
    from onward.periodic_jobs import PeriodicJobs


@click.group()
@app_option
@url_option
def command() -> None:
    """Look at periodic jobs, make, change, pause and run them."""


@command.command("list")
@json_option
@app_option
@url_option
def list_periodic(as_json: bool) -> None:
    """List the periodic jobs, with the moment that is next.

    SKIPPED counts the moments that got no job: they were missed, or the job before was not done with.
    """
    from onward.cli.tables import put_table

    with _opened() as (periodic, now):
        rows = periodic.list()
    if as_json:
        for row in rows:
            put_json(_as_json(row))
    elif rows:
        cells = [(row.name, row.request.type, row.rule.explain(), _next(row, now), _last(row, now), row.skipped) for row in rows]
        put_table(("name", "type", "when", "next", "last", "skipped"), cells)
    else:
        say("No periodic jobs: declare them with Onward(periodic=[Periodic(definition, cron)]), or make one with: onward periodic put")


@command.command()
@click.argument("name")
@click.option("--moments", "count", type=WholeNumber(min=1, max=1000), default=5, show_default=True, help="How many moments to show.")
@json_option
@app_option
@url_option
def show(name: str, count: int, as_json: bool) -> None:
    """Show one periodic job, and its next moments.

    They are those of its rule, also while it is paused, in UTC and in the time zone of the rule.
    """
    import msgspec

    from onward.cli.output import escape, utc

    with _opened() as (periodic, now):
        row = periodic.get(name)
        declared = says_declared(row, periodic)
    moments = row.moments(now, count)
    if as_json:
        put_json({**_as_json(row), "moments": msgspec.to_builtins(moments)})
        return
    lines = [
        ("name", row.name),
        ("type", row.request.type),
        ("when", row.rule.explain()),
        ("declared", declared),
        ("catch_up", f"{row.rule.catch_up}, at most {row.rule.most_catch_up}" if row.rule.catch_up == "all" else row.rule.catch_up),
        ("overlap", row.rule.overlap),
        ("jitter", row.rule.jitter),
        ("queue", row.request.queue),
        ("next", _next(row, now) + ("" if row.paused_at else _there(row.next_moment, row))),
        ("last", _last(row, now)),
        ("last job", row.last_job_id or "-"),
        ("skipped", f"{row.skipped:,}"),
    ]
    for label, value in lines:
        put(f"{label:<9}  {escape(value)}")
    for moment in moments:
        put(f"{'moment':<9}  {utc(moment)}{_there(moment, row)}")


@command.command("put")
@click.argument("name")
@click.argument("job_type", metavar="TYPE")
@click.argument("payload", required=False, metavar="[PAYLOAD|@FILE|-]")
@click.option("--cron", metavar="EXPRESSION", help="Five fields such as '30 2 * * *', or a nickname such as @daily.")
@click.option("--every", metavar="DURATION", help="An interval such as 10m, in place of --cron.")
@click.option("--timezone", metavar="ZONE", help="In which the times of --cron are meant, such as Europe/Paris. Otherwise UTC.")
@click.option(
    "--catch-up",
    type=click.Choice(["skip", "once", "all"]),
    default="once",
    show_default=True,
    help="What becomes of moments that were missed.",
)
@click.option(
    "--most-catch-up",
    type=WholeNumber(min=1, max=1000),
    default=100,
    show_default=True,
    help="How many missed moments --catch-up all runs.",
)
@click.option(
    "--overlap",
    type=click.Choice(["allow", "skip"]),
    default="allow",
    show_default=True,
    help="Whether a moment is left out while the last moment's job is not done with.",
)
@click.option("--jitter", metavar="DURATION", default="0s", show_default=True, help="Start each job up to this much later.")
@click.option("--queue", metavar="NAME", help="Another queue than the job's own.")
@click.option("--priority", type=int, metavar="-100..100", help="Higher runs first.")
@click.option("--key", metavar="KEY", help="What must be unique among the live jobs of this type and owner.")
@click.option("--scope", metavar="SCOPE", help="How long the key stays taken: active, forever, or a window such as 24h.")
@click.option("--owner", metavar="OWNER", default="", help="Who may see its jobs.")
@click.option("--expires", metavar="DURATION", help="Do not run a job when it is later than this.")
@json_option
@app_option
def put_periodic(name: str, job_type: str, payload: str | None, as_json: bool, **options: Any) -> None:
    """Make a periodic job, or replace one that was made so.

    TYPE is the name of a job of the application. The payload is JSON, as for onward enqueue. What is not said is as in a new one.
    """
    from onward.cli.enqueue import read_payload
    from onward.periodic import Periodic

    with open_application(may_create=True) as app:
        definition = app.definitions[job_type]
        value = read_payload(job_type, definition.codec, payload)
        with option_words():
            row = app.periodic.put(Periodic(definition, payload=value, name=name, **options))
        if as_json:
            put_json(_as_json(row))
        else:
            put(f"{row.name}: {row.rule.explain()}; next {_next(row, app.store.clock.now())}")


@command.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@json_option
@app_option
@url_option
def pause(names: tuple[str, ...], as_json: bool) -> None:
    """Let these not be due until they are resumed.

    A job that is enqueued already runs.
    """
    _change(names, "pause", ("paused", "paused already"), as_json)


@command.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@json_option
@app_option
@url_option
def resume(names: tuple[str, ...], as_json: bool) -> None:
    """Let these be due again, from the next moment on.

    What came during the pause was not missed.
    """
    _change(names, "resume", ("resumed", "not paused"), as_json)


def _change(names: tuple[str, ...], verb: str, said: tuple[str, str], as_json: bool) -> None:
    with _opened() as (periodic, _):
        for name in names:  # all of them, before any is changed
            periodic.get(name)
        for name in names:
            is_changed = periodic.pause(name) if verb == "pause" else periodic.resume(name)
            if as_json:
                put_json({"name": name, "paused": verb == "pause", "changed": is_changed})
            else:
                put(f"{name}: {said[0] if is_changed else said[1]}")


@command.command()
@click.argument("name")
@json_option
@app_option
@url_option
def run(name: str, as_json: bool) -> None:
    """Enqueue one more job of it now, and print its id.

    Its moments stay what they are.
    """
    with _opened() as (periodic, _):
        handle = periodic.run_now(name)
        if as_json:
            put_json({"id": handle.id, "is_new": handle.is_new})
            return
        put(handle.id)
        if not handle.is_new:
            say("A job with the same key exists already; it stands for this one.")


@command.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@json_option
@app_option
@url_option
def delete(names: tuple[str, ...], as_json: bool) -> None:
    """Forget periodic jobs that no code declares.

    Those that were made at run time, and those that are left of code that is gone. Their jobs stay. One that is declared in code is taken
    out there, or paused.
    """
    with _opened() as (periodic, _):
        for name in names:
            periodic.delete(name)
            if as_json:
                put_json({"name": name, "deleted": True})
            else:
                put(f"{name}: deleted")


@contextmanager
def _opened() -> Iterator[tuple[PeriodicJobs, datetime]]:
    from onward.periodic_jobs import PeriodicJobs
    from onward.registry import Registry

    with open_store_and_application() as (store, app):
        yield app.periodic if app else PeriodicJobs(store, Registry(), ()), store.clock.now()


def says_declared(row: PeriodicJob, periodic: PeriodicJobs) -> str:
    """Who says what it is. What an application declares is stored when a worker of it starts, and not before."""
    if row.name in periodic.declared:
        return "in code" if row.is_declared else "in code, which takes the place of this one, made at run time, when a worker starts"
    if not row.is_declared:
        return "at run time"
    if row.paused_by == "undeclared":
        return "in code that is gone"
    return "in code, which is not this application's" if periodic.declared else "in code"


def _there(moment: datetime, row: PeriodicJob) -> str:
    """The moment as the clocks of its time zone show it, where that is another one than UTC."""
    from onward.cron import read_zone

    if row.rule.every is not None or row.rule.timezone == "UTC":
        return ""
    there = moment.astimezone(read_zone(row.rule.timezone)).isoformat(sep=" ", timespec="seconds")
    return f" = {there} {row.rule.timezone}"


def _next(row: PeriodicJob, now: datetime) -> str:
    from onward.cli.output import relative, utc

    if row.paused_at is not None:
        why = "no code declares it any more" if row.paused_by == "undeclared" else relative(row.paused_at, now)
        return f"paused ({why})"
    return f"{utc(row.next_moment)} ({relative(row.next_moment, now)})"


def _last(row: PeriodicJob, now: datetime) -> str:
    from onward.cli.output import relative

    return "-" if row.last_moment is None else relative(row.last_moment, now)


def _as_json(row: PeriodicJob) -> dict[str, Any]:
    """All of it but the payload, which may hold a secret; each of its jobs shows it redacted."""
    import msgspec

    fields: dict[str, Any] = msgspec.to_builtins(row)
    request = {name: value for name, value in fields.pop("request").items() if name not in ("payload", "payload_hash")}
    return {**fields, **request, "when": row.rule.explain()}
