"""``onward stats``: how each queue is doing, and the six standing questions, each one query."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

import click

from onward.cli.output import put, put_json, shorten, usage_error
from onward.cli.tables import Cell, put_table
from onward.cli.target import app_option, json_option, open_store, url_option

if TYPE_CHECKING:
    from onward.driver import Store

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


NOW = "now"
SHORTEST_WATCH = 0.2


@click.command()
@click.argument("questions", metavar="[QUESTION]...", nargs=-1, type=click.Choice([NOW, *TITLES]))
@click.option("--window", metavar="DURATION", default="1h", show_default=True, help="How far back `now` counts what ended.")
@click.option(
    "--watch", metavar="SECONDS", type=click.FloatRange(min=SHORTEST_WATCH), help="Look again every so many seconds, until Ctrl-C."
)
@click.option("--prometheus", is_flag=True, help="Print all of it as text for a Prometheus server, and nothing else.")
@click.option("--sql", is_flag=True, help="Print the query instead of the answer.")
@click.option("--stuck-after", metavar="DURATION", default="5m", show_default=True, help="When a running job counts as stuck.")
@json_option
@app_option
@url_option
def command(
    questions: tuple[str, ...],
    window: str,
    watch: float | None,
    prometheus: bool,
    sql: bool,
    stuck_after: str,
    as_json: bool,
) -> None:
    """Say how each queue is doing, and answer the six standing questions about the work.

    QUESTION is now, outstanding, failed, stuck, durations, duplicates or last-hour; left out, all seven are answered. `now` counts what is
    due and runs, up to 10,000 a queue, and from the counts of each minute what ended: it is quick however many jobs there are.
    """
    from onward.monitor import Monitor

    if prometheus and (questions or sql or as_json or watch is not None):
        raise usage_error("--prometheus prints all that there is, once, in its own form: leave QUESTION, --sql, --json and --watch out")
    if sql and NOW in questions:
        raise usage_error("`now` is made of several queries, and has none to print; the six questions have one each")
    if watch is not None and sql:
        raise usage_error("a query does not change: leave --watch or --sql out")
    length, patience = _duration("--window", window), _duration("--stuck-after", stuck_after)
    asked = questions or ((NOW,) if watch is not None else (() if sql else (NOW,)) + tuple(TITLES))
    with open_store() as store:
        while True:
            if watch is not None and not as_json:
                click.clear()
            if prometheus:
                put(Monitor(store).prometheus().rstrip("\n"))
            else:
                _answer(store, asked, window=length, sql=sql, stuck_after=patience, as_json=as_json)
            if watch is None:
                return
            time.sleep(watch)


def _duration(option: str, text: str) -> timedelta:
    from onward.durations import parse_duration
    from onward.errors import InvalidTime
    from onward.monitor import SHORTEST_WINDOW

    try:
        length = parse_duration(text)
    except InvalidTime as error:
        raise InvalidTime(f"{option} {error}") from None
    if option == "--window" and length < SHORTEST_WINDOW:
        raise usage_error("--window is 1m or longer: what ended is counted by the minute")
    return length


def _answer(store: Store, asked: Sequence[str], *, window: timedelta, sql: bool, stuck_after: timedelta, as_json: bool) -> None:
    from onward.cli.stats_now import put_now, put_now_as_json
    from onward.inspection import QUESTIONS
    from onward.look import look

    is_first = True
    if NOW in asked:
        metrics = look(store, window)
        is_first = False
        if as_json:
            put_now_as_json(metrics)
        else:
            put_now(metrics)
    for question in (one for one in QUESTIONS if one in asked):
        if sql:
            query = store.question_sql(question, stuck_after=stuck_after)
            if as_json:
                put_json({"question": question, "sql": query})
            else:
                put(f"-- {question}: {TITLES[question]}\n{query.strip().rstrip(';')};\n")
            continue
        answer = store.answer(question, stuck_after=stuck_after)
        if as_json:
            put_json({"question": question, "rows": [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]})
            continue
        if not is_first:
            put()
        is_first = False
        put(click.style(TITLES[question], bold=True))
        if answer.rows:
            put_table(answer.columns, [[_brief(cell) for cell in row] for row in answer.rows[:MOST_ROWS]])
            if len(answer.rows) > MOST_ROWS:
                put(f"… and {len(answer.rows) - MOST_ROWS:,} more (--json prints all)")
        else:
            put("none")


def _brief(cell: Cell) -> Cell:
    return shorten(cell.partition("\n")[0], 100) if isinstance(cell, str) else cell
