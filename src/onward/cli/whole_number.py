"""``WholeNumber``: the type of an option that is a count."""

from __future__ import annotations

from typing import Any

import click


class WholeNumber(click.IntRange):
    """A whole number within bounds. What is none is answered with the bounds."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return int(super().convert(value, param, ctx))
        except click.BadParameter:
            bounds = f"from {self.min:,} to {self.max:,}" if self.max is not None else f"of at least {self.min:,}"
            self.fail(f"must be a whole number {bounds}, not {value!r}", param, ctx)
