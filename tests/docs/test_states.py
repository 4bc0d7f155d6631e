"""The drawn page of statuses is the table in the code."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from onward.status import TRANSITIONS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "states.md"


def test_the_page_is_what_the_table_draws() -> None:
    """A diagram that is drawn by hand is wrong after the next change."""
    answer = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "draw_states.py"), "--check"], capture_output=True, text=True, timeout=60
    )
    assert answer.returncode == 0, answer.stderr


def test_the_diagram_has_every_arrow_and_no_other() -> None:
    """Read back from the page, not from the script that wrote it."""
    drawn = re.findall(r"^    (\w+) --> (\w+): (.+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(drawn) == sorted((start, end, verb) for (start, verb), ends in TRANSITIONS.items() for end in ends)
