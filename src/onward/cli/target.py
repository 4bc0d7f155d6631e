"""Which application and which store a command works on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click
from msgspec import Struct

from onward.cli.output import usage_error

if TYPE_CHECKING:
    from onward.app import Onward
    from onward.driver import Store

Function = TypeVar("Function", bound=Callable[..., Any])


TAKES_ITS_OWN = "this command uses the application's own store: leave --url out; ONWARD_URL counts only where the application names none"
NO_APPLICATION = "no application is given: pass -A module:attribute, or set ONWARD_APP"
MIGRATE = "run onward migrate"
"""The words of every error that only a migration mends."""
IN_CODE = f"pass migrate=True, or {MIGRATE}"
"""The same where an application may do it by itself, which is no option of a command."""


class Target(Struct):
    """What was given on the command line; both options may stand at the command, and at each group before it. The last one counts."""

    app: str | None = None
    url: str | None = None
    owns_process: bool = False
    """True for the command ``onward`` itself: the process does nothing else, before or after."""


def app_option(function: Function) -> Function:
    """Add ``-A/--app``."""
    return click.option(
        "-A",
        "--app",
        metavar="MODULE:ATTRIBUTE",
        expose_value=False,
        callback=_remember,
        help="The application, such as myapp.jobs:app. Otherwise ONWARD_APP, or app in the settings file.",
    )(function)


def url_option(function: Function) -> Function:
    """Add ``-u/--url``."""
    return click.option(
        "-u",
        "--url",
        metavar="URL",
        expose_value=False,
        callback=_remember,
        help="The store, such as sqlite:///app.db, for commands that need no application. Otherwise the application's, or ONWARD_URL.",
    )(function)


def json_option(function: Function) -> Function:
    """Add ``--json``."""
    return click.option("--json", "as_json", is_flag=True, help="JSON on stdout, one object a line.")(function)


def _remember(ctx: click.Context, parameter: click.Parameter, value: str | None) -> None:
    target = ctx.ensure_object(Target)
    if value is not None:
        setattr(target, str(parameter.name), value)


def target() -> Target:
    """What was given, of the running command."""
    return click.get_current_context().ensure_object(Target)


def chosen_application() -> str | None:
    """``module:attribute`` as given, or from the settings; None when there is none."""
    from onward.settings import find_app

    return target().app or find_app()


def needed_application() -> str:
    """``chosen_application``, for commands that cannot do without. Raises a usage error."""
    name = chosen_application()
    if name is None:
        raise usage_error(NO_APPLICATION if target().url is None else f"{NO_APPLICATION}; it names its store, so leave --url out")
    if target().url is not None:
        raise usage_error(TAKES_ITS_OWN)
    return name


def with_exact_migrate(message: str, given: Target) -> str:
    """An error's text, in which the advice to migrate is a command that can be pasted, without the password of its URL."""
    return message.replace(IN_CODE, MIGRATE).replace(MIGRATE, f"run {onward_as_typed(given)} migrate") if MIGRATE in message else message


def onward_as_typed(given: Target) -> str:
    """The command as it has to be typed to reach the same store again, without the password of its URL."""
    from shlex import quote

    from onward.settings import safe_url

    if given.url:
        return f"onward -u {quote(safe_url(given.url))}"
    return f"onward -A {quote(given.app)}" if given.app else "onward"


@contextmanager
def open_application(*, may_create: bool = False) -> Iterator[Onward]:
    """The application, for commands that need its definitions. Raises ``ApplicationNotFound``, or a usage error.

    Nothing is made by looking, unless ``may_create``: see ``open_store``.
    """
    from onward.application import load_application

    with load_application(needed_application()) as app:
        _check_made(app.store, may_create)
        yield app


@contextmanager
def open_store(*, may_create: bool = False) -> Iterator[Store]:
    """The store: of ``--url``, else the application's, else that of the settings.

    Neither a file nor tables are made by looking, unless ``may_create``: an empty store in the wrong place looks healthy, and the
    application's own database is not ours to change.
    """
    with open_store_and_application(may_create=may_create) as (store, _):
        yield store


@contextmanager
def open_store_and_application(*, may_create: bool = False) -> Iterator[tuple[Store, Onward | None]]:
    """The store, and the application where one is known and ``--url`` does not point elsewhere."""
    from onward.clock import SystemClock
    from onward.drivers import connect
    from onward.settings import check_url, find_url

    if target().url is None and (name := chosen_application()) is not None:
        from onward.application import load_application

        with load_application(name) as app:
            _check_made(app.store, may_create)
            yield app.store, app
        return
    store = connect(check_url(target().url or find_url()), clock=SystemClock())
    try:
        _check_made(store, may_create)
        yield store, None
    finally:
        store.close()


def elsewhere(store: Store) -> tuple[str, str] | None:
    """Where the settings lead, if to another store than this one: what says so, such as ``ONWARD_URL``, and the URL, safe to print."""
    from onward.clock import SystemClock
    from onward.drivers import connect
    from onward.errors import InvalidSetting
    from onward.settings import Settings

    setting = Settings()["url"]
    if setting.value is None:
        return None
    try:
        url = connect(setting.value, clock=SystemClock()).url
    except InvalidSetting:
        return setting.source, setting.shown
    return None if url == store.url else (setting.source, url)


def _check_made(store: Store, may_create: bool) -> None:
    from onward.errors import StoreUnavailable

    if may_create:
        return
    if not store.exists():
        raise StoreUnavailable(f"there is no {store.url}: correct the URL, or {MIGRATE}")
    check_migrated(store)


def check_migrated(store: Store) -> None:
    """Raise ``SchemaOutOfDate`` if there is something to migrate."""
    from onward.errors import SchemaOutOfDate

    if store.needs_migration():
        raise SchemaOutOfDate(f"{store.url} has no tables of Onward, or older ones: {MIGRATE}")
