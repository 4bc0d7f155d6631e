"""Postgres restarts, loses its connections, or cannot be reached, under load: workers go on, and no job is lost or done twice."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from onward import Onward
from tests.acceptance.outage_app import JOBS, LEASE
from tests.acceptance.outage_site import Load, Site, cpu_seconds
from tests.acceptance.worker_process import WorkerProcess
from tests.tcp_proxy import TO_CLIENT, TO_SERVER, TcpProxy

LISTENS_AGAIN_WITHIN = 15.0


# -- outages -----------------------------------------------------------------------------------------------------------


def restart(site: Site, load: Load, proxy: TcpProxy, felt: Callable[[], bool]) -> None:
    """As after a crash: no connection is told, and the log is replayed."""
    site.server.restart("immediate")


def end_connections(site: Site, load: Load, proxy: TcpProxy, felt: Callable[[], bool]) -> None:
    """Five times, each when work goes on again."""
    for _ in range(5):
        accepted = len(load.accepted)
        assert site.server.end_connections() > 0
        site.wait_for(lambda: len(load.accepted) > accepted + 20, "jobs were accepted again")  # noqa: B023 - called at once


def drop(site: Site, load: Load, proxy: TcpProxy, felt: Callable[[], bool]) -> None:
    """Every connection is reset, and new ones are refused."""
    proxy.drop()
    site.wait_for(felt, "load and workers felt it")
    proxy.restore()


def silence(site: Site, load: Load, proxy: TcpProxy, felt: Callable[[], bool]) -> None:
    """Everybody stays connected and hears nothing. What was sent arrives late, when its sender has long given up."""
    proxy.silence()
    site.wait_for(felt, "load and workers felt it")
    proxy.restore()


def silence_answers(site: Site, load: Load, proxy: TcpProxy, felt: Callable[[], bool]) -> None:
    """The server commits, and nobody hears of it."""
    proxy.silence(TO_CLIENT)
    site.wait_for(felt, "load and workers felt it")
    proxy.restore()


def close_half(site: Site, load: Load, proxy: TcpProxy, felt: Callable[[], bool]) -> None:
    """The server seems to have ended, and still listens."""
    proxy.half_close(TO_CLIENT)
    site.wait_for(felt, "load and workers felt it")
    proxy.restore()


def close_other_half(site: Site, load: Load, proxy: TcpProxy, felt: Callable[[], bool]) -> None:
    """The client seems to have ended, and still listens."""
    proxy.half_close(TO_SERVER)
    site.wait_for(felt, "load and workers felt it")
    proxy.restore()


@pytest.mark.timeout(100)
@pytest.mark.parametrize("outage", [restart, end_connections, drop, silence, silence_answers, close_half, close_other_half])
def test_workers_go_on_by_themselves_after(
    outage: Callable[[Site, Load, TcpProxy, Callable[[], bool]], None], site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same processes; what was accepted is completed once, with its effect once; what was refused is not there."""
    with TcpProxy.before(site.server.url) as proxy:
        url = proxy.through(site.server.url) if outage not in (restart, end_connections) else site.server.url
        monkeypatch.setenv("ONWARD_URL", url)
        with site.work() as worker, Load(Onward(url, jobs=JOBS.values())) as load:
            site.wait_for(lambda: len(site.pids()) == 2 and len(load.accepted) > 100, "both processes worked")
            site.wait_for(lambda: site.listeners() == 2, "both processes listened")
            before, troubles, said = site.pids(), load.troubles, len(worker.errors)

            def felt() -> bool:
                return load.troubles > troubles and any("failed (" in line for line in worker.errors[said:])

            outage(site, load, proxy, felt)
            starts, accepted = len(site.starts()), len(load.accepted)

            site.wait_for(lambda: site.listeners() >= 2, "both processes listened again", LISTENS_AGAIN_WITHIN)
            site.wait_for(lambda: len(load.accepted) > accepted + 50, "jobs were accepted again")
            site.wait_for(lambda: site.pids(after=starts) == before, "the same processes worked again")
            load.end()
            site.wait_for(lambda: site.one("SELECT count(*) FROM onward.jobs WHERE status <> 'completed'") == 0, "all were completed")
            site.check_that_jobs_start_soon()

            assert worker.process.poll() is None
            assert site.pids() == before
            assert worker.stop() == 0

    stored = site.column("SELECT id FROM onward.jobs")
    assert set(load.accepted) <= set(stored)
    assert not set(load.refused) & set(stored)
    completions = Counter(site.column("SELECT job_id FROM completions"))
    assert completions == Counter(stored)
    effects = Counter(site.column("SELECT job_id FROM effects"))
    assert effects == Counter(site.column("SELECT id FROM onward.jobs WHERE type = 'write'"))


