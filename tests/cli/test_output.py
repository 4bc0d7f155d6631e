"""What is printed: harmless, aligned, and readable."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from onward.cli.output import escape, relative, rough, shorten
from onward.cli.tables import table

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("stored", "shown"),
    [
        ("plain é 😀", "plain é 😀"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("two\nlines\r", "two\\nlines\\r"),
        ("\x9b2J", "\\x9b2J"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("\udc80", "\\udc80"),
        ("a'b\"c%s{}\\", "a'b\"c%s{}\\"),
    ],
)
def test_stored_text_cannot_command_a_terminal(stored: str, shown: str) -> None:
    """An error text is written by strangers; escapes in it could move the cursor or hide what follows."""
    assert escape(stored) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "now"),
        (0.4, "now"),
        (5, "in 5s"),
        (-65, "1m5s ago"),
        (3600, "in 1h"),
        (-90_000, "1d1h ago"),
        (86_405, "in 1d"),
        (1e8, "in 1157d9h"),
    ],
)
def test_a_moment_is_told_by_its_distance_in_two_units(seconds: float, shown: str) -> None:
    """Nobody subtracts UTC times in the head at night."""
    assert relative(NOW + timedelta(seconds=seconds), NOW) == shown


def test_rough_durations_never_skip_a_unit() -> None:
    """``1d5s`` would read as more exact than it is."""
    assert rough(timedelta(hours=2, seconds=3)) == "2h"


def test_shortened_text_keeps_its_limit() -> None:
    """The ellipsis counts, else columns drift."""
    assert shorten("abcdef", 4) == "abc…"
    assert shorten("abcd", 4) == "abcd"


def test_a_table_aligns_numbers_right_and_text_left() -> None:
    """Numbers are compared by eye."""
    assert list(table(("type", "jobs"), [("mail", 5), ("a", 12_000)])) == ["type    jobs", "----  ------", "mail       5", "a     12,000"]


def test_colour_does_not_move_columns() -> None:
    """A coloured cell is longer in characters than on the screen."""
    rows = [("a", "x"), ("bbb", "y")]
    plain = list(table(("k", "v"), rows))
    painted = list(table(("k", "v"), rows, {"k": lambda text: f"<{text}>"}))
    assert [line.replace("<", "").replace(">", "") for line in painted] == plain


def test_a_cell_cannot_break_its_row() -> None:
    """A line end or an escape in a stored name would forge rows."""
    assert list(table(("a",), [("x\ny\x1b[1m",)]))[2] == "x\\ny\\x1b[1m"


def test_an_empty_cell_is_a_dash() -> None:
    """A blank cannot be told from a missing column."""
    assert list(table(("a", "b"), [(None, 1.5)]))[2] == "-  1.5"
