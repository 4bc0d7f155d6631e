"""Breakers, limits and lines over real worker processes, some of which are killed."""

from __future__ import annotations

import os
import random
from collections import defaultdict
from collections.abc import Iterator
from datetime import timedelta
from itertools import combinations
from pathlib import Path

import psycopg
import pytest

from onward.drivers.postgres.url import read_url
from onward.inspection import JobFilter
from onward.jobs import Job
from onward.status import Status
from tests.acceptance.waits_app import AT_ONCE, BURST, JOBS, RATE, THRESHOLD, Call, Item
from tests.acceptance.waits_site import Site, most_at_once

SCALE = int(os.environ.get("WAITS_SCALE", "1"))
"""How many times as much is done; a release does more, on a machine that does nothing else."""
BEHIND = 100 * SCALE
KEYS, JOBS_OF_KEY, KILLS = 12 * SCALE, 12, int(os.environ.get("WAITS_KILLS", 4 * SCALE))
LINES, JOBS_OF_LINE = int(os.environ.get("WAITS_LINES", "20")), int(os.environ.get("WAITS_JOBS_OF_LINE", 8 if SCALE == 1 else 20))
PACED = 120 * SCALE
MARKERS = 20

pytestmark = pytest.mark.timeout(240 * SCALE)


@pytest.fixture
def site(tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("ONWARD_URL", database_url)
    made = Site(tmp_path, database_url)
    yield made
    made.app.close()


def test_five_failures_of_one_provider_stop_its_jobs_and_nobody_elses(site: Site) -> None:
    """It opens once, with one alert; who waits spends no try; one probe follows the pause, and another one if its worker is killed."""
    key, app = "s3-1", site.app
    site.say(f"{key}.away")
    app.enqueue_many([JOBS["call once"].new_job(Call("s3", 1, number)) for number in range(THRESHOLD)])
    with site.workers(4, 2) as worker:
        site.wait_for(lambda: app.breakers.get(key).state.status == "open", "the breaker opened")
        site.unsay(f"{key}.away")
        site.say(f"{key}.hangs")
        mixed = [JOBS["call"].new_job(Call("s3", pair, number)) for number in range(BEHIND) for pair in (1, 2)]
        app.enqueue_many(mixed)
        others = {one.id for one in mixed[1::2]}
        site.wait_for(lambda: sum(job.status is Status.COMPLETED for job in _calls(site) if job.id in others) == BEHIND, "the others ran")

        site.wait_for(lambda: bool(_tries(site, key)), "a probe ran")
        app.enqueue_many([JOBS["plain"].new_job(number) for number in range(MARKERS)])
        site.wait_for(lambda: site.live("plain") == 0, "all four processes went on with other work")
        (probe,) = _tries(site, key)
        waiting = [job for job in _calls(site) if job.id not in others and job.id != probe.job]
        assert {(job.status, job.attempts, job.fence) for job in waiting} == {(Status.QUEUED, 0, 0)}
        assert len(waiting) == BEHIND - 1
        assert site.ask("SELECT count(*) FROM {}alerts") == [(1,)]
        assert app.breakers.get(key).state.probe_id == probe.job

        site.kill(probe.pid)
        site.wait_for(lambda: len(_tries(site, key)) == 2, "another probe ran")
        app.enqueue_many([JOBS["plain"].new_job(number) for number in range(MARKERS)])
        site.wait_for(lambda: site.live("plain") == 0, "all processes went on with other work")
        assert len(_tries(site, key)) == 2
        site.unsay(f"{key}.hangs")
        site.wait_for(lambda: site.live() == 0, "nothing was left")
        assert worker.stop() == 0
    known = app.breakers.get(key)
    assert (known.state.status, known.state.failures, known.waiting, known.alert_id) == ("closed", 0, 0, None)
    assert site.ask("SELECT count(*) FROM {}alerts") == [(1,)], "it opened once"
    assert {job.status for job in _calls(site)} == {Status.COMPLETED}
    assert {job.fence for job in _calls(site) if job.id != probe.job} == {1}


def _calls(site: Site) -> list[Job]:
    return site.app.store.find(JobFilter(types=("call",)), limit=3 * BEHIND)


def _tries(site: Site, key: str) -> list[object]:
    """The runs of the key behind those that opened its breaker."""
    return [one for one in site.lines("start") if one.key == key][THRESHOLD:]


def test_no_more_run_at_once_than_a_limit_says_whoever_is_killed(site: Site) -> None:
    """By what the handlers say; no place is lost, and nobody is left waiting."""
    count = KEYS * JOBS_OF_KEY
    site.say("held.held")
    site.app.enqueue_many([JOBS["limited"].new_job(Item("held", number)) for number in range(AT_ONCE + 1)])
    with site.workers(4, 4) as worker:
        site.wait_for(lambda: len(site.lines("start")) == AT_ONCE, "as many began as may run at once")
        site.app.enqueue_many([JOBS["plain"].new_job(number) for number in range(MARKERS)])
        site.wait_for(lambda: site.live("plain") == 0, "all processes went on with other work")
        assert len(site.lines("start")) == AT_ONCE
        site.unsay("held.held")
        site.wait_for(lambda: site.live() == 0, "those ended")
        site.app.enqueue_many([JOBS["limited"].new_job(Item(f"k{number % KEYS}", number // KEYS)) for number in range(count)])
        site.kill_now_and_then(random.Random(7), KILLS, count)
        site.wait_for(lambda: site.live() == 0, "nothing was left")
        assert worker.stop() == 0
    most = most_at_once(site)
    assert len(most) == KEYS + 1
    assert max(most.values()) == most["held"] == AT_ONCE, most
    assert {job.status for job in site.app.store.find(JobFilter(), limit=2 * count)} == {Status.COMPLETED}
    assert {(one.running, one.waiting) for one in site.app.limits.list()} == {(0, 0)}
    print(f"{count} jobs of {KEYS} keys, {KILLS} kills: at most {max(most.values())} at once")


def test_a_rate_is_kept_to_and_its_burst(site: Site) -> None:
    """In no time more begin than the burst and what the rate lets come back; and, where nothing runs beside it, nearly that many do."""
    site.app.enqueue_many([JOBS["paced"].new_job(Item("api", number)) for number in range(PACED)])
    with site.workers(2, 8) as worker:
        site.wait_for(lambda: site.live() == 0, "nothing was left")
        assert worker.stop() == 0
    jobs = site.app.store.find(JobFilter(types=("paced",)), limit=2 * PACED)
    began = sorted(one.started_at for job in jobs for one in site.app.history(job.id) if one.started_at is not None)
    assert len(began) == PACED
    for one, other in combinations(range(PACED), 2):
        at_most = BURST + RATE * (began[other] - began[one]).total_seconds() + 1
        assert other - one + 1 <= at_most, f"{other - one + 1} began within {began[other] - began[one]}"
    seconds = (began[-1] - began[0]).total_seconds()
    at_once = sum(one - began[0] < timedelta(seconds=1 / RATE) for one in began)
    print(f"{PACED} at {RATE}/s with a burst of {BURST}: {(PACED - BURST) / seconds:.1f}/s behind the first {at_once}")
    if SCALE > 1:
        assert (PACED - BURST) / seconds > 0.95 * RATE


def test_lines_are_run_in_order_whoever_is_killed(site: Site) -> None:
    """Each to its end with all its tries, one at a time; a line that is held up holds nobody else up."""
    names = [f"line{number}" for number in range(LINES)]
    held = names[0]
    site.say(f"{held}.held")
    site.app.enqueue_many([JOBS["in line"].new_job(Item(name, number)) for number in range(JOBS_OF_LINE) for name in names])
    count = (LINES - 1) * JOBS_OF_LINE
    with site.workers(2, 8) as worker:
        site.kill_now_and_then(random.Random(7), KILLS, count)
        site.wait_for(lambda: len({one.job for one in site.lines("end")}) == count, "all other lines were run to their end")
        assert {one.number for one in site.lines("start") if one.key == held} == {0}
        site.unsay(f"{held}.held")
        site.wait_for(lambda: site.live() == 0, "nothing was left")
        assert worker.stop() == 0
    assert set(most_at_once(site).values()) == {1}
    order: dict[str, list[int]] = defaultdict(list)
    for one in sorted(site.lines("start"), key=lambda line: line.at):
        if one.number not in order[one.key][-1:]:
            order[one.key].append(one.number)
    assert dict(order) == {name: [*range(JOBS_OF_LINE)] for name in names}


def test_an_open_transaction_of_a_caller_stops_no_worker(tmp_path: Path, postgres_database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has enqueued into a limit, a line and behind a breaker, and is neither committed nor rolled back for long."""
    monkeypatch.setenv("ONWARD_URL", postgres_database)
    site = Site(tmp_path, postgres_database)
    with site.workers(2, 4) as worker, psycopg.connect(read_url(postgres_database)[0]) as connection:
        kinds = [("limited", Item("k", 0)), ("in line", Item("line", 0)), ("call", Call("s3", 1))]
        mine = [site.app.enqueue(JOBS[name], asked, within=connection) for name, asked in kinds]
        site.app.enqueue_many([JOBS[name].new_job(asked) for name, asked in kinds for _ in range(MARKERS)])
        site.wait_for(lambda: len({one.job for one in site.lines("end")}) == len(kinds) * MARKERS, "all that was committed was run")
        site.wait_for(lambda: site.live() == 0, "their ends were stored")
    with site.workers(2, 4) as worker:
        site.wait_for(lambda: all(one.refresh().status is Status.COMPLETED for one in mine), "what was committed last was run")
        assert worker.stop() == 0
    site.app.close()
