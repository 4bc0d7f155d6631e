"""The small programs that are killed at every system call: ``python -m tests.torture.syscalls.programs NAME HOME`` runs one.

Each prepares a home directory (that is not killed), and then does its work and says what it does (``tests.torture.promises``).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from onward.files import CreateFile, DeleteFile
from tests.torture.promises import GONE, say
from tests.torture.shop import BOOK, Shop
from tests.torture.syscalls import before, work
from tests.torture.syscalls.outage import meet_errors


class Program(Struct, frozen=True):
    """One thing that Onward does, as a program of its own."""

    prepare: Callable[[Path], None]
    work: Callable[[Shop], None]


PROGRAMS: dict[str, Program] = {
    "enqueue": Program(before.tables, work.enqueue),
    "recover": Program(before.killed, work.enqueue),
    "enqueue_many": Program(before.tables, work.enqueue_many),
    "within": Program(before.tables, work.within),
    "turn": Program(before.queued(1, 2, 3, 4), work.turn),
    "run_handlers": Program(before.queued(1, 2, job=BOOK), work.run_handlers),
    "retry": Program(before.ended, work.retry),
    "manage": Program(before.ended, work.manage),
    "sweep": Program(before.left_behind, work.sweep),
    "migrate_new": Program(before.nothing, work.migrate),
    "migrate_old": Program(before.first_release, work.migrate),
    "create_file": Program(before.file_jobs(CreateFile("new/deep/x", "new")), work.work_on_files("new")),
    "replace_file": Program(before.file_jobs(CreateFile("new/deep/x", "new", overwrite=True), before="old"), work.work_on_files("new")),
    "meet_errors": Program(before.tables, meet_errors),
    "delete_file": Program(before.file_jobs(DeleteFile("new/deep/x", require_exists=True), before="old"), work.work_on_files(GONE)),
}
"""By name."""
PLANTED: dict[str, Program] = {
    "acknowledge_early": Program(before.tables, work.acknowledge_early),
    "commit_twice": Program(before.tables, work.commit_twice),
    "key_apart": Program(before.tables, work.key_apart),
}
"""Faults that the kills must find."""


def main(name: str, home: str) -> None:
    shop = Shop(Path(home))
    say("begin")
    work.die(shop) if name == "die" else (PROGRAMS | PLANTED)[name].work(shop)
    shop.close()
    say("end")


if __name__ == "__main__":
    main(*sys.argv[1:])
