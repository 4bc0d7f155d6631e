"""``onward reconcile``: the application's own checks of promise against world."""

from __future__ import annotations

import click

from onward.cli.output import escape, put, put_json, say
from onward.cli.target import app_option, json_option, open_application
from onward.error_text import describe_error
from onward.errors import OnwardError


@click.command()
@json_option
@app_option
def command(as_json: bool) -> int:
    """Compare what completed jobs promised with the world outside.

    Reports and repairs nothing. Ends with exit code 1 when there is a discrepancy.
    """
    found = 0
    with open_application() as app:
        if not app.reconcilers:
            say("The application has nothing to reconcile: Onward(reconcile=[...]) names its checks.")
        for reconciler in app.reconcilers:
            try:
                result = reconciler.reconcile(app.store)
            except OnwardError:
                raise
            except Exception as error:
                raise OnwardError(f"reconciling {reconciler.name} failed: {describe_error(error)}") from error
            found += len(result.discrepancies)
            if as_json:
                put_json(
                    {
                        "name": reconciler.name,
                        "checked": result.checked,
                        "unchecked": result.unchecked,
                        "pending": result.pending,
                        "notes": list(result.notes),
                        "discrepancies": list(result.discrepancies),
                    }
                )
                continue
            put(
                f"{escape(reconciler.name)}: {result.checked:,} checked, {len(result.discrepancies):,} wrong, "
                f"{result.pending:,} pending, {result.unchecked:,} unchecked"
            )
            for note in result.notes:
                put(f"  {escape(note)}")
            for line in result.discrepancies:
                put(f"  {escape(line)}")
    return 1 if found else 0
