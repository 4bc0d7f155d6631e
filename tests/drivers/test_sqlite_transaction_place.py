"""The store's own transaction is refused where every other verb is: in another file that somebody has put in its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from onward.clock import FakeClock
from onward.drivers.sqlite.driver import SQLiteStore
from onward.errors import StoreUnavailable
from onward.testing.factories import make_new_job


def test_a_transaction_notices_a_replaced_file(tmp_path: Path) -> None:
    """It opens a connection of its own each time, and so would write to the new file what nobody else in this process sees."""
    path = tmp_path / "jobs.db"
    store = SQLiteStore(path, clock=FakeClock())
    store.enqueue([make_new_job()])
    path.rename(tmp_path / "away.db")
    other = SQLiteStore(path, clock=FakeClock())
    other.open()
    with pytest.raises(StoreUnavailable, match="replaced"), store.transaction() as connection:
        connection.execute("CREATE TABLE mine (x)")
    store.close()
    other.close()
