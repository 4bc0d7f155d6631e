"""``onward doctor``: what is wrong with the store, with the application, or between the two."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from shlex import quote
from typing import TYPE_CHECKING

import click

from onward.cli.output import escape, put, put_json, relative
from onward.cli.target import app_option, elsewhere, json_option, open_store_and_application, url_option

if TYPE_CHECKING:
    from onward.app import Onward
    from onward.driver import Store
    from onward.inspection import Finding

MOST_OF_ONE_KIND = 20
"""Findings of one kind that are told one by one."""
_COLOURS = {"ok": "green", "warning": "yellow", "error": "red"}


@click.command()
@json_option
@app_option
@url_option
def command(as_json: bool) -> int:
    """Look for what is wrong with the store and the application.

    Ends with exit code 1 when something is an error; warnings do not count.
    """
    import msgspec

    worst = 0
    with open_store_and_application() as (store, app):
        for finding in examine(store, app):
            worst = max(worst, 1 if finding.level == "error" else 0)
            if as_json:
                put_json(msgspec.to_builtins(finding))
            else:
                put(f"{click.style(f'{finding.level:8}', fg=_COLOURS[finding.level])} {escape(finding.name)}: {escape(finding.text)}")
    return worst


def examine(store: Store, app: Onward | None) -> Iterator[Finding]:
    """Everything that is looked at, one finding each."""
    from onward.cli import doctor_lookout
    from onward.inspection import Finding

    examined = store.examine()
    yield Finding("store", "ok", store.url)
    yield from examined
    yield from _looked("newest job", lambda: _newest_job(store))
    yield from _looked("stuck jobs", lambda: _stuck_jobs(store))
    yield from _looked("paused queues", lambda: _paused_queues(store))
    yield from _looked("workers", lambda: _bounded(doctor_lookout.workers(store), "workers"))
    yield from _looked("alerts", lambda: doctor_lookout.open_alerts(store))
    yield from _looked("breakers", lambda: _bounded(_open_breakers(store), "breakers"))
    yield from _looked("limits", lambda: _bounded(_full_queues(store), "limits"))
    yield from _looked("periodic jobs", lambda: _periodic_jobs(store))
    if app is not None:
        yield from _looked("job types", lambda: _known_types(store, app))
        yield from _looked("settings", lambda: _one_store(store))


def _looked(name: str, look: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    """What may not be looked at is a finding as well, and hides no other."""
    from onward.errors import OnwardError
    from onward.inspection import Finding

    try:
        yield from look()
    except OnwardError as error:
        yield Finding(name, "error", str(error))


def _paused_queues(store: Store) -> Iterator[Finding]:
    """A pause that somebody has forgotten looks like workers that do nothing."""
    from onward.inspection import Finding

    now = store.clock.now()
    for name, since in sorted(store.paused().items()):
        yield Finding(
            "paused queues", "warning", f"no job of queue {name} starts since {relative(since, now)}: onward queues resume {name}"
        )


def _bounded(findings: Iterator[Finding], group: str) -> Iterator[Finding]:
    """The first of them; there may be a breaker for each customer."""
    from onward.inspection import Finding

    yield from islice(findings, MOST_OF_ONE_KIND)
    if more := sum(1 for _ in findings):
        yield Finding(group, "warning", f"and {more:,} more: onward {group}{'' if group == 'workers' else ' list'}")


def _open_breakers(store: Store) -> Iterator[Finding]:
    """Jobs that wait spend no try and raise no alarm by themselves."""
    from onward.cli.wait_words import breaker_status, counted
    from onward.inspection import Finding

    now = store.clock.now()
    for one in store.breakers():
        if one.state.status != "closed":
            status = breaker_status(one.state, now, dates=False)
            text = f"{one.state.key} is {status}; waiting: {counted(one.waiting)}: onward breakers show {quote(one.state.key)}"
            yield Finding("breakers", "warning", text)


def _full_queues(store: Store) -> Iterator[Finding]:
    """A queue at its limit looks like workers that do nothing."""
    from onward.cli.wait_words import counted, limit_use
    from onward.inspection import Finding

    now = store.clock.now()
    for one in store.limits():
        if one.state.kind == "queue" and one.waiting and (use := limit_use(one, now)):
            text = f"queue {one.state.name} is at its limit, {use}; waiting: {counted(one.waiting)}: onward limits list"
            yield Finding("limits", "warning", text)


def _periodic_jobs(store: Store) -> Iterator[Finding]:
    """What the clock should enqueue and does not."""
    from onward.inspection import Finding
    from onward.moments import LATE

    look = store.periodic()
    for name in look.unreadable:
        yield Finding("periodic jobs", "error", f"the row of {name} cannot be read, so it is never due: correct it, or delete it")
    for row in look.rows:
        if row.paused_at is not None:
            by_whom = "no code declares it any more" if row.paused_by == "undeclared" else "a person paused it"
            since = relative(row.paused_at, look.now)
            yield Finding("periodic jobs", "warning", f"{row.name} is paused since {since}, {by_whom}: onward periodic resume {row.name}")
        elif look.now - row.next_moment > LATE:
            since = relative(row.next_moment, look.now)
            yield Finding("periodic jobs", "warning", f"{row.name} is due since {since}, and no worker that knows it has come: start one")


def _newest_job(store: Store) -> Iterator[Finding]:
    """A worker that polls an abandoned store looks healthy; the age of the newest job gives it away."""
    from onward.inspection import Finding, JobFilter

    newest = store.find(JobFilter(), limit=1)
    if newest:
        text = f"{newest[0].type} {newest[0].id}, enqueued {relative(newest[0].created_at, store.clock.now())}"
        yield Finding("newest job", "ok", text)
    else:
        yield Finding("newest job", "ok", "there are no jobs")


def _stuck_jobs(store: Store) -> Iterator[Finding]:
    from onward.inspection import Finding

    stuck = len(store.answer("stuck").rows)
    if stuck:
        yield Finding("stuck jobs", "warning", f"{stuck:,} run long or lost their worker: see 'onward stats stuck'")
    else:
        yield Finding("stuck jobs", "ok", "none")


def _known_types(store: Store, app: Onward) -> Iterator[Finding]:
    from onward.inspection import Finding

    answer = store.answer("outstanding")
    at = answer.columns.index("type")
    unknown = sorted({str(row[at]) for row in answer.rows if row[at] not in app.definitions})
    if unknown:
        yield Finding("job types", "warning", f"waiting jobs have types that this application does not know: {', '.join(unknown)}")
    else:
        yield Finding("job types", "ok", f"the application knows every type that waits, and {len(app.definitions):,} in all")


def _one_store(store: Store) -> Iterator[Finding]:
    """Say whether the settings lead to another store than the application uses."""
    from onward.inspection import Finding
    from onward.settings import Settings

    if other := elsewhere(store):
        yield Finding("settings", "warning", f"{other[0]} leads to another store, {other[1]}: other programs may use it")
    elif Settings().url is None:
        yield Finding("settings", "ok", "the application names its store itself")
    else:
        yield Finding("settings", "ok", "the settings lead to the same store")
