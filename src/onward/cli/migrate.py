"""``onward migrate``: the tables of the store, brought up to date."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from onward.cli.output import escape, put, put_json, usage_error
from onward.cli.target import app_option, check_migrated, json_option, open_store, url_option

if TYPE_CHECKING:
    from onward.driver import Store


@click.command()
@click.option("--check", is_flag=True, help="Change nothing; end with exit code 5 when there is something to do.")
@click.option("--sql", "as_sql", is_flag=True, help="Change nothing; print the SQL that is to be run, for a person with more rights.")
@json_option
@app_option
@url_option
def command(check: bool, as_sql: bool, as_json: bool) -> None:
    """Bring the store's tables up to date."""
    if check and as_sql:
        raise usage_error("--check and --sql are two different questions: give one of them")
    with open_store(may_create=True) as store:
        if as_sql:
            _print_sql(store, as_json)
            return
        if check:
            check_migrated(store)
        else:
            store.migrate()
        if as_json:
            put_json({"store": store.url, "schema": store.schema_version})
        else:
            put(escape(f"{store.url} is up to date{'' if store.schema_version is None else f' (version {store.schema_version})'}"))


def _print_sql(store: Store, as_json: bool) -> None:
    script = store.migration_sql()
    if as_json:
        put_json({"store": store.url, "sql": script})
    else:
        put(script.removesuffix("\n"))
