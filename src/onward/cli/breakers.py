"""``onward breakers``: list, show, open, reset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from onward.cli.actor import actor_option, user_at_host
from onward.cli.output import escape, put, put_json, say, usage_error
from onward.cli.target import app_option, json_option, open_store, open_store_and_application, url_option

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import timedelta

    from onward.app import Onward
    from onward.breaker import BreakerState
    from onward.inspection import KnownBreaker


@click.group()
@app_option
@url_option
def command() -> None:
    """Look at circuit breakers, open and reset them."""


@command.command("list")
@json_option
@app_option
@url_option
def list_breakers(as_json: bool) -> None:
    """List the breakers that have ever counted a failure, or were opened by hand.

    FAILURES counts those in a row. WAITING counts the jobs that wait behind it, up to 10,000.
    """
    from onward.cli.tables import put_table
    from onward.cli.wait_words import breaker_status, counted

    with open_store() as store:
        found = store.breakers()
        now = store.clock.now()
    if as_json:
        for one in found:
            put_json(_as_json(one))
    elif found:
        rows = [
            (one.state.key, breaker_status(one.state, now, dates=False), one.state.failures, counted(one.waiting), one.alert_id)
            for one in found
        ]
        put_table(("breaker", "status", "failures", "waiting", "alert"), rows)
    else:
        say("No breakers: none has counted a failure, or was opened by hand.")


def _key(ctx: click.Context, parameter: click.Parameter, value: str) -> str:
    from onward.errors import InvalidDefinition
    from onward.unique import check_key

    try:
        return check_key(value)
    except InvalidDefinition as error:
        raise usage_error(f"KEY: {error}") from None


@command.command()
@click.argument("key", callback=_key)
@json_option
@app_option
@url_option
def show(key: str, as_json: bool) -> None:
    """Show one breaker: how it stands, since when, and how many jobs wait behind it."""
    from onward.cli.wait_words import breaker_status, counted
    from onward.inspection import KnownBreaker

    with open_store_and_application() as (store, app):
        found = store.breakers([key])
        now = store.clock.now()
        if not found and key not in _declared(app):
            raise click.ClickException(
                f"no breaker {key!r} has counted a failure or was opened{_meant(key, _known(store.breakers(), app))}"
            )
    known = found[0] if found else KnownBreaker(state=_closed(key))
    if as_json:
        put_json(_as_json(known))
        return
    waiting = counted(known.waiting)
    if known.state.status == "closed" and known.waiting:
        waiting += f", which go on at {known.state.pace}"
    lines = [
        ("breaker", known.state.key),
        ("status", breaker_status(known.state, now)),
        ("failures", f"{known.state.failures:,} in a row"),
        ("waiting", waiting),
        ("alert", known.alert_id or "-"),
    ]
    for label, value in lines:
        put(f"{label:<8}  {escape(value)}")


def _pause(ctx: click.Context, parameter: click.Parameter, value: str) -> timedelta:
    from onward.breaker import parse_pause
    from onward.errors import InvalidTime

    try:
        return parse_pause(value)
    except InvalidTime as error:
        raise usage_error(f"--pause: {error}") from None


@command.command("open")
@click.argument("key", callback=_key)
@click.option("--pause", metavar="DURATION", default="30m", show_default=True, callback=_pause, help="How long, before one job is tried.")
@actor_option
@json_option
@app_option
@url_option
def open_breaker(key: str, pause: timedelta, actor: str | None, as_json: bool) -> None:
    """Open a breaker: its jobs wait and spend no try, and then one of them is tried.

    Jobs that run go on. One that is open stays so for that long from now.
    """
    from onward.cli.wait_words import breaker_status

    with open_store_and_application() as (store, app):
        _point_out_strange(key, store.breakers(), app)
        state = store.open_breaker(key, pause, actor=user_at_host() if actor is None else actor)
    _put_state(state, breaker_status(state, (state.retry_at or store.clock.now()) - pause), as_json)


@command.command()
@click.argument("key", callback=_key)
@actor_option
@json_option
@app_option
@url_option
def reset(key: str, actor: str | None, as_json: bool) -> None:
    """Close a breaker: the jobs that wait go on at its pace."""
    from onward.cli.wait_words import counted

    with open_store_and_application() as (store, app):
        found = store.breakers([key])
        if not found and key not in _declared(app):
            raise click.ClickException(
                f"no breaker {key!r} has counted a failure or was opened{_meant(key, _known(store.breakers(), app))}"
            )
        state = store.reset_breaker(key, actor=user_at_host() if actor is None else actor)
    waiting = found[0].waiting if found else 0
    _put_state(state, f"closed; waiting: {counted(waiting)}, which go on at {state.pace}" if waiting else "closed", as_json)


def _put_state(state: BreakerState, words: str, as_json: bool) -> None:
    if as_json:
        put_json(_state_as_json(state))
    else:
        put(f"{escape(state.key)}: {words}")


def _closed(key: str) -> BreakerState:
    from onward.breaker import BreakerState

    return BreakerState(key=key)


def _declared(app: Onward | None) -> set[str]:
    """The keys that the application's definitions say as text."""
    breakers = [one.constraints.breaker for one in app.definitions] if app else []
    return {one.key for one in breakers if one is not None and isinstance(one.key, str)}


def _known(found: Iterable[KnownBreaker], app: Onward | None) -> set[str]:
    return {one.state.key for one in found} | _declared(app)


def _meant(key: str, known: set[str]) -> str:
    from onward.cli.strange_names import meant

    return meant(key, known) if known else ": every other is closed"


def _point_out_strange(key: str, found: Iterable[KnownBreaker], app: Onward | None) -> None:
    """Say that nobody knows the key, where all that can be known is known: a slip must not pass for a success."""
    known = _known(found, app)
    makes_keys = app is None or any(
        one.constraints.breaker is not None and callable(one.constraints.breaker.key) for one in app.definitions
    )
    if key not in known and not makes_keys:
        from onward.cli.strange_names import meant

        say(f"No job of the application is declared with the breaker {key!r}, and none has failed with it{meant(key, known)}")


def _as_json(known: KnownBreaker) -> dict[str, Any]:
    return {**_state_as_json(known.state), "waiting": known.waiting, "alert_id": known.alert_id}


def _state_as_json(state: BreakerState) -> dict[str, Any]:
    import msgspec

    from onward.durations import format_duration

    return {**msgspec.to_builtins(state), "pause": format_duration(state.pause), "pace": str(state.pace)}
