"""Who runs the command, for the record of who did what to how many."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import click

from onward.cli.output import escape, usage_error


def actor_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--actor``."""
    return click.option(
        "--actor", metavar="NAME", callback=_check, help="Who does it, for the record (onward actions). Otherwise this user and host."
    )(function)


def _check(ctx: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    from onward.actions import LONGEST_ACTOR, check_actor
    from onward.errors import InvalidDefinition

    try:
        return None if value is None else check_actor(value)
    except InvalidDefinition:
        raise usage_error(f"--actor is at most {LONGEST_ACTOR} printable characters, not {value!r:.60}") from None


def user_at_host() -> str:
    """Who it is by the operating system, such as ``ada@web-1``. A user without a name is a number."""
    from socket import gethostname

    from onward.actions import LONGEST_ACTOR

    try:
        from pwd import getpwuid

        user = getpwuid(os.getuid()).pw_name
    except ImportError:  # Windows
        user = os.environ.get("USERNAME", "somebody")
    except KeyError:  # a container may run as any number
        user = str(os.getuid())
    return escape(f"{user}@{gethostname()}")[:LONGEST_ACTOR]