def test_a_job_whose_handler_outlasts_a_restart_is_started_once(site: Site) -> None:
    """A claim is data in a row, and no lock of a session that a restart takes away. Others sweep meanwhile, and must not take it."""
    job_id = site.app.enqueue(JOBS["until_told"], 1).id
    with site.work() as worker:
        site.wait_for_start(job_id)
        until = site.one("SELECT lease_until FROM onward.jobs WHERE id = %s", job_id)
        site.server.stop("immediate")
        time.sleep(LEASE * 0.4)  # how long the server is away
        site.server.start()
        renewed = "SELECT lease_until > %s + interval '1 second' * %s FROM onward.jobs WHERE id = %s"
        site.wait_for(lambda: site.one(renewed, until, LEASE, job_id), "the lease was renewed for longer than it was at the restart")
        (site.home / "go").touch()
        site.wait_for_status(job_id, "completed")
        assert worker.stop() == 0
    assert [started for started, _ in site.starts()] == [job_id]
    assert site.one("SELECT fence FROM onward.jobs WHERE id = %s", job_id) == 1


def test_a_server_that_is_away_costs_workers_next_to_no_processor_time(site: Site) -> None:
    """Whatever waits on a dead connection, it must not ask again and again without a pause; and it must not sleep for ever either."""
    away = 5.0
    job_id = site.app.enqueue(JOBS["until_told"], 1).id
    with site.work(processes=1) as worker:
        site.wait_for_start(job_id)  # so that the heartbeat has something to do as well
        site.wait_for(lambda: site.listeners() == 1, "it listened")
        site.server.stop("immediate")
        used, began = cpu_seconds(worker.process.pid), time.monotonic()
        time.sleep(away)
        used, lasted = cpu_seconds(worker.process.pid) - used, time.monotonic() - began
        site.server.start()
        assert used < lasted * 0.25
        site.wait_for(lambda: site.listeners() == 1, "it listened again", LISTENS_AGAIN_WITHIN)
        (site.home / "go").touch()
        site.wait_for_status(job_id, "completed")
        site.check_that_jobs_start_soon()
        assert len(site.pids()) == 1
        assert worker.stop() == 0


def test_every_loop_of_a_worker_outlives_a_short_statement_timeout_and_a_lock(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A time limit that the platform sets, and somebody who locks the table: a loop that ended with it would be missed much later."""
    site.server.execute("CREATE ROLE limited SUPERUSER LOGIN")
    site.server.execute("ALTER ROLE limited SET statement_timeout = '50ms'")
    monkeypatch.setenv("ONWARD_URL", site.server.url.replace("postgres@", "limited@"))
    monkeypatch.setenv("ONWARD_PRUNE", "1s")
    old = site.app.enqueue(JOBS["plain"], 1).id
    late = site.app.enqueue(JOBS["plain"], 1, delay="1h").id
    with site.work(processes=1) as worker:
        site.wait_for_status(old, "completed")
        site.wait_for(lambda: site.listeners() == 1, "it listened")
        with locked(site) as holder:
            for loop in ("producer", "sweeper", "pruner"):
                site.wait_for(lambda: has_failed(site, worker, loop), f"the {loop} failed")  # noqa: B023 - called at once
            # For the sweeper, a job of a worker that is gone; for the pruner, one that ended a year ago.
            holder.execute(
                "UPDATE onward.jobs SET status = 'in_progress', fence = 1, attempts = 1, lease_owner = 'gone', "
                "scheduled_at = created_at, lease_until = now() - interval '1 hour' WHERE id = %s",
                [late],
            )
            holder.execute("UPDATE onward.jobs SET finished_at = now() - interval '1 year' WHERE id = %s", [old])
        site.wait_for_status(late, "completed")
        site.wait_for(lambda: site.one("SELECT count(*) FROM onward.jobs WHERE id = %s", old) == 0, "the pruner lived on")

        # The heartbeat has something to do only while a job runs; a sweep waits for it, so this is a case of its own.
        job_id = site.app.enqueue(JOBS["until_told_at_leisure"], 1).id
        site.wait_for_start(job_id)
        with locked(site):
            site.wait_for(lambda: has_failed(site, worker, "heartbeat"), "the heartbeat failed")
        until = site.one("SELECT lease_until FROM onward.jobs WHERE id = %s", job_id)
        site.wait_for(lambda: site.one("SELECT lease_until > %s FROM onward.jobs WHERE id = %s", until, job_id), "the heartbeat lived on")
        (site.home / "go").touch()
        site.wait_for_status(job_id, "completed")
        site.check_that_jobs_start_soon()
        assert len(site.pids()) == 1
        assert worker.stop() == 0
    assert site.one("SELECT fence FROM onward.jobs WHERE id = %s", job_id) == 1


@contextmanager
def locked(site: Site) -> Iterator[psycopg.Connection[Any]]:
    """Nobody else gets at the jobs."""
    with psycopg.connect(site.server.url) as holder:
        holder.execute("LOCK TABLE onward.jobs IN ACCESS EXCLUSIVE MODE")
        yield holder


def has_failed(site: Site, worker: WorkerProcess, loop: str) -> bool:
    """Wakes the producer, which would else rely on notifications and rest for long."""
    site.server.execute("SELECT pg_notify('onward', 'default')")
    return any(f"{loop} failed" in line for line in worker.errors)
