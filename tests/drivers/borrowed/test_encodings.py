"""Callers whose connections speak another encoding than UTF-8: jobs hold any text all the same, and the encoding stays theirs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest
from psycopg import conninfo

from onward.clock import SystemClock
from onward.drivers import connect
from onward.errors import DuplicateJob, InvalidPayload, ValueRefused
from onward.inspection import JobFilter
from onward.outcome import Completed
from onward.status import Status
from onward.testing.factories import make_new_job
from onward.turn import Settlement
from tests.drivers.borrowed.callers import Asyncpg, Caller, Place, Psycopg, Psycopg2, PsycopgAsync
from tests.drivers.borrowed.conftest import Database
from tests.drivers.borrowed.sqlalchemy_callers import AsyncpgSession, Psycopg2Session
from tests.drivers.borrowed.test_together import claim
from tests.postgres_server import Server

TEXT = "é – 漢字 🧭 \x81 'it\\u00e9s' 100 % :name %(id)s"
"""What is in LATIN1, in WIN1252, in neither, in no plane of 16 bits; and what a text that is taken apart would stumble over."""

KINDS: dict[str, type[Caller]] = {
    "psycopg": Psycopg,
    "psycopg, awaited": PsycopgAsync,
    "psycopg2": Psycopg2,
    "asyncpg": Asyncpg,
    "SQLAlchemy Session on psycopg2": Psycopg2Session,
    "SQLAlchemy AsyncSession on asyncpg": AsyncpgSession,
}


@pytest.fixture(params=["LATIN1", "WIN1252", "SQL_ASCII"])
def encoding(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=list(KINDS))
def foreign(postgres_here: Database, request: pytest.FixtureRequest, encoding: str) -> Iterator[Caller]:
    """A caller with this encoding, as its library is told of it."""
    caller = speaking(postgres_here.place, KINDS[request.param], encoding)
    yield caller
    caller.close()


def speaking(place: Place, kind: type[Caller], encoding: str) -> Caller:
    assert not isinstance(place, str)
    if "asyncpg" not in f"{kind.__name__} {getattr(kind, 'dialect', '')}".lower():
        return kind({**place, "client_encoding": encoding})
    caller = kind(place)
    caller.begin()
    caller.run(f"SET client_encoding TO '{encoding}'")
    caller.commit()
    return caller


def still_speaks(caller: Caller, encoding: str) -> bool:
    caller.run(f"DO $$ BEGIN ASSERT current_setting('client_encoding') = '{encoding}'; END $$")
    return True


def test_every_text_arrives_and_comes_back(postgres_here: Database, foreign: Caller, encoding: str) -> None:
    """Payload, key and owner; enqueued, found again, read, cancelled and queued again."""
    store = postgres_here.store
    asked = make_new_job(key=TEXT, owner=TEXT, payload={"text": TEXT}, expires=timedelta(days=1))
    foreign.begin()
    assert foreign.enqueue(store, asked)[0].is_new
    assert foreign.enqueue(store, asked, make_new_job(key=TEXT, owner=TEXT, payload={"text": TEXT}))[1].id == asked.id
    found = foreign.verb(store, "get", asked.id)
    assert foreign.verb(store, "cancel", asked.id).status is Status.CANCELLED
    assert foreign.verb(store, "retry", asked.id).payload == asked.payload
    assert still_speaks(foreign, encoding)
    foreign.commit()
    stored = store.get(asked.id)
    assert (stored.payload, stored.idempotency_key, stored.owner) == (asked.payload, TEXT, TEXT)
    assert (found.payload, found.idempotency_key, found.owner) == (asked.payload, TEXT, TEXT)


def test_a_run_is_confirmed_and_completed(postgres_here: Database, foreign: Caller) -> None:
    """With a result and children of any text."""
    store = postgres_here.store
    store.enqueue([make_new_job(payload=TEXT)])
    (claimed,) = claim(store)
    foreign.begin()
    within, child = foreign.within(store), make_new_job("later", key=TEXT, payload=TEXT)
    foreign.call(within.confirm(claimed))
    foreign.call(within.settle(Settlement(claim=claimed, outcome=Completed(f'"{TEXT[:5]}"'), children=(child,))))
    foreign.commit()
    assert store.get(claimed.id).result == f'"{TEXT[:5]}"'
    assert store.get(child.id).payload == child.payload


def test_the_encoding_is_the_callers_also_behind_an_error(postgres_here: Database, foreign: Caller, encoding: str) -> None:
    """A refused job is undone alone, and so is what was set for it."""
    store = postgres_here.store
    store.enqueue([make_new_job(key=TEXT)])
    foreign.begin()
    foreign.run("INSERT INTO sales VALUES (1)")
    with pytest.raises(DuplicateJob):
        foreign.enqueue(store, make_new_job(key=TEXT, on_duplicate="raise"))
    assert still_speaks(foreign, encoding)
    with pytest.raises((InvalidPayload, ValueRefused), match="surrogate"):
        foreign.enqueue(store, make_new_job(key="\ud800"))
    assert still_speaks(foreign, encoding)
    foreign.commit()
    assert store.count(JobFilter()) == 1


def test_the_callers_own_texts_stay_what_they_are(postgres_here: Database, encoding: str) -> None:
    """Written and read on the same connection, before and behind a job."""
    if encoding == "SQL_ASCII":
        pytest.skip("psycopg gives bytes there, as it always did")
    caller = speaking(postgres_here.place, Psycopg, encoding)
    try:
        for _ in range(2):
            row = caller.connection.execute("SELECT %s::text, octet_length(%s::text)", ["é", "é"]).fetchone()
            assert row == ("é", 2)
            caller.enqueue(postgres_here.store, make_new_job(payload=TEXT))
    finally:
        caller.close()


@pytest.mark.parametrize("kind", [Psycopg, PsycopgAsync])
def test_in_a_pipeline_as_well(postgres_here: Database, kind: type[Caller], encoding: str) -> None:
    """There, the client learns late of what the server has set."""
    caller = speaking(postgres_here.place, kind, encoding)
    asked = make_new_job(key=TEXT, payload=TEXT)
    store = postgres_here.store

    async def in_pipeline() -> Any:
        async with caller.connection.pipeline():
            await caller.connection.execute("INSERT INTO sales VALUES (1)")
            await caller.within(store).enqueue([asked])
            found = await caller.within(store).get(asked.id)
        await caller.connection.commit()
        return found

    try:
        if kind.is_awaited:
            found = caller.call(in_pipeline())
        else:
            with caller.connection.pipeline():
                caller.run("INSERT INTO sales VALUES (1)")
                caller.enqueue(store, asked)
                found = caller.verb(store, "get", asked.id)
            caller.commit()
    finally:
        caller.close()
    assert found.payload == asked.payload == store.get(asked.id).payload


def test_the_stores_own_connections_speak_utf_8(postgres_here: Database, monkeypatch: pytest.MonkeyPatch, encoding: str) -> None:
    """Whatever the URL, the environment or the application's own statements ask for."""
    monkeypatch.setenv("PGCLIENTENCODING", encoding)
    url = f"{postgres_here.url}&client_encoding={encoding}&options=-c%20client_encoding%3D{encoding}"
    with closing(connect(url, clock=SystemClock())) as store:
        (accepted,) = store.enqueue([make_new_job(key=TEXT, payload=TEXT)])
        assert store.get(accepted.id).idempotency_key == TEXT
        with store.transaction() as connection:
            connection.execute(f"SET client_encoding TO '{encoding}'".encode())
            (joined,) = store.within(connection).enqueue([make_new_job(payload=TEXT)])
            assert connection.info.parameter_status("client_encoding") == encoding
        assert store.get(joined.id).payload == store.get(accepted.id).payload


def test_a_text_that_the_database_cannot_hold_is_refused_as_that(postgres: Server, postgres_database: str) -> None:
    """The caller's transaction goes on, and what is in the database's encoding is stored."""
    name = f"{conninfo.conninfo_to_dict(postgres_database)['dbname']}_latin"
    postgres.execute(f"CREATE DATABASE \"{name}\" TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'")
    try:
        with closing(connect(postgres.database(name), clock=SystemClock(), migrate=True)) as store:
            for kind in (Psycopg, Psycopg2, Asyncpg):
                for encoding in ("UTF8", "LATIN1"):
                    caller = speaking(conninfo.conninfo_to_dict(postgres.database(name)), kind, encoding)
                    caller.begin()
                    with pytest.raises(ValueRefused, match="a value cannot be stored"):
                        caller.enqueue(store, make_new_job(payload=TEXT))
                    (accepted,) = caller.enqueue(store, make_new_job(payload="é"))
                    caller.commit()
                    caller.close()
                    assert store.get(accepted.id).payload == '"é"'
    finally:
        postgres.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
