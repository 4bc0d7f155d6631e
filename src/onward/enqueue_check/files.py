"""Reads the files that are to be checked."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from onward.enqueue_check.sources import check_sources
from onward.enqueue_check.sql_writes import Tables
from onward.enqueue_check.violation import Violation

_NOT_THE_APPLICATIONS = frozenset({"__pycache__", "node_modules", "site-packages"})


class Checked(Struct, frozen=True):
    """What was looked at, and what was found."""

    files: int
    violations: tuple[Violation, ...]


def check_paths(paths: Iterable[str | os.PathLike[str]], tables: Tables | None = None) -> Checked:
    """Check files, and every ``.py`` file below folders, except in virtual environments and hidden folders.

    What cannot be read is a violation: a check that passes over a file would say that all is well. Names that one file imports from
    another are followed among the files that are checked together.
    """
    sources: dict[str, bytes] = {}
    unread: list[Violation] = []
    seen: set[str] = set()
    for path in paths:
        for found in _python_files(Path(path), unread):
            real = os.path.realpath(found)
            if real in seen:
                continue
            seen.add(real)
            try:
                sources[str(found)] = found.read_bytes()
            except OSError as error:
                unread.append(_unreadable(found, error))
    violations = [*check_sources(sources, tables), *unread]
    return Checked(len(seen), tuple(sorted(violations)))


def _python_files(path: Path, unread: list[Violation]) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    for folder, folders, files in os.walk(path, onerror=lambda error: unread.append(_unreadable(Path(error.filename), error))):
        folders[:] = sorted(name for name in folders if _is_the_applications(Path(folder, name)))
        yield from (Path(folder, name) for name in sorted(files) if name.endswith(".py"))


def _is_the_applications(folder: Path) -> bool:
    return not folder.name.startswith(".") and folder.name not in _NOT_THE_APPLICATIONS and not (folder / "pyvenv.cfg").exists()


def _unreadable(path: Path, error: OSError) -> Violation:
    return Violation(str(path), 1, 1, "unreadable", f"it cannot be read ({error.strerror or error})")
