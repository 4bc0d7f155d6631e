"""``onward alerts``: list, show, acknowledge, check, test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from onward.cli.actor import actor_option, user_at_host
from onward.cli.output import escape, put, put_json, relative, say, usage_error, utc
from onward.cli.target import app_option, json_option, open_application, open_store, open_store_and_application, url_option
from onward.cli.whole_number import WholeNumber

MOST_LISTED = 1000

if TYPE_CHECKING:
    from datetime import datetime

    from onward.alerts import Alert


@click.group()
@app_option
@url_option
def command() -> None:
    """Look at what people should know of, and say that somebody does."""


@command.command("list")
@click.option("--all", "is_all", is_flag=True, help="Also those that are over.")
@click.option("--limit", type=WholeNumber(min=1), default=50, show_default=True, help="At most so many.")
@click.option("--before", metavar="ID", help="Only older ones: the last id of the page before.")
@json_option
@app_option
@url_option
def list_alerts(is_all: bool, limit: int, before: str | None, as_json: bool) -> None:
    """List the alerts that are open, newest first. Of one cause one is open at most; it is resolved by itself when that is over."""
    page = None if before is None else _id("--before", before)
    with open_store() as store:
        found = store.alerts(is_open=None if is_all else True, limit=limit, before=page)
        now = store.clock.now()
    _put_alerts(found, now, as_json, "No alerts." if is_all else "No alerts are open.")
    if len(found) == limit and not as_json:
        say(f"There may be more: --before {escape(found[-1].id)}")


@command.command()
@click.argument("alert_id", metavar="ID")
@json_option
@app_option
@url_option
def show(alert_id: str, as_json: bool) -> None:
    """Show one alert: what it is about, since when, and who has seen it."""
    with open_store() as store:
        found = store.alert(_id("ID", alert_id))
        now = store.clock.now()
    if as_json:
        put_json(_as_json(found))
        return
    lines = [
        ("alert", found.id),
        ("category", found.category),
        ("severity", found.severity),
        ("message", found.message),
        ("opened", f"{utc(found.opened_at)} ({relative(found.opened_at, now)})"),
        ("state", _standing(found, now)),
        ("context", found.context),
    ]
    for label, value in lines:
        put(f"{label:<8}  {escape(value)}")


@command.command()
@click.argument("alert_id", metavar="ID")
@actor_option
@json_option
@app_option
@url_option
def acknowledge(alert_id: str, actor: str | None, as_json: bool) -> None:
    """Write down that somebody has seen an alert. Who was first stays."""
    with open_store() as store:
        found = store.acknowledge_alert(_id("ID", alert_id), actor=user_at_host() if actor is None else actor)
        now = store.clock.now()
    if as_json:
        put_json(_as_json(found))
    else:
        put(f"{found.id}: {escape(_standing(found, now))}")


@command.command()
@json_option
@app_option
@url_option
@click.pass_context
def check(context: click.Context, as_json: bool) -> None:
    """Look now whether a rule is broken, and list the alerts that are open.

    The rules are those of the application that -A names; without it none is looked at. Ends with 1 where an alert is open, so that a
    monitor that runs it hears of a store of which no worker is alive. What a rule finds must last before its alert opens: ask again
    until then.
    """
    from onward.look import look

    with open_store_and_application() as (store, app):
        if app is None:
            # Not by the usual rules: they would undo what the application's own have found.
            say("No application is named (-A), so its rules are not looked at.")
        else:
            store.judge(app.alert_rules, look(store, app.alert_rules.window))
        found = store.alerts(is_open=True, limit=MOST_LISTED)
        now = store.clock.now()
    _put_alerts(found, now, as_json, "No alerts are open.")
    if found:
        context.exit(1)


@command.command("test")
@app_option
@click.pass_context
def send_test(context: click.Context) -> None:
    """Send a message to each webhook of the application, and say what it answered."""
    from onward.clock import SystemClock
    from onward.webhooks import WebhookFailed, test_message

    failed = False
    with open_application(may_create=True) as app:  # nothing is asked of the store
        if not app.webhooks:
            say("This application has no webhooks: Onward(webhooks=[Webhook(url, secret=...)]) gives it one.")
        for webhook in app.webhooks:
            try:
                status = webhook.send(*test_message(SystemClock().now()))
                failed = failed or not 200 <= status < 300
                put(f"{webhook.name}: answered {status}")
            except WebhookFailed as error:
                failed = True
                put(escape(str(error)))
    if failed:
        context.exit(1)


def _put_alerts(found: list[Alert], now: datetime, as_json: bool, none: str) -> None:
    from onward.cli.tables import put_table

    if as_json:
        for one in found:
            put_json(_as_json(one))
    elif not found:
        say(none)
    else:
        rows = [
            (one.id, one.severity, one.category, relative(one.opened_at, now), _standing(one, now), escape(one.message)) for one in found
        ]
        put_table(("id", "severity", "category", "opened", "state", "message"), rows)


def _standing(alert: Alert, now: datetime) -> str:
    if alert.resolved_at is not None:
        return f"over since {relative(alert.resolved_at, now)}" if alert.resolved_at < now else "over"
    if alert.acknowledged_at is not None:
        by = f" by {alert.acknowledged_by}" if alert.acknowledged_by else ""
        return f"acknowledged {relative(alert.acknowledged_at, now)}{by}"
    return "open"


def _as_json(alert: Alert) -> dict[str, Any]:
    from json import loads

    import msgspec

    fields: dict[str, Any] = msgspec.to_builtins(alert)
    try:
        return {**fields, "context": loads(alert.context)}
    except (ValueError, RecursionError):  # written by hand
        return fields


def _id(option: str, text: str) -> str:
    from onward.ids import is_id

    if not is_id(found := text.strip().upper()):
        raise usage_error(f"{option} is the id of an alert, 26 characters, not {text!r:.60}")
    return found
