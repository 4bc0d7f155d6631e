"""What goes to the terminal: data to stdout, talk to stderr, and stored text made harmless."""

from __future__ import annotations

import sys
from datetime import datetime, timedelta
from typing import Any

import click

from onward.errors import OnwardError


class ReaderGone(Exception):
    """Whoever read stdout has what it wanted (``| head``). Not an error: the command just ends."""


def put(line: str = "") -> None:
    """Write a line of data to stdout."""
    try:
        click.echo(line)
    except UnicodeEncodeError:
        click.echo(line.encode("ascii", "backslashreplace").decode("ascii"))
    except BrokenPipeError:
        raise ReaderGone from None
    except OSError as error:
        raise OnwardError(f"the output cannot be written: {error.strerror or error}") from None


def put_json(value: Any) -> None:
    """Write one JSON value as a line of ASCII, which any terminal and any encoding can take."""
    from json import dumps

    put(dumps(value, ensure_ascii=True))


def say(line: str) -> None:
    """Tell the person something that is not data, on stderr."""
    try:
        click.echo(line, err=True)
    except OSError:  # nobody listens; the exit code still tells
        return


def say_progress(done: int, of: int) -> None:
    """On a terminal, one line that is written over and over, and ended by the last one."""
    if sys.stderr.isatty():
        click.echo(f"\r{done:,} of {of:,}" + ("\n" if done >= of else ""), err=True, nl=False)


def usage_error(message: str) -> click.UsageError:
    """What was typed cannot be done; gives the error to raise. Exit code 2."""
    return click.UsageError(message, click.get_current_context())


def say_error(message: str) -> None:
    """The one form of every failure: a line that begins with ``Error:``."""
    say(f"Error: {escape(' '.join(message.split()))}")


def escape(text: str) -> str:
    """Make stored text safe to print on one line: control characters, terminal escapes and direction marks become visible."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in text)


def shorten(text: str, limit: int) -> str:
    """Cut text to at most ``limit`` characters, the last one an ellipsis."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def utc(moment: datetime) -> str:
    """A moment to the second, in UTC."""
    return moment.strftime("%Y-%m-%d %H:%M:%SZ")


def relative(moment: datetime, now: datetime) -> str:
    """How far away a moment is, in its two largest units: ``in 5m``, ``1h30m ago``, ``now``."""
    distance = rough(abs(moment - now))
    if distance == "0s":
        return "now"
    return f"in {distance}" if moment > now else f"{distance} ago"


def rough(duration: timedelta) -> str:
    """A duration in its two largest units, to the second."""
    left, parts = int(duration.total_seconds()), []
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count}{unit}")
        if parts and (len(parts) == 2 or not count):
            break
    return "".join(parts) or "0s"
