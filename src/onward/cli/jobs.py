"""``onward jobs``: list, show, retry, run, cancel, delete."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from onward.cli.actor import actor_option
from onward.cli.asking import may_go_on
from onward.cli.output import escape, put, put_json, say, say_error, usage_error
from onward.cli.pace import pace_option
from onward.cli.target import app_option, json_option, onward_as_typed, open_store, open_store_and_application, target, url_option
from onward.cli.whole_number import WholeNumber
from onward.status import Status

if TYPE_CHECKING:
    from onward.driver import Store
    from onward.inspection import BulkVerb, JobFilter
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
    from onward.cli.job_view import job_json, put_jobs, secrets_of
    from onward.cli.strange_names import point_out_strange_names
    from onward.ids import is_id
    from onward.inspection import JobFilter

    if before is not None and not is_id(_id(before)):
        raise usage_error(f"--before is the id of a job, 26 characters, not {before!r:.60}")
    where = JobFilter(statuses=tuple(Status(one) for one in statuses), types=types, queues=queues, key=key, owner=owner)
    with open_store_and_application() as (store, app):
        point_out_strange_names(store, app, where)
        found = _pages(store, where, limit, _id(before) if before else None)
        if as_json:
            for job in found:
                put_json(job_json(job, raw=raw, secrets=secrets_of(job, app)))
            return
        jobs = list(found)
        if not jobs:
            say("No jobs.")
            return
        put_jobs(jobs, store.clock.now(), app)
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

    What looks like a secret, or has the name of one, is shown as [redacted]; so is what the payload's type marks as Secret, where the
    application is known.
    """
    import msgspec
    from msgspec.structs import replace

    from onward.cli.job_view import job_json, job_lines, secrets_of, without_marked
    from onward.cli.why import explain, look_at_others

    with open_store_and_application() as (store, app):
        job = store.get(_id(job_id))
        secrets = secrets_of(job, app)
        attempts = [replace(one, error=without_marked(one.error, job, raw=raw, secrets=secrets)) for one in store.history(job.id)]
        now = store.clock.now()
        paused_at, holder = store.paused().get(job.queue), _holder_of_key(store, job)
        definition = app.definitions.get(job.type) if app else None
        goes_on = definition is not None and not definition.constraints.constraint.stops_at_dead_letter
        others = look_at_others(store, job, now, goes_on_behind_dead_letter=goes_on)
        why = explain(job, now, onward_as_typed(target()), paused_at, key_held_by=holder, others=others)
        if as_json:
            put_json({**job_json(job, raw=raw, secrets=secrets), "why": why, "history": msgspec.to_builtins(attempts)})
            return
        for line in job_lines(job, why, attempts, now, whole=full, raw=raw, secrets=secrets):
            put(line)


def _holder_of_key(store: Store, job: Job) -> str | None:
    if job.idempotency_key is None:
        return None
    holder = store.find_active((job.type,), job.idempotency_key, owner=job.owner)
    return None if holder is None else holder.id


def _several(function: Callable[..., Any]) -> Callable[..., Any]:
    """The arguments and options of a command that acts on jobs: by id, or all that match."""
    statuses = click.Choice([status.value for status in Status])
    for add in (
        url_option,
        app_option,
        json_option,
        actor_option,
        click.option("--yes", is_flag=True, help="Do not ask."),
        click.option("--dry-run", is_flag=True, help="Only say how many jobs match."),
        click.option("--owner", metavar="OWNER", help="All jobs of this owner."),
        click.option("--key", metavar="KEY", help="All jobs enqueued with this key."),
        click.option("--queue", "queues", multiple=True, metavar="NAME", help="All jobs of this queue; repeatable."),
        click.option("--type", "types", multiple=True, metavar="NAME", help="All jobs of this type; repeatable."),
        click.option("--status", "statuses", multiple=True, type=statuses, help="All jobs of this status; repeatable."),
        click.argument("ids", metavar="[ID]...", nargs=-1),
    ):
        function = add(function)
    return function


@command.command()
@pace_option
@_several
def retry(**given: Any) -> int:
    """Queue dead-lettered or cancelled jobs again, with all their tries.

    The jobs are given by their ids, or by what they have in common.
    """
    return _begin("retry", lambda store, job_id: store.retry(job_id), **given)


@command.command()
@_several
def run(**given: Any) -> int:
    """Make waiting jobs due now.

    The jobs are given by their ids, or by what they have in common.
    """
    return _begin("run_now", lambda store, job_id: store.run_now(job_id), **given)


@command.command()
@_several
def cancel(**given: Any) -> int:
    """Cancel waiting jobs at once; ask running ones to stop.

    The jobs are given by their ids, or by what they have in common.
    """
    return _begin("cancel", lambda store, job_id: store.cancel(job_id), **given)


@command.command()
@_several
def delete(**given: Any) -> int:
    """Delete jobs that are not running, with their history.

    The jobs are given by their ids, or by what they have in common.
    """
    return _begin("delete", lambda store, job_id: store.delete(job_id), **given)


def _begin(
    verb: BulkVerb,
    act: Callable[[Store, str], Job | None],
    *,
    ids: tuple[str, ...],
    statuses: tuple[str, ...],
    types: tuple[str, ...],
    queues: tuple[str, ...],
    key: str | None,
    owner: str | None,
    dry_run: bool,
    yes: bool,
    actor: str | None,
    as_json: bool,
    pace: str | None = None,
) -> int:
    from onward.inspection import JobFilter

    where = JobFilter(statuses=tuple(Status(one) for one in statuses), types=types, queues=queues, key=key, owner=owner)
    if ids and where != JobFilter():
        raise usage_error("give the ids of jobs, or say what they have in common, not both")
    if ids and dry_run:
        raise usage_error("--dry-run counts the jobs that match --status, --type, --queue, --key and --owner; ids need no counting")
    if ids and actor is not None:
        raise usage_error("--actor is for the record of what is done to all jobs that match; jobs that are given by their ids leave none")
    if ids and pace is not None:
        raise usage_error("--pace is for all jobs that match; jobs that are given by their ids are queued at once")
    if not ids:
        from onward.cli.many import act_on_all

        return act_on_all(verb, where, dry_run=dry_run, yes=yes, actor=actor, as_json=as_json, pace=pace)
    if verb == "delete" and not yes:
        what = "1 job and its" if len(ids) == 1 else f"{len(ids):,} jobs and their"
        if not may_go_on(f"this deletes {what} history", f"Delete {what} history?"):
            say("Nothing was deleted.")
            return 1
    return _act(ids, as_json, act)


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
    if job.status.is_claimable and job.blocked_by is not None:
        return f"{job.status.value}, and waits for others: 'onward jobs show {job.id}' says for whom"
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
