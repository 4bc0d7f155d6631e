"""Tables on a terminal: with rich where it is installed, plain otherwise."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from importlib.util import find_spec


def show_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table; an empty one says so."""
    cells = [[_brief(cell) for cell in row] for row in rows]
    if not cells:
        print(f"{title}\n  none\n")
    elif find_spec("rich") and sys.stdout.isatty():
        _rich(title, columns, cells)
    else:
        widths = [max(len(row[index]) for row in (list(columns), *cells)) for index in range(len(columns))]
        print(title)
        for row in (list(columns), ["-" * width for width in widths], *cells):
            print("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
        print()


def _rich(title: str, columns: Sequence[str], rows: list[list[str]]) -> None:
    table = import_module("rich.table").Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column)
    for row in rows:
        table.add_row(*(import_module("rich.text").Text(cell) for cell in row))
    import_module("rich.console").Console().print(table)


def _brief(cell: object) -> str:
    line = "" if cell is None else str(cell).partition("\n")[0]
    return line if len(line) <= 90 else line[:89] + "…"
