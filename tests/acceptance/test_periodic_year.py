"""Four processes, killed and started again, whose clock steps back and forth: each moment of a year has one job."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import msgspec
import pytest

from onward import Onward
from onward.inspection import JobFilter
from tests.acceptance.periodic_year import ALL, report
from tests.moments_scan import scan

ROOT = Path(__file__).resolve().parents[2]
FIRST, LAST = datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)
CHANGES = [datetime.fromisoformat(f"{day}T00:00:00+00:00") for day in ("2026-03-08", "2026-03-29", "2026-10-25", "2026-11-01")]
OUTAGE = datetime(2026, 6, 10, 0, 30, tzinfo=UTC)
PROCESSES = 4
SEED = 7
LONGEST_LOOK = 0.02
"""Seconds within which most looks are over."""


class Fleet:
    """Processes that look when they are told to."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._chance = Random(SEED)
        self.kills = 0
        self._processes = [self._start() for _ in range(PROCESSES)]

    def _start(self) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tests.acceptance.periodic_year", self._url]
        return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def look(self, now: datetime, *, killing: int | None = None) -> None:
        """All at the same time; ``killing`` is which of them is killed in the middle of it, and started again."""
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write(now.isoformat() + "\n")
            process.stdin.flush()
        if killing is not None:
            self._hear(killing, "looks")
            time.sleep(self._chance.uniform(0, LONGEST_LOOK))  # where in its look it is killed is left to chance
            self._processes[killing].kill()
            self._processes[killing].communicate()
            self._processes[killing] = self._start()
            self.kills += 1
        for number in range(PROCESSES):
            if number != killing:
                self._hear(number, "looks")
                self._hear(number, "looked")

    def _hear(self, number: int, word: str) -> None:
        output = self._processes[number].stdout
        assert output is not None
        assert output.readline() == f"{word}\n"

    def close(self) -> None:
        for process in self._processes:
            process.kill()
            process.communicate()


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/jobs.db"
    found: str = request.getfixturevalue("postgres_database")
    return found


@pytest.fixture
def fleet(url: str) -> Iterator[Fleet]:
    with Onward(url, jobs=[report], migrate=True) as app:
        app.store.migrate()
    fleet = Fleet(url)
    try:
        yield fleet
    finally:
        fleet.close()


def times(chance: Random) -> Iterator[datetime]:
    """A year of looks: often where the clocks change, every few hours elsewhere; some of the steps go back, some far ahead."""
    now = FIRST
    while now < LAST:
        yield now
        is_near = any(abs(now - change) < timedelta(hours=15) for change in CHANGES)
        step = timedelta(minutes=chance.uniform(15, 45) if is_near else chance.uniform(480, 1200))
        kind = chance.random()
        if kind < 0.05:
            step = -timedelta(minutes=chance.uniform(1, 180))
        elif kind < 0.08:
            step = timedelta(hours=chance.uniform(10, 20))
        if now < OUTAGE <= now + step:
            yield OUTAGE
            now, step = OUTAGE, timedelta(days=2)
        now = max(now + step, FIRST)
    yield LAST - timedelta(seconds=1)


@pytest.mark.timeout(600)
def test_each_moment_of_a_year_has_one_job(fleet: Fleet, url: str) -> None:
    chance = Random(SEED)
    looks = 0
    for now in times(chance):
        fleet.look(now, killing=chance.randrange(PROCESSES) if looks % 30 == 15 else None)
        looks += 1
    with Onward(url, jobs=[report]) as app:
        jobs = app.store.find(JobFilter(), limit=100_000)
    said = [msgspec.json.decode(job.metadata) for job in jobs]
    fired = Counter((one["periodic"], datetime.fromisoformat(one["moment"])) for one in said)
    assert max(fired.values()) == 1
    for name, (cron, zone) in ALL.items():
        expected = set(scan(cron, zone, FIRST, LAST))
        found = {moment for periodic, moment in fired if periodic == name}
        assert found == expected, (name, sorted(found ^ expected)[:5])
    during = [moment for name, moment in fired if name == "once" and OUTAGE < moment <= OUTAGE + timedelta(days=2)]
    assert during == [OUTAGE + timedelta(days=1, hours=23, minutes=50)], "one run for two days without a look"
    print(f"{looks} looks of {PROCESSES} processes, {fleet.kills} of them killed: {len(jobs)} jobs")
