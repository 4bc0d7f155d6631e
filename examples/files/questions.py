"""The six questions of the document, each one command and one query over the view ``jobs``.

``python -m examples.files.questions failed`` answers one; ``--sql`` prints its query.
"""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import closing

from examples.files.database import connect, install, is_postgres
from examples.files.home import URL
from examples.files.tables import show_table

# Reckoning with instants is all that differs between the databases.
if is_postgres(URL):
    IS_STUCK = "locked_at::timestamptz < now() - interval '5 minutes'"
    IS_RECENT = "completed_at::timestamptz >= now() - interval '60 minutes'"
    SECONDS = "extract(epoch FROM completed_at::timestamptz - claimed_at::timestamptz)"
else:
    IS_STUCK = "locked_at < strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-5 minutes')"
    IS_RECENT = "completed_at >= strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-60 minutes')"
    SECONDS = "(julianday(completed_at) - julianday(claimed_at)) * 86400"

QUESTIONS = {
    "outstanding": (
        "What work is outstanding right now?",
        """SELECT type, status, count(*) AS jobs
FROM jobs
WHERE status IN ('pending', 'claimed')
GROUP BY type, status
ORDER BY type, status""",
    ),
    "failed": (
        "What failed and why?",
        """SELECT id, type, attempts, completed_at, last_error
FROM jobs
WHERE status = 'failed'
ORDER BY completed_at DESC""",
    ),
    "stuck": (
        "Is anything stuck?",
        f"""SELECT id, type, locked_by, locked_at
FROM jobs
WHERE status = 'claimed' AND {IS_STUCK}
ORDER BY locked_at""",
    ),
    "durations": (
        "How long do jobs take?",
        f"""SELECT type, count(*) AS jobs,
    round(avg({SECONDS}), 3) AS mean_seconds,
    round(max({SECONDS}), 3) AS longest_seconds
FROM jobs
WHERE status = 'completed'
GROUP BY type
ORDER BY type""",
    ),
    "duplicates": (
        "Are there duplicate jobs?",
        """SELECT type, payload, count(*) AS jobs
FROM jobs
WHERE status IN ('pending', 'claimed')
GROUP BY type, payload
HAVING count(*) > 1
ORDER BY type""",
    ),
    "last-hour": (
        "What ran in the last hour?",
        f"""SELECT type, status, count(*) AS jobs, max(completed_at) AS newest
FROM jobs
WHERE {IS_RECENT}
GROUP BY type, status
ORDER BY type, status""",
    ),
}


def main() -> None:
    """Answer one question, or all."""
    parser = argparse.ArgumentParser(prog="python -m examples.files.questions", description="Ask the six questions about the work.")
    parser.add_argument("question", nargs="?", choices=list(QUESTIONS), help="left out, all six are answered")
    parser.add_argument("--sql", action="store_true", help="print the query instead of the answer")
    asked = parser.parse_args()
    for name, (title, sql) in QUESTIONS.items():
        if asked.question in (None, name):
            if asked.sql:
                print(f"-- {title}\n{sql};\n")
            else:
                columns, rows = ask(name)
                show_table(title, columns, rows)


def ask(question: str) -> tuple[list[str], list[tuple[object, ...]]]:
    """Answer one question from the application's database, as columns and rows."""
    from examples.files.app import app

    install(app, URL)
    with closing(connect(URL)) as connection:
        answer = connection.execute(QUESTIONS[question][1])
        return [column[0] for column in answer.description], answer.fetchall()


if __name__ == "__main__":
    try:
        main()
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read (`| head`) has what it wanted; the interpreter's own last flush must go nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
