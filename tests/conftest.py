"""Postgres for every folder of tests. Nothing is looked for or started before a test asks.

``make test`` uses the server that ``ONWARD_TEST_POSTGRES`` names, else one at the usual address, and one from a wheel beside it. Where
there is none, the tests that need one are skipped; with ``CI=true``, or where one is named, they fail.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.postgres_databases import Databases
from tests.postgres_server import POSTGRES_SERVERS, NoPostgres, Server, do_without, find_server
from tests.postgres_wheel import NEWEST, WHEEL_RELEASE, OwnServer, share_server


def pytest_configure() -> None:
    """A shell that starts the suite in the background has it ignore Ctrl-C, and so would all that it starts."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def find_postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Server]]:
    """``find_postgres("postgres-wheel")``: the server of that name. Skips the test if there is none."""
    base = tmp_path_factory.getbasetemp()
    run = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    found: dict[str, Server | NoPostgres] = {}
    shared: list[OwnServer] = []

    def look(name: str) -> Server:
        server = find_server() if name == "postgres" else None
        if server is None:
            # Where the machine has none, the second release of the wheel takes its place, so that two releases are tested there as well.
            shared.append(share_server(run, NEWEST if name == "postgres" else WHEEL_RELEASE))
            server = shared[-1].server
        return server

    def find(name: str) -> Server:
        assert name in POSTGRES_SERVERS
        if name not in found:
            try:
                found[name] = look(name)
            except NoPostgres as reason:
                found[name] = reason
        server = found[name]
        return server if isinstance(server, Server) else do_without(server)

    yield find
    for server in shared:
        server.close()


@pytest.fixture(scope="session")
def postgres_databases(find_postgres: Callable[[str], Server]) -> Iterator[Callable[[str], Databases]]:
    """``postgres_databases("postgres")``: makes databases and schemas on the server of that name."""
    made: dict[str, Databases] = {}

    def on(name: str) -> Databases:
        if name not in made:
            made[name] = Databases(find_postgres(name))
        return made[name]

    yield on
    for databases in made.values():
        databases.close()


@pytest.fixture
def emptied_postgres(postgres_databases: Callable[[str], Databases]) -> Callable[[str], str]:
    """``emptied_postgres("postgres")``: the URL of a store on the server of that name whose tables are empty, if they are there yet."""
    return lambda name: postgres_databases(name).emptied()


@pytest.fixture
def postgres(find_postgres: Callable[[str], Server]) -> Server:
    """The Postgres of this machine, else the wheel's."""
    return find_postgres("postgres")


@pytest.fixture
def postgres_database(postgres_databases: Callable[[str], Databases]) -> Iterator[str]:
    """The URL of an empty database, dropped after the test whoever is connected with it."""
    url = postgres_databases("postgres").create()
    yield url
    postgres_databases("postgres").drop(url)


@pytest.fixture
def postgres_schema(postgres_databases: Callable[[str], Databases]) -> Iterator[str]:
    """The URL of a store whose schema is not there yet, dropped after the test."""
    url = postgres_databases("postgres").new_schema()
    yield url
    postgres_databases("postgres").drop_schema(url)


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a store of its own, for any number of processes: on SQLite, then on Postgres."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'jobs.db'}"
    url: str = request.getfixturevalue("postgres_database")
    return url


@pytest.fixture(scope="session")
def _private_server() -> Iterator[OwnServer | NoPostgres]:
    try:
        server = OwnServer.make()
    except NoPostgres as reason:
        yield reason
        return
    yield server
    server.close()


@pytest.fixture
def private_postgres(_private_server: OwnServer | NoPostgres) -> OwnServer:
    """A server as good as new, which this test may stop, restart and break. It is the wheel's, and nobody else's meanwhile."""
    if isinstance(_private_server, NoPostgres):
        do_without(_private_server)
    _private_server.renew()
    return _private_server
