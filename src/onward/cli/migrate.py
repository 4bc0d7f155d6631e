"""``onward migrate``: the tables of the store, brought up to date."""

from __future__ import annotations

import click

from onward.cli.output import escape, put
from onward.cli.target import app_option, open_store, url_option


@click.command()
@app_option
@url_option
def command() -> None:
    """Bring the store's tables up to date."""
    with open_store() as store:
        store.open()
        put(escape(f"{store.url} is up to date"))
