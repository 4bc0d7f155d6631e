"""The inputs that are kept: one file a target, one input a line, written so that a person can read and change them."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path

FOLDER = Path(__file__).parent / "corpus"
MOST_BYTES = 50_000
"""Of all files together."""
MOST_BYTES_OF_ONE = 4_000
"""Of what a run adds to a target's file."""


def read(target: str) -> list[bytes]:
    """The inputs kept for a target."""
    try:
        lines = (FOLDER / f"{target}.txt").read_text(encoding="ascii").splitlines()
    except FileNotFoundError:
        return []
    return [parse(line) for line in lines if line and not line.startswith("#")]


def parse(line: str) -> bytes:
    """Read an input as it is printed and kept: ``b'...'``. Raises ``ValueError``."""
    try:
        data = ast.literal_eval(line)
    except (SyntaxError, ValueError):
        data = None
    if not isinstance(data, bytes):
        raise ValueError(f"an input is written as b'...', not {line[:60]}")
    return data


def keep(target: str, found: Iterable[bytes]) -> int:
    """Add inputs, the shortest first, as long as there is room; gives how many were added."""
    kept = read(target)
    known, room, added = set(kept), MOST_BYTES_OF_ONE - sum(len(repr(one)) + 1 for one in kept), []
    for data in sorted(found, key=lambda one: (len(repr(one)), one)):
        room -= len(repr(data)) + 1
        if room < 0:
            break
        if data not in known:
            added.append(data)
            known.add(data)
    if added:
        FOLDER.mkdir(exist_ok=True)
        lines = [repr(one) for one in (*kept, *added)]
        (FOLDER / f"{target}.txt").write_text("\n".join(lines) + "\n", encoding="ascii")
    return len(added)
