"""A worker and its supervisor on a Postgres that asks for a password: what they are told, what they show, and what a refusal does."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest

from onward.app import Onward
from onward.status import Status
from tests.postgres_wheel import OwnServer
from tests.worker.process_app import JOBS
from tests.worker.test_processes import PATIENCE, Site, read_until

PASSWORD = "sesame: /?#@"
"""With characters that have a meaning in a URL."""
ASKS_FOR_PASSWORDS = "host all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n"


class GuardedSite(Site):
    """A store in a database whose owner has to give a password, which only the URL knows."""

    def __init__(self, folder: Path, server: OwnServer) -> None:
        self.server = server
        self.url = self.url_of()
        self.effects = folder / "effects.log"
        self.effects.touch()
        self.app = Onward(self.url, jobs=JOBS.values(), migrate=True)
        self.app.store.open()
        self.workers: list[subprocess.Popen[str]] = []

    def url_of(self, password: str = PASSWORD, *, role: str = "shop", database: str = "shop") -> str:
        return f"postgresql://{role}:{quote(password, safe='')}@127.0.0.1:{self.server.port}/{database}"

    def change_password(self, password: str) -> None:
        """Change it, and end every connection that was made with the one before."""
        self.server.execute(f"ALTER ROLE shop PASSWORD '{password}'")
        self.server.end_connections()


@pytest.fixture
def guarded(private_postgres: OwnServer, tmp_path: Path) -> Iterator[GuardedSite]:
    rules = private_postgres.folder / "data" / "pg_hba.conf"
    before = rules.read_text()
    rules.write_text(ASKS_FOR_PASSWORDS)
    private_postgres.restart()
    private_postgres.execute(f"CREATE ROLE shop LOGIN PASSWORD '{PASSWORD}'")
    private_postgres.execute("CREATE DATABASE shop OWNER shop")
    site = GuardedSite(tmp_path, private_postgres)
    try:
        yield site
    finally:
        site.close()
        rules.write_text(before)
        private_postgres.restart()


@pytest.fixture(autouse=True)
def no_password_from_elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("PGPASSWORD", raising=False)
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "none"))


def command_lines() -> dict[int, str]:
    """The command line of every process, as anybody on the machine can read it."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            found[int(folder.name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
    return found


def test_the_password_reaches_the_processes_and_no_command_line(guarded: GuardedSite) -> None:
    """Those of a killed process are taken back with it as well; ``ps`` shows the command lines of everybody to everybody."""
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(guarded.url_of("wrong"))
    job_id = guarded.enqueue("first_try_waits")
    worker = guarded.start(processes=2, sweep="1h")
    guarded.wait_for_line("start")
    shown = command_lines()
    assert worker.pid in shown
    assert guarded.pids()[0] in shown
    assert "worker_process" in shown[guarded.pids()[0]]
    for text in (PASSWORD, quote(PASSWORD, safe=""), "sesame"):
        assert [line for line in shown.values() if text in line] == []
    os.kill(guarded.pids()[0], signal.SIGKILL)
    job = guarded.wait_until(job_id, Status.COMPLETED)
    assert (job.fence, job.lost_leases) == (2, 1)


@pytest.mark.parametrize("options", [{}, {"drain": True}])
@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"password": "wr0ng"}, 'password authentication failed for user "shop"'),
        ({"role": "nobody"}, 'password authentication failed for user "nobody"'),
        ({"database": "shup"}, 'database "shup" does not exist'),
    ],
)
def test_a_log_in_that_is_refused_at_the_start_ends_the_command(
    guarded: GuardedSite, wrong: dict[str, str], words: str, options: dict[str, bool]
) -> None:
    """No waiting mends what is written wrongly, and a worker that tries for ever looks alive to whoever started it."""
    guarded.url = guarded.url_of(**wrong)
    worker = guarded.start(processes=2, **options)
    assert worker.wait(PATIENCE) == 3
    assert worker.stderr is not None
    errors = [line for line in worker.stderr.read().splitlines() if " INFO " not in line]
    assert len(errors) == 1, errors
    assert errors[0].startswith("Error: postgresql://")
    assert words in errors[0]
    assert "wr0ng" not in errors[0]
    assert "sesame" not in errors[0]


def test_a_role_that_may_not_log_in_ends_the_command(guarded: GuardedSite) -> None:
    """The server knows it, and lets nobody in with it; so does a rule of the server that names nobody from here."""
    guarded.server.execute("ALTER ROLE shop NOLOGIN")
    worker = guarded.start()
    assert worker.wait(PATIENCE) == 3
    assert worker.stderr is not None
    assert 'role "shop" is not permitted to log in' in worker.stderr.read()
    guarded.server.execute("ALTER ROLE shop LOGIN")
    rules = guarded.server.folder / "data" / "pg_hba.conf"
    rules.write_text(ASKS_FOR_PASSWORDS.splitlines(keepends=True)[0])
    guarded.server.restart()
    worker = guarded.start()
    assert worker.wait(PATIENCE) == 3
    assert worker.stderr is not None
    assert "no pg_hba.conf entry" in worker.stderr.read()


def test_a_log_in_that_is_refused_later_is_tried_again(guarded: GuardedSite) -> None:
    """A password that is changed reaches the server before the workers; once it fits again they go on, and so does a new process."""
    worker = guarded.start(processes=1)
    first = guarded.enqueue("first_try_waits")
    guarded.wait_for_line("start")
    guarded.change_password("another")
    read_until(worker, 'password authentication failed for user "shop"')
    os.kill(guarded.pids()[0], signal.SIGKILL)
    read_until(worker, "ended with exit code 3: a new one starts in")
    assert worker.poll() is None
    guarded.change_password(PASSWORD)
    second = guarded.enqueue("quick", 2)
    guarded.wait_until(second, Status.COMPLETED)
    guarded.wait_until(first, Status.COMPLETED)
    assert worker.poll() is None
