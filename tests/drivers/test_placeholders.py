"""Parameters in the styles of Postgres libraries."""

from __future__ import annotations

from onward.drivers.sql.placeholders import dollar, pyformat

SQL = "SELECT :a::text::timestamptz, 'HH24:MI x:y it''s :b', :a_b1, x % 2, \"q:c\", (:a)::int, x::text WHERE t LIKE '%:z'"


def test_pyformat_names_parameters_and_doubles_percent_signs() -> None:
    """Psycopg reads a single % as the beginning of a parameter, in quotes too."""
    assert pyformat(SQL) == (
        "SELECT %(a)s::text::timestamptz, 'HH24:MI x:y it''s :b', %(a_b1)s, x %% 2, \"q:c\", (%(a)s)::int, x::text WHERE t LIKE '%%:z'"
    )


def test_dollar_numbers_parameters_once_each() -> None:
    """The names come in the order of their numbers, which is the order in which values are given."""
    assert dollar(SQL) == (
        "SELECT $1::text::timestamptz, 'HH24:MI x:y it''s :b', $2, x % 2, \"q:c\", ($1)::int, x::text WHERE t LIKE '%:z'",
        ("a", "a_b1"),
    )


def test_a_statement_without_parameters_stays() -> None:
    """Casts, slices and quotes are no parameters."""
    assert dollar("SELECT 1::text, a[1:2]") == ("SELECT 1::text, a[1:2]", ())
