"""What the page on Postgres says to Alembic's autogenerate keeps it away from Onward's tables."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from onward.clock import SystemClock
from onward.drivers import connect

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "run-on-postgres.md"


def the_pages_function() -> Callable[..., bool]:
    (code,) = re.findall(r"^```python\n(def include_name.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    namespace: dict[str, Any] = {}
    exec(code, namespace)
    function: Callable[..., bool] = namespace["include_name"]
    return function


def test_autogenerate_leaves_the_tables_of_onward_alone(postgres_database: str) -> None:
    """Without a word it proposes to drop every table that the models do not have."""
    sqlalchemy = pytest.importorskip("sqlalchemy")
    autogenerate = pytest.importorskip("alembic.autogenerate")
    migration = pytest.importorskip("alembic.runtime.migration")
    store = connect(postgres_database, clock=SystemClock(), migrate=True)
    store.open()
    store.close()

    def dropped(**options: Any) -> set[str]:
        engine = sqlalchemy.create_engine(postgres_database.replace("postgresql://", "postgresql+psycopg://"))
        with engine.connect() as connection:
            context = migration.MigrationContext.configure(connection, opts={"include_schemas": True, **options})
            found = autogenerate.compare_metadata(context, sqlalchemy.MetaData())
        engine.dispose()
        return {f"{change[1].schema}.{change[1].name}" for change in found if change[0] == "remove_table"}

    with_none = dropped()
    assert "onward.jobs" in with_none
    assert dropped(include_name=the_pages_function()) == set()
