"""``--pace``: how many jobs at most in a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

Function = TypeVar("Function", bound=Callable[..., Any])


def pace_option(function: Function) -> Function:
    """Add ``--pace``."""
    return click.option(
        "--pace", metavar="RATE", help="At most so many in a time, such as 10/s or 100/m. The command runs until all are queued again."
    )(function)
