"""Who may read and write the store: the mode of a SQLite file, and what a role of Postgres with fewer rights can do."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from onward.clock import SystemClock
from onward.driver import Store
from onward.drivers import connect
from onward.errors import StoreError, StoreUnavailable
from onward.inspection import QUESTIONS, JobFilter
from onward.outcome import Completed
from onward.testing.conformance.steps import claim
from onward.testing.factories import make_new_job
from onward.turn import Settlement
from tests.drivers.tables import PostgresTables, everything

SECRET_COLUMNS = {"payload", "result", "progress", "metadata"}


def test_a_new_file_is_its_users_alone_whatever_the_umask(tmp_path: Path) -> None:
    """It holds payloads, and whoever writes into it chooses what runs. The files beside it hold the same."""
    before = os.umask(0)
    try:
        with_store = connect(f"sqlite:///{tmp_path}/jobs.db", clock=SystemClock())
        with_store.enqueue([make_new_job()])
        found = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
        with_store.close()
    finally:
        os.umask(before)
    assert found.keys() >= {"jobs.db", "jobs.db-wal", "jobs.db-shm"}
    assert set(found.values()) == {0o600}


def test_a_link_that_waits_where_the_file_is_to_be_made_is_not_written_through(tmp_path: Path) -> None:
    """Whoever may write into the directory could otherwise have a file of ours made anywhere."""
    elsewhere = tmp_path / "elsewhere"
    (tmp_path / "jobs.db").symlink_to(elsewhere)
    store = connect(f"sqlite:///{tmp_path}/jobs.db", clock=SystemClock())
    with pytest.raises(StoreError):
        store.enqueue([make_new_job()])
    store.close()
    assert not elsewhere.exists()


class Roles:
    """Roles of a server, with rights in one schema, gone after the test."""

    def __init__(self, url: str) -> None:
        self.place, _, self.schema = url.partition("?schema=")
        self.tables = PostgresTables(self.place, self.schema)
        self._made: list[str] = []

    def make(self, *grants: str) -> Store:
        """A store whose role has these rights; ``{schema}`` is quoted."""
        name = f"onward_test_{secrets.token_hex(6)}"
        with psycopg.connect(self.place, autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(name)))
            self._made.append(name)
            for grant in grants:
                text = grant.replace("{schema}", f'"{self.schema}"')
                connection.execute(f'GRANT {text} TO "{name}"'.encode())
        return connect(f"{self.place.replace('postgres@', f'{name}@')}?schema={self.schema}", clock=SystemClock())

    def close(self) -> None:
        with psycopg.connect(self.place, autocommit=True) as connection:
            for name in self._made:
                connection.execute(sql.SQL("DROP OWNED BY {}").format(sql.Identifier(name)))
                connection.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))


@pytest.fixture
def roles(postgres_schema: str) -> Iterator[Roles]:
    owner = connect(postgres_schema, clock=SystemClock(), migrate=True)
    owner.enqueue([make_new_job(payload="precious", key="k", owner="alice")])
    owner.close()
    made = Roles(postgres_schema)
    yield made
    made.close()


def writes(store: Store, job_id: str) -> list[Callable[[], Any]]:
    """Every verb that changes something."""
    return [
        lambda: store.enqueue([make_new_job()]),
        lambda: claim(store),
        lambda: store.cancel(job_id),
        lambda: store.run_now(job_id),
        lambda: store.delete(job_id),
    ]


READ = ("USAGE ON SCHEMA {schema}", "SELECT ON ALL TABLES IN SCHEMA {schema}")


def test_a_reader_sees_all_and_changes_nothing(roles: Roles) -> None:
    """For a person who looks, and for what counts: a database's own rights are the wall, not our code."""
    before = everything(roles.tables)
    reader = roles.make(*READ)
    try:
        (job,) = reader.find(JobFilter())
        assert reader.count(JobFilter()) == 1
        assert {reader.answer(question).question for question in QUESTIONS} == set(QUESTIONS)
        for write in writes(reader, job.id):
            with pytest.raises(StoreUnavailable, match="may not do this"):
                write()
        assert "rights" in [found.name for found in reader.examine() if found.level == "error"]  # it is told that it may not work
        assert reader.recover("host:1:x", ()).requeued == ()  # nothing was held, so that nothing is refused
        reader.migrate()  # as above
    finally:
        reader.close()
    assert everything(roles.tables) == before


def test_a_worker_needs_no_more_than_its_rows(roles: Roles) -> None:
    """Neither the tables nor the schema are its own, so that a worker that is taken over cannot change them."""
    worker = roles.make("USAGE ON SCHEMA {schema}", "SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema}")
    try:
        worker.enqueue([make_new_job()])
        claims = claim(worker, 2)
        assert len(worker.turn([Settlement(claim=taken, outcome=Completed()) for taken in claims]).settled) == 2
        assert worker.sweep().requeued == ()
        worker.delete(claims[0].id)
        assert "rights" not in [found.name for found in worker.examine() if found.level == "error"]
    finally:
        worker.close()


def test_a_role_without_rights_learns_nothing(roles: Roles) -> None:
    """Not even how many jobs there are; and what it is told names no row."""
    before = everything(roles.tables)
    stranger = roles.make()
    try:
        for ask in (lambda: stranger.find(JobFilter()), lambda: stranger.count(JobFilter()), *writes(stranger, "x")):
            with pytest.raises(StoreError) as refused:
                ask()
            assert "precious" not in str(refused.value)
            assert "alice" not in str(refused.value)
    finally:
        stranger.close()
    assert everything(roles.tables) == before


def test_the_standing_questions_need_no_column_that_may_hold_secrets(roles: Roles) -> None:
    """Somebody can be given the numbers without the payloads: what ``onward stats --sql`` prints runs for who may not see them."""
    columns = roles.tables.rows(
        f"SELECT column_name FROM information_schema.columns WHERE table_schema = '{roles.schema}' AND table_name = 'jobs'"
    )
    allowed = ", ".join(f'"{name}"' for (name,) in columns if name not in SECRET_COLUMNS)
    assert len(allowed.split(", ")) == len(columns) - len(SECRET_COLUMNS)
    others = ", ".join(f"{{schema}}.{table}" for table in ("keys", "history", "rollups", "schema_version"))
    counter = roles.make("USAGE ON SCHEMA {schema}", f"SELECT ({allowed}) ON {{schema}}.jobs", f"SELECT ON {others}")
    try:
        name = counter.url.partition("://")[2].partition("@")[0]
        with psycopg.connect(roles.place.replace("postgres@", f"{name}@"), autocommit=True) as connection:
            for question in QUESTIONS:
                connection.execute(counter.question_sql(question).encode())
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(f'SELECT payload FROM "{roles.schema}".jobs'.encode())
        with pytest.raises(StoreUnavailable, match="may not do this"):
            counter.find(JobFilter())
    finally:
        counter.close()
