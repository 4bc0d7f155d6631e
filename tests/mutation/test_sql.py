"""The mutator of SQL makes the mutants that it should, and no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutation.groups import GROUPS
from tests.mutation.mutant import Mutant
from tests.mutation.sql import sql_mutants

FILE = "src/onward/drivers/sqlite/statements.sql"


def changes(body: str) -> set[str]:
    return {one.change for one in sql_mutants(FILE, f"-- name: block\n-- a comment with WHERE a = 1\n{body};\n")}


def changed(body: str) -> list[str]:
    text = f"-- name: block\n{body};\n"
    return [one.applied(text).removeprefix("-- name: block\n").removesuffix(";\n") for one in sql_mutants(FILE, text)]


def conditions(body: str) -> set[str]:
    return {one.change for one in sql_mutants(FILE, f"-- name: block\n{body};\n") if one.is_condition}


def test_each_term_of_an_and_is_dropped() -> None:
    assert changes("DELETE FROM t WHERE a IS NULL AND b IS NULL") == {"a IS NULL → true", "b IS NULL → true"}


def test_each_arm_of_an_or_is_dropped_wherever_it_stands() -> None:
    """The arm of an OR is dropped by being false, and the bracket around it is a term of its own."""
    assert changes("DELETE FROM t WHERE a IS NULL AND (b IS NULL OR c IS NULL)") == {
        *("a IS NULL → true", "(b IS NULL OR c IS NULL) → true", "b IS NULL → false", "c IS NULL → false")
    }


@pytest.mark.parametrize(("before", "after"), [("<", "<="), ("<=", "<"), (">", ">="), (">=", ">"), ("=", "<>"), ("<>", "=")])
def test_each_comparison_is_flipped(before: str, after: str) -> None:
    assert f"DELETE FROM t WHERE a {after} :b" in changed(f"DELETE FROM t WHERE a {before} :b")


def test_each_item_of_a_set_is_dropped_and_its_sign_is_no_comparison() -> None:
    assert changed("UPDATE t SET a = 1, b = f(2, 3), c = 4") == [
        *("UPDATE t SET b = f(2, 3), c = 4", "UPDATE t SET a = 1, c = 4", "UPDATE t SET a = 1, b = f(2, 3)")
    ]


def test_a_condition_in_a_subquery_is_one_too() -> None:
    assert conditions("DELETE FROM t WHERE a IN (SELECT a FROM u WHERE b IS NULL ORDER BY c LIMIT 1)") == {
        *("a IN (SELECT a FROM u WHERE b IS NULL ORDER BY c LIMIT 1) → true", "b IS NULL → true")
    }


def test_what_is_said_inside_a_case_is_mutated_but_is_no_where() -> None:
    body = "UPDATE t SET a = CASE WHEN b IS NULL AND c IS NULL THEN 1 ELSE 2 END, d = 3 WHERE e IS NULL"
    assert {"b IS NULL → true", "c IS NULL → true", "e IS NULL → true"} < changes(body)
    assert conditions(body) == {"e IS NULL → true"}


def test_orders_limits_and_locks_are_changed() -> None:
    assert changes("SELECT a FROM t ORDER BY a DESC, b LIMIT :n FOR UPDATE SKIP LOCKED") == {
        *("ORDER BY a DESC → ASC", "ORDER BY b → DESC", "LIMIT :n → nothing"),
        *("FOR UPDATE SKIP LOCKED → nothing", "SKIP LOCKED → nothing"),
    }


def test_an_order_ends_before_a_conflict() -> None:
    """Else the statement would be none, and every test of it would kill the mutant."""
    assert "ORDER BY a → DESC" in changes("INSERT INTO t SELECT a FROM u ORDER BY a ON CONFLICT DO NOTHING")


def test_a_bound_that_only_the_planner_sees_is_left_alone() -> None:
    assert changes("SELECT a FROM t LIMIT (SELECT 100000)") == set()


def test_conflicts_are_ignored_or_become_errors() -> None:
    assert "INSERT INTO t VALUES (1) ON CONFLICT (a) DO NOTHING RETURNING a" in changed(
        "INSERT INTO t VALUES (1) ON CONFLICT (a) DO UPDATE SET b = 1, c = 2 WHERE t.d IS NULL RETURNING a"
    )
    assert changed("INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING") == ["INSERT INTO t VALUES (1) "]


def test_what_comes_back_is_null_but_not_the_whole_row() -> None:
    assert changed("DELETE FROM t RETURNING a, f(b) AS c") == [
        "DELETE FROM t RETURNING NULL, f(b) AS c",
        "DELETE FROM t RETURNING a, NULL AS c",
    ]
    assert changes("DELETE FROM t RETURNING {columns}") == set()


def test_literals_choices_and_extremes_are_changed() -> None:
    assert "DELETE FROM t WHERE a IN ('x')" in changed("DELETE FROM t WHERE a IN ('x', 'y')")
    assert changed("SELECT coalesce(a, b), min(c) FROM t") == [
        *("SELECT a, min(c) FROM t", "SELECT b, min(c) FROM t", "SELECT coalesce(a, b), max(c) FROM t")
    ]


def test_equal_changes_of_a_block_have_names_of_their_own() -> None:
    names = [one.name for one in sql_mutants(FILE, "-- name: block\nSELECT 1 WHERE a IS NULL UNION ALL SELECT 2 WHERE a IS NULL;\n")]
    assert names == ["drivers/sqlite/statements:block: a IS NULL → true", "drivers/sqlite/statements:block: a IS NULL → true (2)"]


def test_a_name_stays_when_lines_are_added_above() -> None:
    """An explanation names a mutant; it must not lose it to a new comment."""

    def names(text: str) -> list[str]:
        return [one.name for one in sql_mutants(FILE, text)]

    assert names("-- name: block\nSELECT 1 WHERE a < b;\n") == names("-- more\n\n-- name: block\n-- more\nSELECT 1\nWHERE a < b;\n")


@pytest.mark.parametrize("group", [group for group in GROUPS if group.name.startswith("sql-")], ids=lambda group: group.name)
def test_every_mutant_of_the_stores_can_be_applied_and_has_a_name_of_its_own(group: object) -> None:
    mutants: list[Mutant] = group.mutants()  # type: ignore[attr-defined]
    texts = {file: Path(file).read_text(encoding="utf-8") for file in {one.file for one in mutants}}
    assert len({one.name for one in mutants}) == len(mutants) > 500
    assert all(one.applied(texts[one.file]) != texts[one.file] for one in mutants)
