"""What the tests of outages share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.outage_site import Site
from tests.postgres_wheel import OwnServer


@pytest.fixture
def site(tmp_path: Path, private_postgres: OwnServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A store in a Postgres that the test may break. Its workers reach it directly, unless the test sets ``ONWARD_URL`` to another way."""
    monkeypatch.setenv("ONWARD_URL", private_postgres.url)
    made = Site(tmp_path, private_postgres)
    yield made
    made.app.close()
