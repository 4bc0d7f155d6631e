"""Enqueue one key and print the id that came back. Run as a process of its own by the tests.

Arguments: the time shift of the wall clock in seconds, then how often to fork first; each process prints a line.
"""

from __future__ import annotations

import os
import sys
import time

shift, forks = int(sys.argv[1]), int(sys.argv[2])
real_time_ns, real_time = time.time_ns, time.time
time.time_ns = lambda: real_time_ns() + shift * 1_000_000_000
time.time = lambda: real_time() + shift

from tests.acceptance.jobs_app import app, note_job  # noqa: E402  the clock must be shifted before anything reads it

if forks:
    app.enqueue(note_job, 0)  # the parent has used its connection before it forks
print(f"ready {os.getpid()}", flush=True)
sys.stdin.readline()
for _ in range(forks):
    if os.fork() == 0:
        break
handle = app.enqueue(note_job, 7)
sys.stdout.write(f"{handle.id} {handle.is_new}\n")
sys.stdout.flush()
os._exit(0) if forks else sys.exit(0)
