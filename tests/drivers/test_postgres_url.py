"""What is written wrongly in a Postgres URL is said before anything is opened, or as soon as libpq reads it: a setting, not an outage."""

from __future__ import annotations

import pytest

from onward.clock import SystemClock
from onward.drivers import connect
from onward.drivers.postgres.driver import PostgresStore
from onward.errors import InvalidSetting


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("postgresql://h/d?shema=jobs", "shema= means nothing .*did you mean 'schema'"),
        ("postgresql://h/d?tiemout=5s", "tiemout= means nothing .*did you mean 'timeout'"),
        ("postgresql://h/d?sslmod=require", "sslmod= means nothing .*did you mean 'sslmode'"),
        ("postgresql://me@h/d?pasword=secret", "pasword= means nothing .*did you mean 'password'"),
        (
            "postgresql://h/d?color=red",
            "color= means nothing .*known are schema, timeout, connections, notify, prepare, durability, and those of libpq",
        ),
        ("postgresql://me:%zzsecret@h/d", "percent"),
        ("postgresql://me:secret@[::1/d", "IPv6"),
        ("postgresql://me:sec ret@h/d", "spaces"),
    ],
)
def test_a_misspelt_option_is_told_when_the_store_is_made(given: str, told: str) -> None:
    """And never its value, which may be a password."""
    with pytest.raises(InvalidSetting, match=told) as caught:
        connect(given, clock=SystemClock())
    assert "secret" not in str(caught.value)
    assert "sec ret" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_url_without_options_means_the_usual() -> None:
    """Another schema would be another store, and another timeout another patience."""
    store = connect("postgresql://h/d", clock=SystemClock())
    assert isinstance(store, PostgresStore)
    assert (store.schema, store._database.timeout) == ("onward", 5)
    store.close()


@pytest.mark.parametrize("given", ["postgresql://h/d?ssl=true", "postgresql:///d?host=/run/postgresql&port=5433", "postgresql://a,b/d"])
def test_what_libpq_takes_is_let_through(given: str) -> None:
    """Its own forms are many, and it knows them best."""
    connect(given, clock=SystemClock()).close()


@pytest.mark.parametrize(
    ("end", "told"),
    [
        (":abc/d", 'invalid integer value "abc" for connection option "port"'),
        (":99999/d", 'invalid port number: "99999"'),
        ("/d?connect_timeout=soon", "bad value for connect_timeout: 'soon'"),
        ("/d?sslmode=yes", 'invalid sslmode value: "yes"'),
        ("/d?target_session_attrs=write", 'invalid target_session_attrs value: "write"'),
        ("/d?service=nowhere", 'definition of service "nowhere" not found'),
    ],
)
def test_a_value_that_libpq_refuses_is_a_setting_too(end: str, told: str) -> None:
    """It reads them when it connects, and no server is needed for it."""
    store = connect(f"postgresql://me:secret@127.0.0.1{end}", clock=SystemClock())
    with pytest.raises(InvalidSetting) as caught:
        store.open()
    assert told in str(caught.value)
    assert "secret" not in str(caught.value)
    store.close()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("postgresql://h/d?shema=jobs", "ONWARD_LISTEN_URL.*shema= means nothing"),
        ("sqlite:///jobs.db", "ONWARD_LISTEN_URL.*postgresql://"),
    ],
)
def test_the_url_of_the_listener_is_read_in_the_same_way(given: str, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would fail again and again in the background."""
    monkeypatch.setenv("ONWARD_LISTEN_URL", given)
    with pytest.raises(InvalidSetting, match=told):
        connect("postgresql://h/d", clock=SystemClock())


def test_the_listener_takes_the_url_of_a_store(postgres_schema: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With Onward's own options in it, and another library's name: both may come from one setting."""
    monkeypatch.setenv("ONWARD_LISTEN_URL", postgres_schema.replace("postgresql://", "postgresql+psycopg://"))
    store = connect(postgres_schema, clock=SystemClock(), migrate=True)
    try:
        found = {finding.name: finding for finding in store.examine()}
        assert found["notifications"].level == "ok", found["notifications"].text
    finally:
        store.close()
