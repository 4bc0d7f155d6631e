"""``onward config``: each setting, its value, and where that comes from."""

from __future__ import annotations

import click

from onward.cli.output import put_json
from onward.cli.tables import put_table
from onward.cli.target import app_option, json_option, target, url_option


@click.command()
@json_option
@app_option
@url_option
def command(as_json: bool) -> None:
    """Show each setting, and where its value comes from.

    The command line wins over ONWARD_ variables, those over onward.toml, that over [tool.onward] in pyproject.toml. Secrets are masked.
    """
    from onward.settings import Settings, variable_of

    settings = Settings({"app": target().app, "url": target().url})
    rows = [(one.name, one.shown, "command line" if one.source == "given" else one.source, variable_of(one.name)) for one in settings]
    if as_json:
        for name, value, source, variable in rows:
            put_json({"name": name, "value": value or None, "source": source, "variable": variable})
        return
    put_table(("setting", "value", "source", "variable"), [(name, value or None, *rest) for name, value, *rest in rows])
