"""``onward jobs``: list, show, retry, run, cancel, delete."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from onward.cli.output import escape, put, put_json, say, say_error, usage_error
from onward.cli.target import app_option, json_option, onward_as_typed, open_store, target, url_option
from onward.cli.whole_number import WholeNumber
from onward.status import Status

if TYPE_CHECKING:
    from onward.driver import Store
    from onward.inspection import JobFilter
    from onward.jobs import Job

PAGE = 500


@click.group()
@app_option
@url_option
def command() -> None:
    """Look at jobs, and act on them."""


@command.command("list")
@click.option(
    "--status", "statuses", multiple=True, type=click.Choice([status.value for status in Status]), help="Only this status; repeatable."
)
@click.option("--type", "types", multiple=True, metavar="NAME", help="Only this job type; repeatable.")
@click.option("--queue", "queues", multiple=True, metavar="NAME", help="Only this queue; repeatable.")
@click.option("--key", metavar="KEY", help="Only jobs enqueued with this key.")
@click.option("--owner", metavar="OWNER", help="Only jobs of this owner.")
@click.option("--limit", type=WholeNumber(min=1), default=50, show_default=True, help="At most so many.")
@click.option("--before", metavar="ID", help="Only jobs older than this one: the last id of the page before.")
@click.option("--raw", is_flag=True, help="With --json: show secrets in payload, result, progress and metadata too.")
@json_option
@app_option
@url_option
def list_jobs(
    statuses: tuple[str, ...],
    types: tuple[str, ...],
    queues: tuple[str, ...],
    key: str | None,
    owner: str | None,
    limit: int,
    before: str | None,
    raw: bool,
    as_json: bool,
) -> None:
    """List jobs, newest first."""
    from onward.cli.job_view import job_json, put_jobs
    from onward.ids import is_id
    from onward.inspection import JobFilter

    if before is not None and not is_id(_id(before)):
        raise usage_error(f"--before is the id of a job, 26 characters, not {before!r:.60}")
    where = JobFilter(statuses=tuple(Status(one) for one in statuses), types=types, queues=queues, key=key, owner=owner)
    with open_store() as store:
        found = _pages(store, where, limit, _id(before) if before else None)
        if as_json:
            for job in found:
                put_json(job_json(job, raw=raw))
            return
        jobs = list(found)
        if not jobs:
            say("No jobs.")
            return
        put_jobs(jobs, store.clock.now())
        if len(jobs) == limit:
            say(f"There may be more: --before {escape(jobs[-1].id)}")


@command.command()
@click.argument("job_id", metavar="ID")
@click.option("--full", is_flag=True, help="Show the whole of a long payload, result or error.")
@click.option("--raw", is_flag=True, help="Show secrets in payload, result, progress and metadata too.")
@json_option
@app_option
@url_option
def show(job_id: str, full: bool, raw: bool, as_json: bool) -> None:
    """Show one job: every field, its attempts, and why it is not running.

    What looks like a secret, or has the name of one, is shown as [redacted].
    """
    import msgspec

    from onward.cli.job_view import job_json, job_lines
    from onward.cli.why import explain

    with open_store() as store:
        job = store.get(_id(job_id))
        attempts = store.history(job.id)
        now = store.clock.now()
        if as_json:
            put_json(
                {**job_json(job, raw=raw), "why": explain(job, now, onward_as_typed(target())), "history": msgspec.to_builtins(attempts)}
            )
            return
        for line in job_lines(job, attempts, now, whole=full, raw=raw):
            put(line)


def _several(function: Callable[..., Any]) -> Callable[..., Any]:
    """The arguments and options of a command that acts on jobs by id."""
    for add in (url_option, app_option, json_option, click.argument("ids", metavar="ID...", nargs=-1, required=True)):
        function = add(function)
    return function


@command.command()
@_several
def retry(ids: tuple[str, ...], as_json: bool) -> int:
    """Queue dead-lettered or cancelled jobs again, with all their tries."""
    return _act(ids, as_json, lambda store, job_id: store.retry(job_id))


@command.command()
@_several
def run(ids: tuple[str, ...], as_json: bool) -> int:
    """Make waiting jobs due now."""
    return _act(ids, as_json, lambda store, job_id: store.run_now(job_id))


@command.command()
@_several
def cancel(ids: tuple[str, ...], as_json: bool) -> int:
    """Cancel waiting jobs at once; ask running ones to stop."""
    return _act(ids, as_json, lambda store, job_id: store.cancel(job_id))


@command.command()
@_several
@click.option("--yes", is_flag=True, help="Do not ask.")
def delete(ids: tuple[str, ...], as_json: bool, yes: bool) -> int:
    """Delete jobs that are not running, with their history."""
    if not yes:
        what = "1 job and its" if len(ids) == 1 else f"{len(ids):,} jobs and their"
        if not has_terminal():
            raise usage_error(f"this deletes {what} history, and there is no terminal to ask on: pass --yes")
        if not click.confirm(f"Delete {what} history?", err=True):
            say("Nothing was deleted.")
            return 1
    return _act(ids, as_json, lambda store, job_id: store.delete(job_id))


def _act(ids: tuple[str, ...], as_json: bool, verb: Callable[[Store, str], Job | None]) -> int:
    """Do it to each job and answer for each. A refusal does not stop the others; a store that fails does."""
    from onward.errors import OnwardError, StoreError

    refused = 0
    with open_store() as store:
        for job_id in dict.fromkeys(_id(one) for one in ids):
            try:
                job = verb(store, job_id)
            except StoreError:
                raise
            except OnwardError as error:
                refused += 1
                if as_json:
                    put_json({"id": job_id, "ok": False, "error": str(error)})
                else:
                    say_error(str(error))
                continue
            if as_json:
                put_json({"id": job_id, "ok": True, "status": job.status.value if job else "deleted"})
            else:
                put(f"{escape(job_id)}  {_result(job)}")
    return 1 if refused else 0


def _result(job: Job | None) -> str:
    if job is None:
        return "deleted"
    if job.status is Status.IN_PROGRESS and job.cancel_requested_at is not None:
        return "in_progress, asked to stop"
    return job.status.value


def _pages(store: Store, where: JobFilter, limit: int, before: str | None) -> Iterator[Job]:
    while limit > 0:
        page = store.find(where, limit=min(limit, PAGE), before=before)
        yield from page
        if len(page) < min(limit, PAGE):
            return
        limit, before = limit - len(page), page[-1].id


def _id(text: str) -> str:
    """An id in whichever case it was typed; what is none stays as it is, for the error that says so."""
    from onward.ids import is_id

    stripped = text.strip()
    return upper if is_id(upper := stripped.upper()) else stripped


def has_terminal() -> bool:
    """Say whether there is a person to ask."""
    return sys.stdin.isatty()
