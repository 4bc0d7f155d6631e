"""Ask the person at the terminal before something that cannot be taken back."""

from __future__ import annotations

import sys

import click

from onward.cli.output import usage_error


def may_go_on(what: str, question: str) -> bool:
    """Whether the person agrees. ``what`` is what is about to be done: where nobody can be asked, that ends the command."""
    if not has_terminal():
        raise usage_error(f"{what}, and there is no terminal to ask on: pass --yes")
    return click.confirm(question, err=True)


def has_terminal() -> bool:
    """Say whether there is a person to ask."""
    return sys.stdin.isatty()
