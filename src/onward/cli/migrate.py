"""``onward migrate``: the tables of the store, brought up to date."""

from __future__ import annotations

import click

from onward.cli.output import escape, put, put_json
from onward.cli.target import app_option, json_option, open_store, url_option


@click.command()
@click.option("--check", is_flag=True, help="Change nothing; end with exit code 5 when there is something to do.")
@json_option
@app_option
@url_option
def command(check: bool, as_json: bool) -> None:
    """Bring the store's tables up to date."""
    from onward.errors import SchemaOutOfDate

    with open_store(may_create=True) as store:
        if check and store.needs_migration():
            raise SchemaOutOfDate(f"the tables of {store.url} are missing or older than this Onward: run onward migrate")
        if not check:
            store.open()
        if as_json:
            put_json({"store": store.url, "schema": store.schema_version})
        else:
            put(escape(f"{store.url} is up to date{'' if store.schema_version is None else f' (version {store.schema_version})'}"))
