"""Errors of the library, as whoever typed options reads them."""

from __future__ import annotations

import pytest

from onward.cli.option_words import in_option_words

OPTIONS = {"every": "--every", "catch_up": "--catch-up", "id": "--id", "grace": "--grace", "cron": "--cron"}


@pytest.mark.parametrize(
    ("said", "typed"),
    [
        ("x: every='1x' is no duration", "x: --every 1x is no duration"),
        ("by cron='30 2 * * *' or by every='10m', not both", "by --cron '30 2 * * *' or by --every 10m, not both"),
        ("catch_up='all' forbids it", "--catch-up all forbids it"),
        ("leave id= out", "leave --id out"),
        ("leave out every=, or cron=", "leave out --every, or --cron"),
        ("every=2026-01-01 is out of range", "--every 2026-01-01 is out of range"),
        ("grace (given): 'zz' is no duration", "--grace: 'zz' is no duration"),
        ("every='' is no duration", "--every '' is no duration"),
        ("Onward(periodic=[...]) names them", "Onward(periodic=[...]) names them"),
        ("postgresql://h/db?every=1&id=2", "postgresql://h/db?every=1&id=2"),
        ("grace (onward.toml): 'zz' is no duration", "grace (onward.toml): 'zz' is no duration"),
    ],
)
def test_a_keyword_is_an_option_where_the_command_has_it(said: str, typed: str) -> None:
    """And stays what it is where not: then the application's code is to be mended."""
    assert in_option_words(said, OPTIONS) == typed
