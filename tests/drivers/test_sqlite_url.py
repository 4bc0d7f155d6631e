"""From a URL to a store."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from onward.clock import FakeClock
from onward.drivers import connect
from onward.drivers.sqlite.driver import SQLiteStore
from onward.errors import InvalidSetting


def test_three_slashes_are_relative_and_four_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As SQLAlchemy reads them."""
    monkeypatch.chdir(tmp_path)
    relative = connect("sqlite:///jobs%20here.db", clock=FakeClock())
    absolute = connect(f"sqlite:///{tmp_path}/jobs.db", clock=FakeClock())
    assert isinstance(relative, SQLiteStore)
    assert isinstance(absolute, SQLiteStore)
    assert (relative.path, absolute.path) == (tmp_path / "jobs here.db", tmp_path / "jobs.db")
    assert absolute.url == f"sqlite:///{tmp_path}/jobs.db"
    assert list(tmp_path.iterdir()) == []


def test_options_come_from_the_query(tmp_path: Path) -> None:
    """A prefix keeps two queues in one file apart."""
    url = f"sqlite:///{tmp_path}/jobs.db?prefix=my_&timeout=1500ms&network_file_system=allow"
    store = connect(url, clock=FakeClock())
    assert isinstance(store, SQLiteStore)
    store.open()
    assert store.prefix == "my_"
    assert store.timeout == timedelta(seconds=1.5)
    assert "my_jobs" in store.question_sql("failed")
    store.close()


@pytest.mark.parametrize(
    "name",
    ["jobs.db", "my jobs#1?.db", "100%.db", "%41.db", "a+b&c=d.db", "tab\tand\nline.db", "größe.db", "@home.db", ":memory:", "file:x"],
)
def test_a_stores_url_leads_to_the_same_file(tmp_path: Path, name: str) -> None:
    """Who is only told the URL, such as another process, must open the very same file."""
    store = SQLiteStore(tmp_path / name, clock=FakeClock())
    again = connect(store.url, clock=FakeClock())
    assert isinstance(again, SQLiteStore)
    assert (again.path, again.prefix, again.timeout, again.url) == (store.path, "onward_", timedelta(seconds=5), store.url)


def test_a_file_name_that_is_no_utf_8_survives(tmp_path: Path) -> None:
    """File names are bytes on Linux."""
    store = SQLiteStore(tmp_path / os.fsdecode(b"caf\xe9.db"), clock=FakeClock())
    again = connect(store.url, clock=FakeClock())
    assert isinstance(again, SQLiteStore)
    assert again.path == store.path
    assert again.url.isascii()


@pytest.mark.parametrize(
    "query", ["prefix=my_", "timeout=1500ms", "timeout=0s", "timeout=0.00025s", "network_file_system=allow", "prefix=a_&timeout=1m"]
)
def test_a_stores_url_keeps_its_options(tmp_path: Path, query: str) -> None:
    """Another prefix would be other tables, and without the permission the store would not open at all."""
    store = connect(f"sqlite:///{tmp_path}/jobs.db?{query}", clock=FakeClock())
    again = connect(store.url, clock=FakeClock())
    assert isinstance(store, SQLiteStore)
    assert isinstance(again, SQLiteStore)
    assert (again.path, again.prefix, again.timeout, again.url) == (store.path, store.prefix, store.timeout, store.url)
    assert ("network_file_system=allow" in again.url) == ("network" in query)


def test_a_file_exists_once_the_store_was_opened(tmp_path: Path) -> None:
    """Who mistypes a path must hear that nothing is there, and asking must not make it."""
    store = connect(f"sqlite:///{tmp_path}/jobs.db", clock=FakeClock())
    assert not store.exists()
    assert list(tmp_path.iterdir()) == []
    store.open()
    assert store.exists()
    store.close()


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("sqlite://", "memory://"),
        ("sqlite:///", "memory://"),
        ("sqlite:///:memory:", "memory://"),
        ("sqlite://jobs.db", "two slashes"),
        ("sqlite:///jobs.db?prefx=a", "prefx"),
        ("sqlite:///jobs.db?timeout=soon", "timeout"),
        ("sqlite:///jobs.db?prefix=a-b", "prefix"),
        ("sqlite:///jobs.db?network_file_system=yes", "allow"),
        ("sqlite:///jobs.db#1", "%23"),
        ("sqlite:///jobs%00.db", "%00"),
        ("mysql://me:secret@host/jobs", "sqlite:///file.db"),
        ("jobs.db", "sqlite:///file.db"),
        ("", "sqlite:///file.db"),
        ("memory://jobs", "memory://"),
    ],
)
def test_a_url_that_cannot_be_used_says_what_can(url: str, says: str) -> None:
    """One clear line, without the password."""
    with pytest.raises(InvalidSetting, match=says) as refusal:
        connect(url, clock=FakeClock())
    assert "secret" not in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_connect_imports_only_what_the_url_needs() -> None:
    """`import onward` must stay light, and memory:// needs no SQLite."""
    code = (
        "import sys; from onward.drivers import connect; from onward.clock import SystemClock\n"
        "print('sqlite3' in sys.modules, 'ctypes' in sys.modules)\n"
        "connect('memory://', clock=SystemClock()); print('sqlite3' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["False", "False", "False"]
