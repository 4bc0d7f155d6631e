"""The tests' own Postgres: found or started, shared, emptied, and never left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import psycopg
import pytest

from tests.postgres_databases import PREFIX, Databases
from tests.postgres_server import ASKED, POSTGRES_SERVERS, NoPostgres, Server, do_without, find_server
from tests.postgres_wheel import WHEEL_RELEASE, OwnServer, share_server

ROOT = Path(__file__).parents[1]
PATIENCE = 20.0


def wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def is_up(url: str) -> bool:
    try:
        psycopg.connect(url, connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True


def database_of(url: str) -> str:
    return url.partition("?schema=")[0]


def make_tables(url: str) -> None:
    schema = url.rpartition("schema=")[2]
    with psycopg.connect(database_of(url), autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}".encode())
        for table in ("jobs", "schema_version"):
            connection.execute(f"CREATE TABLE {schema}.{table} AS SELECT 1 AS number".encode())


def rows(url: str, table: str) -> int:
    with psycopg.connect(database_of(url)) as connection:
        counted = connection.execute(f"SELECT count(*) FROM {url.rpartition('schema=')[2]}.{table}".encode()).fetchone()
        assert counted is not None
        return int(counted[0])


# -- servers -----------------------------------------------------------------------------------------------------------


def test_two_releases_of_postgres_are_tested_everywhere(find_postgres: Callable[[str], Server]) -> None:
    """What one release accepts another may not."""
    ours, wheels = (find_postgres(name) for name in POSTGRES_SERVERS)
    assert wheels.release == WHEEL_RELEASE
    assert ours.url != wheels.url
    for server in (ours, wheels):
        assert server.execute("SELECT current_setting('server_version_num')::int / 10000") == [(server.release,)]


def test_a_server_that_is_named_and_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """To take another one in its place would test what nobody asked for."""
    monkeypatch.setenv(ASKED, "postgresql://postgres@127.0.0.1:1/postgres")
    with pytest.raises(NoPostgres, match=ASKED):
        find_server()


@pytest.mark.parametrize("asked", [{"CI": "true"}, {ASKED: "postgresql://there/postgres"}, {}])
def test_a_missing_server_fails_a_test_where_one_is_promised_and_else_skips_it(
    asked: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A skip in CI would say that Postgres was tested when it was not."""
    for name in ("CI", ASKED):
        monkeypatch.delenv(name, raising=False)
    for name, value in asked.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(pytest.fail.Exception if asked else pytest.skip.Exception, match="no wheel for this machine"):
        do_without(NoPostgres("no wheel for this machine"))


def test_a_private_server_comes_back_on_its_port_with_what_was_committed(private_postgres: OwnServer) -> None:
    """Also after an end without a checkpoint: so the tests of outages may blame the store for what is missing."""
    port = private_postgres.port
    private_postgres.execute("CREATE TABLE kept AS SELECT 1 AS number")
    for mode in ("fast", "immediate"):
        private_postgres.stop(mode)
        assert not is_up(private_postgres.url)
        private_postgres.start()
        assert private_postgres.execute("SELECT number FROM kept") == [(1,)]
    assert private_postgres.port == port
    assert "not properly shut down" in private_postgres.log


def test_a_private_server_is_as_new_for_each_test(private_postgres: OwnServer) -> None:
    """What one test leaves there, also a server that is down, must not be found by the next."""
    private_postgres.execute("CREATE TABLE left_over()")
    private_postgres.execute("CREATE DATABASE onward_left_over")
    private_postgres.execute("CREATE ROLE left_over LOGIN")
    private_postgres.execute("ALTER SYSTEM SET work_mem = '77MB'")
    private_postgres.stop("immediate")
    (private_postgres.folder / "data" / "standby.signal").touch()
    private_postgres.renew()
    assert private_postgres.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == [(0,)]
    assert private_postgres.execute("SELECT count(*) FROM pg_database") == [(3,)]
    assert private_postgres.execute("SELECT count(*) FROM pg_roles WHERE rolcanlogin") == [(1,)]
    assert private_postgres.execute("SELECT current_setting('work_mem') = '77MB', pg_is_in_recovery()") == [(False, False)]


