"""Tables as plain text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from onward.cli.output import escape, put, shorten

Cell = str | int | float | None
WIDEST = 200
"""Characters of a cell: one that somebody filled with a book does not push every other out of sight."""
Paint = Callable[[str], str]
"""Adds colour to a cell that is padded already, so that colour never changes a width."""


def put_table(columns: Sequence[str], rows: Sequence[Sequence[Cell]], paint: Mapping[str, Paint] | None = None) -> None:
    """Write a table to stdout. Stored text in it is made harmless."""
    for line in table(columns, rows, paint):
        put(line)


def table(columns: Sequence[str], rows: Sequence[Sequence[Cell]], paint: Mapping[str, Paint] | None = None) -> Iterator[str]:
    """The lines of a table: a head, a rule, the rows. Numbers stand to the right."""
    cells = [[_text(cell) for cell in row] for row in rows]
    widths = [max([len(name), *(len(row[at]) for row in cells)]) for at, name in enumerate(columns)]
    is_number = [bool(rows) and all(isinstance(row[at], int | float | None) for row in rows) for at in range(len(columns))]
    paints = [(paint or {}).get(name) for name in columns]

    def line(texts: Sequence[str], paints: Sequence[Paint | None]) -> str:
        padded = [text.rjust(width) if right else text.ljust(width) for text, width, right in zip(texts, widths, is_number, strict=True)]
        padded[-1] = padded[-1].rstrip()
        return "  ".join(brush(text) if brush else text for text, brush in zip(padded, paints, strict=True)).rstrip()

    plain = [None] * len(columns)
    yield line(columns, plain)
    yield "  ".join("-" * width for width in widths)
    for row in cells:
        yield line(row, paints)


def _text(cell: Cell) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, float):
        return f"{cell:,.3f}".rstrip("0").rstrip(".")
    if isinstance(cell, int):
        return f"{cell:,}"
    return shorten(escape(cell), WIDEST)
