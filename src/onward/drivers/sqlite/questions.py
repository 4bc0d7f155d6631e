"""The six standing questions: each one statement, printed as it stands or answered by the store's own clock."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from onward.drivers.sql.rows import write_instant
from onward.errors import InvalidSetting
from onward.inspection import QUESTIONS, Answer, Question


def question_sql(statements: Mapping[str, str], question: Question, stuck_after: timedelta) -> str:
    """The query, to paste into ``sqlite3``."""
    return _fill(_block(statements, question), "'now'", stuck_after) + ";"


def questions(cursor: sqlite3.Cursor, statements: Mapping[str, str], question: Question, now: datetime, stuck_after: timedelta) -> Answer:
    """Ask the question of the store as it is at ``now``."""
    cursor.execute(_fill(_block(statements, question), f"'{write_instant(now)}'", stuck_after))
    rows = cursor.fetchall()
    return Answer(question, tuple(column[0] for column in cursor.description), tuple(tuple(map(_as_text, row)) for row in rows))


def _as_text(cell: Any) -> Any:
    """What somebody wrote as bytes by hand is shown as the text that it was meant to be."""
    return cell.decode(errors="replace") if isinstance(cell, bytes) else cell


def _block(statements: Mapping[str, str], question: Question) -> str:
    if question not in QUESTIONS:
        raise InvalidSetting(f"{question!r} is no question: known are {', '.join(QUESTIONS)}")
    return statements["question_" + question.replace("-", "_")]


def _fill(sql: str, now: str, stuck_after: timedelta) -> str:
    return sql.replace("{now}", now).replace("{stuck_seconds}", str(stuck_after.total_seconds()))