def test_every_connection_of_a_private_server_can_be_ended(private_postgres: OwnServer) -> None:
    with psycopg.connect(private_postgres.url) as connection:
        assert private_postgres.end_connections() == 1
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")


def test_processes_of_a_run_share_a_server_until_the_last_one_ends(tmp_path: Path) -> None:
    """Starting one for each would cost a second each, and ending it with the first would break the others."""
    one, two = share_server(tmp_path, WHEEL_RELEASE), share_server(tmp_path, WHEEL_RELEASE)
    assert one.url == two.url
    one.close()
    assert is_up(two.url)
    two.close()
    wait_for(lambda: not two.folder.exists())
    assert not is_up(two.url)
    three = share_server(tmp_path, WHEEL_RELEASE)
    assert is_up(three.url)
    three.close()


HOLDER = """
import signal
from tests.postgres_wheel import OwnServer
server = OwnServer.make()
print(server.folder, server.url, flush=True)
signal.pause()
"""


def test_a_server_does_not_outlive_a_run_that_is_killed() -> None:
    """Nothing of the killed process runs any more, so another must see to it."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "src")))}
    command = [sys.executable, "-c", HOLDER]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True) as holder:
        assert holder.stdout is not None
        folder, url = holder.stdout.readline().split()
        assert is_up(url)
        os.killpg(holder.pid, signal.SIGKILL)
    wait_for(lambda: not Path(folder).exists())
    assert not is_up(url)


def test_a_server_whose_keeper_was_killed_as_well_is_ended_by_the_next_run() -> None:
    """Where everything is killed at once, nothing can tidy up behind it but what comes later."""
    left = OwnServer.make()
    (keeper,) = [one for one in psutil.process_iter(["cmdline"]) if str(left.folder) in (one.info["cmdline"] or ())]
    keeper.kill()
    wait_for(lambda: not keeper.is_running() or keeper.status() == psutil.STATUS_ZOMBIE)
    os.utime(left.folder / "users.lock", (0, 0))
    used = OwnServer.make()
    assert is_up(left.url)
    left.close()
    os.utime(used.folder / "users.lock", (0, 0))
    OwnServer.make().close()
    wait_for(lambda: not left.folder.exists())
    assert not is_up(left.url)
    assert is_up(used.url)
    used.close()


# -- databases ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def databases(postgres: Server) -> Iterator[Databases]:
    with Databases(postgres) as made:
        yield made


def test_a_database_of_a_test_is_empty_and_goes_away_though_somebody_is_connected(databases: Databases) -> None:
    """A test that fails leaves connections open."""
    url = databases.create()
    with psycopg.connect(url, autocommit=True) as connection:
        assert connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone() == (0,)
        databases.drop(url)
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    assert not is_up(url)


def test_emptied_tables_keep_their_form_and_lose_their_rows(databases: Databases) -> None:
    """What says which version the tables have belongs to their form."""
    url = databases.emptied()
    make_tables(url)
    assert databases.emptied() == url
    assert (rows(url, "jobs"), rows(url, "schema_version")) == (0, 1)


@pytest.mark.parametrize("verb", ["emptied", "drop_schema"])
def test_an_open_transaction_that_a_test_left_holds_nobody_up(databases: Databases, verb: str) -> None:
    """One failed test must not make the next ones fail, nor hang."""
    url = databases.emptied()
    make_tables(url)
    with psycopg.connect(database_of(url)) as left:
        left.execute(b"UPDATE onward_kept.jobs SET number = 2")
        databases.emptied() if verb == "emptied" else databases.drop_schema(url)
        left.close()


def test_what_a_killed_run_left_is_dropped_and_what_a_live_one_uses_is_not(databases: Databases, postgres: Server) -> None:
    """A server that is there already would fill up with what killed runs leave."""
    used = databases.create()
    left = f"{PREFIX}7fffffff_1"  # the one number that no run takes
    postgres.execute(f"CREATE DATABASE {left}")
    Databases(postgres).close()
    assert not is_up(postgres.database(left))
    assert is_up(used)
