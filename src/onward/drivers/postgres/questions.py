"""The six standing questions: each one statement, printed as it stands or answered at the store's own time."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from onward.drivers.postgres.statement_text import NOW
from onward.errors import InvalidSetting
from onward.inspection import QUESTIONS, Question


def question_sql(statements: Mapping[str, str], question: Question, stuck_after: timedelta, now: str | None = None) -> str:
    """The query. ``now`` is an instant as text in place of the database's own clock."""
    if question not in QUESTIONS:
        raise InvalidSetting(f"{question!r} is no question: known are {', '.join(QUESTIONS)}")
    moment = NOW if now is None else f"pg_catalog.timestamptz '{now}'"
    sql = statements["question_" + question.replace("-", "_")]
    return sql.replace("{now}", moment).replace("{stuck_seconds}", str(stuck_after.total_seconds()))
