"""Write ``docs/reference/cli.md`` from the commands' own help. ``--check`` only says whether the page is current."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from onward.cli.main import cli

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "cli.md"
WIDTH = 100

OPENING = """\
# Command line

<!-- Written by scripts/write_cli_page.py from the commands' help. Change the help, then run the script. -->

`onward -A myapp.jobs:app worker` runs the jobs of the application `app` in the module `myapp.jobs`; the current directory is on the
import path. `-A` and `--url` may stand before the command or after it, and behind `jobs`; the last one counts. A command that runs the
application takes its store, and no `--url`. What they are when they are left out: [settings](settings.md).

Data goes to standard output, talk to standard error. `--json` gives JSON lines, one object a line, so read them line by line: `jq .`
does, and `python -m json.tool --json-lines`. `-h` is short for `--help`.

A command that only looks makes nothing: without a store it ends with 3, without Onward's tables in the database with 5. On SQLite
`enqueue`, `worker` and `migrate` make both; on Postgres `migrate` makes the tables, in a database that is there.

| exit code | meaning |
|---|---|
| 0 | done; for `worker`, also with `--drain`, whatever became of each job: `onward stats failed` lists dead letters |
| 1 | a job or an action failed, or something is wrong: a difference found by `reconcile`, an error by `doctor`, code by `check` |
| 2 | wrong use: an unknown option, a payload that does not fit |
| 3 | the store cannot be reached, opened or written |
| 4 | the application cannot be imported |
| 5 | the store's tables are missing, or older or newer than this version: `onward migrate` |
| 130 | interrupted |
"""


def main() -> int:
    """Write the page, or compare it. 1 when it is out of date."""
    written = page()
    if "--check" in sys.argv[1:]:
        if PAGE.exists() and PAGE.read_text(encoding="utf-8") == written:
            return 0
        print(f"{PAGE} is out of date: run python {Path(__file__).name}", file=sys.stderr)
        return 1
    PAGE.write_text(written, encoding="utf-8")
    return 0


def page() -> str:
    """The whole page."""
    os.environ["COLUMNS"] = str(WIDTH)
    parts = [OPENING]
    for depth, name, text in helps(cli, None, "onward"):
        parts.append(f"{'#' * (depth + 2)} `{name}`\n\n```text\n{text}\n```\n")
    return "\n".join(parts)


def helps(command: click.Command, parent: click.Context | None, name: str, depth: int = 0) -> Iterator[tuple[int, str, str]]:
    """Every command below this one: how deep, its name, its help."""
    context = click.Context(command, parent=parent, info_name=name, max_content_width=WIDTH, terminal_width=WIDTH)
    yield depth, context.command_path, "\n".join(line.rstrip() for line in command.get_help(context).rstrip().splitlines())
    if isinstance(command, click.Group):
        for child in command.list_commands(context):
            found = command.get_command(context, child)
            if found is not None and not found.hidden:
                yield from helps(found, context, child, min(depth + 1, 2))


if __name__ == "__main__":
    sys.exit(main())
