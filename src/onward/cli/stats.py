"""``onward stats``: the six standing questions, each one query."""

from __future__ import annotations

import click

from onward.cli.output import put, put_json, shorten
from onward.cli.tables import Cell, put_table
from onward.cli.target import app_option, json_option, open_store, url_option

TITLES = {
    "outstanding": "What work is outstanding?",
    "failed": "What failed, and why?",
    "stuck": "Is anything stuck?",
    "durations": "How long do jobs take?",
    "duplicates": "Are there duplicate jobs?",
    "last-hour": "What ran in the last hour?",
}

MOST_ROWS = 50
"""What a table shows of an answer; `failed` and `last-hour` begin with the newest."""


@click.command()
@click.argument("questions", metavar="[QUESTION]...", nargs=-1, type=click.Choice(list(TITLES)))
@click.option("--sql", is_flag=True, help="Print the query instead of the answer.")
@click.option("--stuck-after", metavar="DURATION", default="5m", show_default=True, help="When a running job counts as stuck.")
@json_option
@app_option
@url_option
def command(questions: tuple[str, ...], sql: bool, stuck_after: str, as_json: bool) -> None:
    """Answer the six standing questions about the work.

    QUESTION is outstanding, failed, stuck, durations, duplicates or last-hour; left out, all six are answered.
    """
    from onward.durations import parse_duration
    from onward.errors import InvalidTime
    from onward.inspection import QUESTIONS

    try:
        patience = parse_duration(stuck_after)
    except InvalidTime as error:
        raise InvalidTime(f"--stuck-after {error}") from None
    with open_store() as store:
        for number, question in enumerate(one for one in QUESTIONS if not questions or one in questions):
            if sql:
                query = store.question_sql(question, stuck_after=patience)
                if as_json:
                    put_json({"question": question, "sql": query})
                else:
                    put(f"-- {question}: {TITLES[question]}\n{query.strip().rstrip(';')};\n")
                continue
            answer = store.answer(question, stuck_after=patience)
            if as_json:
                put_json({"question": question, "rows": [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]})
                continue
            if number:
                put()
            put(click.style(TITLES[question], bold=True))
            if answer.rows:
                put_table(answer.columns, [[_brief(cell) for cell in row] for row in answer.rows[:MOST_ROWS]])
                if len(answer.rows) > MOST_ROWS:
                    put(f"… and {len(answer.rows) - MOST_ROWS:,} more (--json prints all)")
            else:
                put("none")


def _brief(cell: Cell) -> Cell:
    return shorten(cell.partition("\n")[0], 100) if isinstance(cell, str) else cell
