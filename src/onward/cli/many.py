"""``onward jobs`` for all jobs that match: count, ask, act in portions, and say what became of them."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from onward.bulk import BulkResult, OnProgress, check_bulk, run_bulk
from onward.cli.actor import user_at_host
from onward.cli.asking import may_go_on
from onward.cli.option_words import option_words
from onward.cli.output import escape, put, put_json, say, say_progress
from onward.cli.strange_names import point_out_strange_names
from onward.cli.target import open_store_and_application
from onward.errors import InvalidDefinition
from onward.inspection import BulkVerb, JobFilter
from onward.rate import Rate, parse_rate

DID: dict[BulkVerb, str] = {"cancel": "cancelled or asked to stop", "retry": "queued again", "run_now": "due now", "delete": "deleted"}
ASKS: dict[BulkVerb, str] = {"cancel": "Cancel", "retry": "Retry", "run_now": "Run now", "delete": "Delete, with their history,"}
SHOWN = 5
"""Refusals that are told one by one."""


def act_on_all(
    verb: BulkVerb, where: JobFilter, *, dry_run: bool, yes: bool, actor: str | None, as_json: bool, pace: str | None = None
) -> int:
    """Gives the exit code: 1 where a job was refused, or nobody agreed."""
    rate = read_pace(pace)
    if where == JobFilter():
        raise InvalidDefinition("say which jobs: their ids, or --status, --type, --queue, --key or --owner")
    where = check_bulk(verb, where)
    with open_store_and_application() as (store, app):
        matched = store.count(where)
        point_out_strange_names(store, app, where)

        def act(note: OnProgress) -> BulkResult:
            return run_bulk(store, verb, where, on_progress=note, actor=user_at_host() if actor is None else actor, pace=rate)

        return ask_and_act(verb, matched, act, dry_run=dry_run, yes=yes, as_json=as_json)


def read_pace(pace: str | None) -> Rate | None:
    """What ``--pace`` says. Raises ``InvalidDefinition``."""
    with option_words():
        return None if pace is None else parse_rate("pace", pace)


def ask_and_act(verb: BulkVerb, matched: int, act: Callable[[OnProgress], BulkResult], *, dry_run: bool, yes: bool, as_json: bool) -> int:
    """Ask whether it is meant, do it, and say what became of the jobs. Gives the exit code."""
    if dry_run or not matched:
        _tell(BulkResult(verb=verb, matched=matched), as_json, dry_run=dry_run)
        return 0
    what = "1 job" if matched == 1 else f"{matched:,} jobs"
    if not yes and not may_go_on(f"this is for {what}", f"{ASKS[verb]} {what}?"):
        say("Nothing was changed.")
        return 1
    latest = BulkResult(verb=verb, matched=matched)

    def note(result: BulkResult) -> None:
        nonlocal latest
        latest = result
        say_progress(result.done + result.refused, matched)

    try:
        latest = act(note)
    except KeyboardInterrupt:
        _tell(replace(latest, was_stopped=True), as_json)
        say("Interrupted: what was done stays done, and the same command goes on with the rest.")
        raise
    _tell(latest, as_json)
    return 1 if latest.refused else 0


def _tell(result: BulkResult, as_json: bool, *, dry_run: bool = False) -> None:
    if as_json:
        put_json(msgspec.to_builtins(result))
        return
    if dry_run:
        put(f"{result.matched:,} jobs match")
        return
    if not result.matched:
        put("no job matches")
        return
    put(f"{result.done:,} of {result.matched:,} jobs {DID[result.verb]}")
    for job_id, why in list(result.reasons.items())[:SHOWN]:
        say(f"{escape(job_id)}: {escape(why)}")
    if result.refused > SHOWN:
        say(f"… and {result.refused - SHOWN:,} more were refused (--json says why of the first {len(result.reasons)})")
