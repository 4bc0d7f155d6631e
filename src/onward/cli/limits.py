"""``onward limits``: list, set, clear."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from onward.cli.actor import actor_option, user_at_host
from onward.cli.option_words import option_words
from onward.cli.output import escape, put, put_json, say, usage_error
from onward.cli.target import app_option, json_option, open_store, open_store_and_application, url_option
from onward.cli.whole_number import WholeNumber
from onward.limit import MOST, Limit

if TYPE_CHECKING:
    from onward.app import Onward
    from onward.limit import LimitKind, LimitState


@click.group()
@app_option
@url_option
def command() -> None:
    """Look at limits of queues and of concurrency keys, set and clear them."""


@command.command("list")
@json_option
@app_option
@url_option
def list_limits(as_json: bool) -> None:
    """List the limits of queues, then those of keys that were ever reached or set.

    SET says whether code or a person did it. WAITING counts the jobs that wait for it, up to 10,000; of a queue those that are due. FULL
    says why no other may begin.
    """
    from onward.cli.tables import put_table
    from onward.cli.wait_words import counted, limit_rule, limit_use

    with open_store() as store:
        found = store.limits()
        now = store.clock.now()
    if as_json:
        for one in found:
            put_json({**_as_json(one.state), "running": one.running, "waiting": one.waiting})
    elif found:
        columns = ("of", "name", "limit", "set", "running", "waiting", "full")
        rows = [
            (
                *(one.state.kind, one.state.name, limit_rule(one.state.limit), "by hand" if one.state.is_by_hand else "by code"),
                *(one.running, counted(one.waiting), limit_use(one, now)),
            )
            for one in found
        ]
        put_table(columns, rows)
    else:
        say("No limits: none is set, no worker has declared one of a queue, and none of a key was ever reached.")


def _of_what(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--queue`` and ``--key``."""
    function = click.option("--key", metavar="KEY", help="Of the jobs with this concurrency key.")(function)
    return click.option("--queue", metavar="NAME", help="Of all jobs of this queue.")(function)


@command.command("set")
@_of_what
@click.option("--concurrency", type=WholeNumber(min=1, max=MOST), help="How many may run at once.")
@click.option("--rate", metavar="RATE", help="How many may begin in a time, such as 10/s, 100/m or 1/30s.")
@click.option("--burst", type=WholeNumber(min=1, max=MOST), help="How many may begin at once after a pause. Otherwise those of a second.")
@actor_option
@json_option
@app_option
@url_option
def set_limit(
    queue: str | None,
    key: str | None,
    concurrency: int | None,
    rate: str | None,
    burst: int | None,
    actor: str | None,
    as_json: bool,
) -> None:
    """Set the limit of a queue or of a concurrency key, on all machines together.

    From now on it counts, and what code says does not, until it is cleared: the whole of it, so that what is not said is not limited. Jobs
    that run go on.
    """
    from onward.cli.wait_words import limit_name, limit_rule

    kind, name = _named(queue, key)
    with option_words():
        limit = Limit(concurrency, rate, burst)
    with open_store_and_application() as (store, app):
        if kind == "queue" and app is not None:
            from onward.cli.strange_names import point_out_strange_queue

            point_out_strange_queue(
                name, {one.name for one in store.queues()} | {one.queue for one in app.definitions} | {*app.queue_limits}
            )
        if kind == "key" and app is not None:
            _refuse_type_without_key(name, app)
            _point_out_strange_key(name, {one.state.name for one in store.limits() if one.state.kind == "key"}, app)
        state = store.set_limit(kind, name, limit, actor=user_at_host() if actor is None else actor)
    if as_json:
        put_json(_as_json(state))
    else:
        put(f"{escape(limit_name(state))}: {limit_rule(state.limit)}")


@command.command()
@_of_what
@actor_option
@json_option
@app_option
@url_option
def clear(queue: str | None, key: str | None, actor: str | None, as_json: bool) -> None:
    """Forget a limit, so that what code says counts again, if it says anything."""
    from onward.cli.strange_names import meant

    kind, name = _named(queue, key)
    with open_store_and_application() as (store, app):
        if not store.clear_limit(kind, name, actor=user_at_host() if actor is None else actor):
            known = {one.state.name for one in store.limits() if one.state.kind == kind}
            raise click.ClickException(f"there is no limit of {kind} {name!r}{meant(name, known) if known else ''}")
        comes_back = kind == "queue" and app is not None and name in app.queue_limits
    if as_json:
        put_json({"kind": kind, "name": name, "cleared": True})
        return
    put(f"{escape(f'{kind} {name}')}: cleared")
    if comes_back:
        say("The application declares one of this queue: its workers store it again.")


def _refuse_type_without_key(name: str, app: Onward) -> None:
    """A limit with the name of a job as its key holds nobody, where the jobs of that name have no key."""
    definition = next((one for one in app.definitions if one.name == name), None)
    keys = {one.constraints.fixed_concurrency_key for one in app.definitions}
    if definition is not None and name not in keys and not any(one.constraints.makes_concurrency_keys for one in app.definitions):
        raise click.ClickException(
            f"jobs of {name} have no concurrency key, so this would limit nothing: "
            f"give their definition limit=Limit(...), or set a limit of their queue: --queue {definition.queue}"
        )


def _point_out_strange_key(name: str, stored: set[str], app: Onward) -> None:
    """Say that nobody knows the key, where all that can be known is known: a slip must not pass for a success."""
    known = stored | {key for one in app.definitions if (key := one.constraints.fixed_concurrency_key) is not None}
    if name not in known and not any(one.constraints.makes_concurrency_keys for one in app.definitions):
        from onward.cli.strange_names import meant

        say(f"No job of the application has the concurrency key {name!r}, and no limit of it was ever reached{meant(name, known)}")


def _named(queue: str | None, key: str | None) -> tuple[LimitKind, str]:
    """Of what the limit is. Raises a usage error."""
    from onward.definition import check_name
    from onward.errors import InvalidDefinition
    from onward.unique import check_key

    option = "--queue" if key is None else "--key"
    try:
        if queue is not None and key is None:
            return "queue", check_name("queue", queue)
        if key is not None and queue is None:
            return "key", check_key(key)
    except InvalidDefinition as error:
        raise usage_error(f"{option}: {error}") from None
    raise usage_error("say what the limit is of: --queue NAME or --key KEY, one of them")


def _as_json(state: LimitState) -> dict[str, Any]:
    import msgspec

    fields: dict[str, Any] = msgspec.to_builtins(state)
    return {"kind": state.kind, "name": state.name, **fields.pop("limit"), **fields}
