"""The audio files on disk. Each run writes one of its own; which of them is the episode's audio is said by the commit that names it."""

from __future__ import annotations

import os
from pathlib import Path

from examples.podcasts.home import AUDIO


def path_of(name: str) -> Path:
    """Where the file of this name lies."""
    return AUDIO / name


def write(name: str, content: bytes) -> None:
    """Make a new file, durably. Killed in between, it leaves a piece that no row names, which the next run removes."""
    path = path_of(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    for directory in (path.parent, AUDIO):
        _make_names_durable(directory)


def remove_others(name: str) -> None:
    """Remove what earlier runs for the same episode left. Only for the run that is completing it, inside its transaction."""
    for other in path_of(name).parent.iterdir():
        if other.name != path_of(name).name:
            other.unlink(missing_ok=True)


def _make_names_durable(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
