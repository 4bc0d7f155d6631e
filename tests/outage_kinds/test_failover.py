"""The server is lost, and its standby takes over its address: what was accepted is there, as far as the replication promised that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from onward import Onward
from tests.acceptance.outage_app import JOBS
from tests.acceptance.outage_site import Load, Site
from tests.postgres_server import NoPostgres, do_without
from tests.postgres_wheel import OwnServer
from tests.tcp_proxy import TcpProxy

SETTINGS = {"wal_level": "replica", "max_wal_senders": "4", "wal_keep_size": "'256MB'"}
STREAMS = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming' AND sync_state = '{}'"


@pytest.fixture
def primary() -> Iterator[OwnServer]:
    try:
        server = OwnServer.make()
    except NoPostgres as reason:
        do_without(reason)
    for name, value in SETTINGS.items():
        server.execute(f"ALTER SYSTEM SET {name} = {value}")
    server.restart()
    yield server
    server.close()


@pytest.fixture
def site(primary: OwnServer, tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path, primary)
    yield made
    made.app.close()


@pytest.fixture
def standby(primary: OwnServer, site: Site) -> Iterator[OwnServer]:
    """It follows, and whoever commits at the primary need not wait for it."""
    server = OwnServer.make(standby_of=primary)
    site.wait_for(lambda: site.one(STREAMS.format("async")) == 1, "the standby followed")
    yield server
    server.close()


def take_over(site: Site, standby: OwnServer, proxy: TcpProxy) -> None:
    """The primary is gone for good, and its address leads to the standby."""
    standby.promote()
    proxy.lead_to("127.0.0.1", standby.port)
    site.server = standby


@pytest.mark.timeout(120)
def test_a_synchronous_standby_takes_over_without_a_loss(
    primary: OwnServer, site: Site, standby: OwnServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under load, with workers: the same processes go on; what was accepted is completed once, what was refused is not there."""
    primary.execute("ALTER SYSTEM SET synchronous_standby_names = 'standby'")
    primary.execute("SELECT pg_reload_conf()")
    site.wait_for(lambda: site.one(STREAMS.format("sync")) == 1, "every commit waited for the standby")
    with TcpProxy.before(primary.url) as proxy:
        url = proxy.through(primary.url)
        monkeypatch.setenv("ONWARD_URL", url)
        with site.work() as worker, Load(Onward(url, jobs=JOBS.values())) as load:
            site.wait_for(lambda: len(site.pids()) == 2 and len(load.accepted) > 100, "both processes worked")
            before = site.pids()
            primary.stop("immediate")
            take_over(site, standby, proxy)
            starts, accepted = len(site.starts()), len(load.accepted)
            site.wait_for(lambda: len(load.accepted) > accepted + 50, "jobs were accepted by the new server")
            site.wait_for(lambda: site.pids(after=starts) == before, "the same processes worked again")
            load.end()
            site.wait_for(lambda: site.one("SELECT count(*) FROM onward.jobs WHERE status <> 'completed'") == 0, "all were completed")
            assert worker.stop() == 0

    stored = site.column("SELECT id FROM onward.jobs")
    assert set(load.accepted) <= set(stored)
    assert not set(load.refused) & set(stored)
    assert Counter(site.column("SELECT job_id FROM completions")) == Counter(stored)
    assert Counter(site.column("SELECT job_id FROM effects")) == Counter(site.column("SELECT id FROM onward.jobs WHERE type = 'write'"))


@pytest.mark.timeout(120)
def test_an_asynchronous_standby_loses_what_it_had_not_received_and_nothing_else(
    primary: OwnServer, site: Site, standby: OwnServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit that the documents name. Who still knows the id of a job may ask for it again, and workers go on with what is there."""
    with TcpProxy.before(primary.url) as proxy:
        url = proxy.through(primary.url)
        monkeypatch.setenv("ONWARD_URL", url)
        app = Onward(url, jobs=JOBS.values())
        received = [app.enqueue(JOBS["plain"], number, delay="1h").id for number in range(1, 11)]
        followed = "SELECT bool_and(replay_lsn >= %s::pg_lsn) FROM pg_stat_replication"
        written = site.one("SELECT pg_current_wal_lsn()::text")
        site.wait_for(lambda: site.one(followed, written), "the standby had received them")
        standby.stop()
        missed = [app.enqueue(JOBS["plain"], number, delay="1h").id for number in range(11, 21)]
        with site.work() as worker:
            site.wait_for(lambda: site.listeners() == 2, "both processes listened")
            primary.stop("immediate")
            standby.start()
            take_over(site, standby, proxy)
            assert site.column("SELECT id FROM onward.jobs ORDER BY id") == received
            again = app.enqueue(JOBS["plain"], 11, id=missed[0])
            assert again.is_new
            for job_id in received:
                app.run_now(job_id)
            for job_id in (*received, missed[0]):
                site.wait_for_status(job_id, "completed")
            assert worker.stop() == 0
        app.close()
