"""A connection ends between a commit and its answer, the one moment in which nobody can know: what is asked is done once all the same."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from onward import Onward, OutcomeUnknown
from onward.ids import new_id
from tests.acceptance.outage_app import JOBS
from tests.acceptance.outage_site import PATIENCE, Site
from tests.tcp_proxy import TO_CLIENT, TO_SERVER, TcpProxy

ALONE = b"AS waits"
CLAIM = b"FOR NO KEY UPDATE SKIP LOCKED"
COMMIT = b"COMMIT\0"
"""As libpq sends it: as a whole, for it is also the beginning of READ COMMITTED."""


@pytest.mark.parametrize("lost", [TO_SERVER, TO_CLIENT])
def test_an_enqueue_whose_commit_got_no_answer_can_be_repeated(site: Site, lost: str) -> None:
    """Whether the commit never arrived or its answer did not: the caller cannot tell, is told so, and has one job in the end."""
    job_id = new_id()
    with TcpProxy.before(site.server.url) as proxy, ThreadPoolExecutor(1) as thread:
        app = Onward(f"{proxy.through(site.server.url)}?prepare=off", jobs=JOBS.values())
        app.enqueue(JOBS["plain"], 1)
        proxy.silence_at(COMMIT, lost)
        asked = thread.submit(app.enqueue, JOBS["plain"], 2, id=job_id, delay="1ms")
        _lose(site, proxy, proxy.drop, job_id, lost)
        error = asked.exception(PATIENCE)
        assert isinstance(error, OutcomeUnknown)
        assert error.job_ids == (job_id,)
        assert app.enqueue(JOBS["plain"], 2, id=job_id, delay="1ms").id == job_id
        app.close()
    assert site.one("SELECT count(*) FROM onward.jobs") == 2


@pytest.mark.parametrize("lost", [TO_SERVER, TO_CLIENT])
def test_an_enqueue_of_one_statement_that_got_no_answer_is_repeated(site: Site, lost: str) -> None:
    """It has no commit of its own, and the id says whether it is stored already: nobody has to be told."""
    job_id = new_id()
    with TcpProxy.before(site.server.url) as proxy, ThreadPoolExecutor(1) as thread:
        app = Onward(f"{proxy.through(site.server.url)}?prepare=off", jobs=JOBS.values())
        app.enqueue(JOBS["plain"], 1)
        proxy.silence_at(ALONE, lost)
        asked = thread.submit(app.enqueue, JOBS["plain"], 2, id=job_id)
        _lose(site, proxy, proxy.reset, job_id, lost)
        assert asked.result(PATIENCE).id == job_id
        app.close()
    assert site.one("SELECT count(*) FROM onward.jobs") == 2


def _lose(site: Site, proxy: TcpProxy, end: Callable[[], object], job_id: str, lost: str) -> None:
    site.wait_for(lambda: proxy.is_silent, "it was sent")
    if lost == TO_CLIENT:
        site.wait_for(lambda: site.one("SELECT count(*) FROM onward.jobs WHERE id = %s", job_id) == 1, "it was committed")
    end()
    proxy.restore()


@pytest.mark.parametrize("lost", [TO_SERVER, TO_CLIENT])
@pytest.mark.parametrize("kind", ["until_told_at_leisure", "write_when_told"])
def test_a_completion_whose_commit_got_no_answer_is_stored_once(kind: str, lost: str, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it was stored, the job is done and must not run again; where it was not, nothing of it may be left."""
    job_id = site.app.enqueue(JOBS[kind], 1).id
    with TcpProxy.before(site.server.url) as proxy:
        monkeypatch.setenv("ONWARD_URL", f"{proxy.through(site.server.url)}?prepare=off")
        with site.work(processes=1, concurrency=1) as worker:  # who has no slot free looks for nothing, and has nothing to commit
            site.wait_for_start(job_id)
            proxy.silence_at(COMMIT, lost)
            (site.home / "go").touch()
            site.wait_for(lambda: proxy.is_silent, "the commit was sent")
            if lost == TO_CLIENT:
                site.wait_for_status(job_id, "completed")
            proxy.drop()
            proxy.restore()
            site.wait_for_status(job_id, "completed")
            site.check_that_jobs_start_soon()
            assert len(site.pids()) == 1
            assert worker.stop() == 0
    runs = [started for started, _ in site.starts()].count(job_id)
    assert runs == (2 if (kind, lost) == ("write_when_told", TO_SERVER) else 1)
    assert site.column("SELECT job_id FROM completions").count(job_id) == 1
    assert site.column("SELECT job_id FROM effects") == ([job_id] if kind == "write_when_told" else [])


def test_a_claim_whose_answer_was_lost_is_taken_up_by_its_worker(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The row says that the worker has the job, and the worker does not know: else it would wait until the lease has run out."""
    (site.home / "go").touch()
    with TcpProxy.before(site.server.url) as proxy:
        monkeypatch.setenv("ONWARD_URL", f"{proxy.through(site.server.url)}?prepare=off")
        job_id = site.app.enqueue(JOBS["until_told_at_leisure"], 1).id
        proxy.silence_at(CLAIM, TO_CLIENT)
        with site.work(processes=1) as worker:
            site.wait_for_status(job_id, "in_progress")
            assert site.starts() == []
            proxy.drop()
            proxy.restore()
            site.wait_for_status(job_id, "completed")
            assert worker.stop() == 0
    assert len(site.starts()) == 1
    assert site.server.execute("SELECT fence, lost_leases FROM onward.jobs WHERE id = %s", [job_id]) == [(1, 0)]
