"""The schemas that the demos make for themselves in somebody's Postgres database."""

from __future__ import annotations

import psycopg
import pytest

from examples.demo_schemas import DemoSchemas, Refused
from examples.files import demo as files
from examples.podcasts import demo as podcasts

OF_EACH_DEMO = pytest.mark.parametrize("schemas", [files.SCHEMAS, podcasts.SCHEMAS], ids=["files", "podcasts"])


@OF_EACH_DEMO
def test_a_schema_that_no_demo_has_made_is_not_dropped(postgres_database: str, schemas: DemoSchemas) -> None:
    """The name alone says nothing about whose it is."""
    own, onwards = schemas.own, schemas.onwards
    with psycopg.connect(postgres_database, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {own}; CREATE TABLE {own}.precious (); CREATE SCHEMA {onwards}")
        connection.execute(f"COMMENT ON SCHEMA {onwards} IS '{schemas.mark}'")
        with pytest.raises(Refused, match=f"schema {own} that no demo has made"), schemas.fresh(postgres_database):
            pass
        assert connection.execute(f"SELECT count(*) FROM {own}.precious").fetchone() == (0,)


@OF_EACH_DEMO
def test_two_demos_do_not_share_a_postgres_database(postgres_database: str, schemas: DemoSchemas) -> None:
    """The second would drop the first one's tables under its processes."""
    with schemas.fresh(postgres_database), pytest.raises(Refused, match="another demo is running"), schemas.fresh(postgres_database):
        pass
    with schemas.fresh(postgres_database):
        pass


def test_each_demo_has_schemas_of_its_own() -> None:
    """Both may be run in one database."""
    assert {files.SCHEMAS.own, files.SCHEMAS.onwards}.isdisjoint({podcasts.SCHEMAS.own, podcasts.SCHEMAS.onwards})
