"""The work of a function as a number that no load of the machine changes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


def lines_run(function: Callable[[], object]) -> int:
    """How many lines of Python ran: the part of the work that is ours."""
    count = 0

    def trace(frame: Any, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function()
    finally:
        sys.settrace(before)
    return count
