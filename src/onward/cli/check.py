"""``onward check``: code that enqueues around the primitives."""

from __future__ import annotations

import click

from onward.cli.output import escape, put, put_json, say, usage_error
from onward.cli.target import json_option


@click.command()
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(exists=True))
@click.option(
    "--prefix", metavar="PREFIX", default="onward_", show_default=True, help="What the names of Onward's tables begin with, on SQLite."
)
@click.option("--schema", metavar="SCHEMA", default="onward", show_default=True, help="Which schema Onward's tables are in, on Postgres.")
@json_option
def command(paths: tuple[str, ...], prefix: str, schema: str, as_json: bool) -> int:
    """Find code that enqueues around the primitives.

    Reads Python files, and those below folders, and runs none of them. What it finds would lose a job, or promise one that does not
    belong to its change: the store's own verbs, imports from inside of Onward, SQL that writes its tables, an enqueue without within=
    inside an open transaction, and one that is put off until after the commit. A comment "# onward: allow" with a reason behind it
    lets one place stand. Ends with exit code 1 when something is found, or a file cannot be read.
    """
    from onward.enqueue_check import Tables, check_paths

    checked = check_paths(paths, Tables(prefix=prefix, schema=schema))
    if not checked.files and not checked.violations:
        raise usage_error(f"there is no Python file below {', '.join(paths)}")
    for one in checked.violations:
        if as_json:
            place = {"path": one.path, "line": one.line, "column": one.column}
            put_json({**place, "rule": one.rule, "found": one.found, "instead": one.instead})
        else:
            put(escape(str(one)))
    say(f"{checked.files:,} {'file' if checked.files == 1 else 'files'} checked, {len(checked.violations):,} to mend.")
    return 1 if checked.violations else 0
