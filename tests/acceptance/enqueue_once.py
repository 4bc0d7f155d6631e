"""Enqueue one key and print the id that came back. Run as a process of its own by the tests.

Arguments: how many seconds the wall clock steps once the store is open, then how often to fork first. Each process prints one line.
"""

from __future__ import annotations

import os
import sys
import time
from datetime import UTC, datetime, timedelta

from onward import Onward, define_job

step, forks = int(sys.argv[1]), int(sys.argv[2])
shift = 0


class SteppingClock:
    """The machine's clocks, of which the wall clock steps by ``shift``."""

    def now(self) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=shift)

    def monotonic(self) -> float:
        return time.monotonic()


def note(number: int) -> None: ...


real_time_ns = time.time_ns
time.time_ns = lambda: real_time_ns() + shift * 1_000_000_000  # what ids are made of
note_job = define_job("note", note, key=str)
app = Onward(f"sqlite:///{os.environ['ACCEPTANCE_HOME']}/jobs.db", jobs=[note_job], clock=SteppingClock())
app.store.open()
if forks:
    app.enqueue(note_job, 0)  # the parent has used its connection, its locks and its ids before it forks
print(f"ready {os.getpid()}", flush=True)
sys.stdin.readline()
shift = step
children = []
for _ in range(forks):
    child = os.fork()
    if child == 0:
        children = []
        break
    children.append(child)
handle = app.enqueue(note_job, 7)
os.write(1, f"{handle.id} {handle.is_new}\n".encode())
codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
os._exit(max(codes, default=0))
