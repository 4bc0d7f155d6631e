"""Pages of a SQLite file that hold nothing any more: how many there are, and how they are given back to the file system.

SQLite stores new rows in them, so that a file which is filled and pruned in turns stays as large as it once was. It is not made so that
it can shrink: that takes a map of pages, with which a drain wrote 6 % more to the log and an enqueue 3 %. Who wants it all the same runs
``PRAGMA auto_vacuum = INCREMENTAL; VACUUM`` once, and the pruner gives back what is free.
"""

from __future__ import annotations

import sqlite3

from msgspec import Struct

INCREMENTAL = 2
MOST_FREE = 0.1
"""So much of a file may be free, and is used again."""
FEW = 1000
"""So many free pages are nothing to speak of: 4 MB."""
AT_ONCE = 16
"""Pages that are given back in one commit: other writers wait for it, and each may have to be moved first."""


class FreeSpace(Struct, frozen=True, kw_only=True):
    """What of a file holds nothing."""

    pages: int
    """Of the whole file."""
    free: int
    page_size: int
    shrinks: bool
    """Whether it was made so that free pages can be given back one by one."""

    @property
    def surplus(self) -> int:
        """Pages that are more than what should be kept for new rows."""
        kept = max(int(self.pages * MOST_FREE), FEW)
        return max(self.free - kept, 0)


def free_space(cursor: sqlite3.Cursor) -> FreeSpace:
    """Ask for it; reads two pages."""
    names = ("page_count", "freelist_count", "page_size", "auto_vacuum")
    pages, free, size, mode = (int(cursor.execute(f"PRAGMA {name}").fetchone()[0]) for name in names)
    return FreeSpace(pages=pages, free=free, page_size=size, shrinks=mode == INCREMENTAL)


def pages_to_give_back(cursor: sqlite3.Cursor) -> int:
    """How many pages to give back next: few, and none where few are free or the file cannot shrink."""
    found = free_space(cursor)
    return min(found.surplus, AT_ONCE) if found.shrinks else 0


def give_back(cursor: sqlite3.Cursor, pages: int) -> None:
    """Shrink the file by so many pages."""
    for _ in range(pages):
        cursor.execute("PRAGMA incremental_vacuum(1)")  # Python's module goes one step, whatever number stands here
