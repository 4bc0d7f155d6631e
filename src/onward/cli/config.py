"""``onward config``: each setting, its value, and where that comes from."""

from __future__ import annotations

import click

from onward.cli.output import escape, put_json, say
from onward.cli.tables import put_table
from onward.cli.target import app_option, elsewhere, json_option, target, url_option


@click.command()
@json_option
@app_option
@url_option
def command(as_json: bool) -> None:
    """Show each setting, and where its value comes from.

    The command line wins over ONWARD_ variables, those over onward.toml, that over [tool.onward] in pyproject.toml. Secrets are masked.
    A store that the application names itself wins over them all, unless the command has --url.
    """
    from onward.settings import Settings, variable_of

    settings = Settings({"app": target().app, "url": target().url})
    own = _own_url(settings.app) if target().url is None and settings.app is not None else None
    rows = []
    for one in settings:
        value, source = one.shown, "command line" if one.source == "given" else one.source
        if one.name == "url" and own is not None:
            value, source = own, "the application's own"
        rows.append((one.name, value, source, variable_of(one.name)))
    if as_json:
        for name, value, source, variable in rows:
            put_json({"name": name, "value": value or None, "source": source, "variable": variable})
        return
    put_table(("setting", "value", "source", "variable"), [(name, value or None, *rest) for name, value, *rest in rows])


def _own_url(name: str) -> str | None:
    """The store that the application uses, where it does not take it from the settings; whatever those say is not used then."""
    from onward.application import load_application
    from onward.errors import OnwardError
    from onward.settings import Settings

    try:
        with load_application(name) as app:
            if Settings().url is None:
                return app.store.url
            other = elsewhere(app.store)
            if other is None:
                return None
            say(f"{other[0]} names {other[1]}; the application names its own store, and that is used.")
            return app.store.url
    except OnwardError as error:
        say(f"The application's own store is not known: {escape(str(error))}")
        return None
