"""One of the processes that enqueue periodic jobs: told the time line by line, it looks once and answers."""

from __future__ import annotations

import logging
import sys
from datetime import datetime
from random import Random

from onward import Onward, Periodic, define_job
from onward.clock import FakeClock
from onward.errors import StoreBusy
from onward.worker.scheduler import Scheduler

report = define_job("report", lambda: None)
ALL = {
    "night-paris": ("30 2 * * *", "Europe/Paris"),
    "quarters-paris": ("*/15 1-3 * 3,10 *", "Europe/Paris"),
    "hours-new-york": ("0 * * 3,11 *", "America/New_York"),
    "night-new-york": ("45 1 * * *", "America/New_York"),
    "weekly": ("0 9 * * mon", "Asia/Kolkata"),
}
"""Of which every moment is wanted, whatever happens."""
PERIODIC = [
    *(Periodic(report, cron, timezone=zone, name=name, catch_up="all", most_catch_up=1000) for name, (cron, zone) in ALL.items()),
    Periodic(report, "20 * * * *", name="once"),
]


def main(url: str) -> None:
    logging.disable(logging.WARNING)  # it says of thousands of moments that they are late
    clock = FakeClock()
    with Onward(url, jobs=[report], periodic=PERIODIC, clock=clock, migrate=True) as app:
        scheduler = Scheduler(app.store, app.definitions, app.periodic.declared.values(), clock=clock, chance=Random())
        for line in sys.stdin:
            clock.step(datetime.fromisoformat(line.strip()) - clock.now())
            print("looks", flush=True)
            _tick(scheduler)
            print("looked", flush=True)


def _tick(scheduler: Scheduler) -> None:
    """As a worker's loop does: where others change the same rows just now, again."""
    while True:
        try:
            scheduler.tick()
        except StoreBusy:
            continue
        return


if __name__ == "__main__":
    main(sys.argv[1])
