"""Errors of the library in the words of whoever typed options: what is ``every='10m'`` there is ``--every 10m`` here."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import click

from onward.errors import OnwardError

_KEYWORD = re.compile(r"""(?<![\w.?&-])(?P<name>[a-z_]+)=(?P<value>'[^']*'|"[^"]*"|)""")
_SETTING = re.compile(r"^(?P<name>[a-z_]+) \(given\):")
_PLAIN = re.compile(r"[\w.:/+-]+")


@contextmanager
def option_words() -> Iterator[None]:
    """Around what is called with the values of the running command's options: its errors name these, not keywords of Python."""
    try:
        yield
    except OnwardError as error:
        error.args = (in_option_words(str(error), _options(click.get_current_context().command)), *error.args[1:])
        raise


def in_option_words(message: str, options: Mapping[str, str]) -> str:
    """The message with options in place of the keywords of these names. Every other keyword stays, as it belongs to the application."""

    def typed(found: re.Match[str]) -> str:
        option, value = options.get(found["name"]), found["value"]
        if option is None:
            return found[0]
        if value:
            return f"{option} {value[1:-1] if _PLAIN.fullmatch(value[1:-1]) else value}"
        is_followed = message[found.end() : found.end() + 1].isalnum()
        return f"{option} " if is_followed else option

    message = _SETTING.sub(lambda found: f"{options.get(found['name'], found['name'])}:", message)
    return _KEYWORD.sub(typed, message)


def _options(command: click.Command) -> dict[str, str]:
    """The options of a command by the names that Python has for them."""
    every = [text for one in command.params if isinstance(one, click.Option) for text in one.opts if text.startswith("--")]
    return {text[2:].replace("-", "_"): text for text in every}
