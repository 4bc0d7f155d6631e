"""The statements of a SQL store: named blocks, each used, each sound."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from pathlib import Path

import aiosqlite
import pytest

import onward.drivers.postgres
import onward.drivers.sql
import onward.drivers.sqlite
from onward.clock import FakeClock
from onward.drivers.sql.statements import Many, Row, Statement, as_json, load_statements, run
from onward.drivers.sqlite.driver import SQLiteStore
from onward.drivers.sqlite.migrate import migrations, split
from onward.steps import drive_awaited

SHARED = Path(onward.drivers.sql.__path__[0])
FOLDERS = {"sqlite": Path(onward.drivers.sqlite.__path__[0]), "postgres": Path(onward.drivers.postgres.__path__[0])}
SOURCES = [source for folder in (SHARED, *FOLDERS.values()) for source in folder.glob("*.py")]
TEXTS = {name: "\n".join(file.read_text(encoding="utf-8") for file in sorted(folder.glob("*.sql"))) for name, folder in FOLDERS.items()}
ONE_BACKEND_ONLY = {
    "sqlite": {
        *("lock", "rollback", "synchronous"),  # its one write lock, and how durable a caller's commits are
        *("hold", "let_go"),  # its transactions have no number
        "files",  # a caller may have several on one connection
        *("lanes", "due", "any_blocked"),  # its claim: many seeks, each a statement, since a statement costs microseconds
        *("claimed", "claimed_rows"),  # what it has claimed, read quickly, or row by row where one needs it
        *("misdated", "misqueued"),  # its columns take anything
    },
    "postgres": {
        *("begin_claiming", "outlast_claims"),  # a claim may have begun before a pause and not see it
        "claim_let",  # its claim takes what it finds by one statement, so what was asked about needs another
        *("commit", "clock", "forget_session"),  # its own clock decides; its connections are shared
        *("begin_own", "plan_to_seek"),  # its planner has to be told what not to do, but not for an application's own statements
        "is_read_committed",  # a role may want another isolation
        "is_same_transaction",  # that no statement of an application's has ended it
        "client_encoding",  # a caller's may be another than UTF-8
        *("overdue", "prunable"),  # a sweep and a prune look first, in one round trip
        "notify",  # its workers sleep until they are told
        *("begin_migration", "lock_migrations", "begin_script"),  # several processes may migrate at once
    },
}


def names_used(backend: str) -> set[str]:
    code = "\n".join(source.read_text(encoding="utf-8") for folder in (SHARED, FOLDERS[backend]) for source in folder.glob("*.py"))
    called = set(re.findall(r'(?:Statement|Many)\(\s*"(\w+)"', code)) | set(re.findall(r'(?:statements|text|_text|raw)\["(\w+)"\]', code))
    return called | {f"question_{name}" for name in ("outstanding", "failed", "stuck", "durations", "duplicates", "last_hour")}


@pytest.mark.parametrize("backend", FOLDERS)
def test_every_statement_is_used_and_every_name_exists(backend: str) -> None:
    """A block that nobody runs misleads; a name without a block fails only when a user meets it."""
    assert set(load_statements(TEXTS[backend])) == names_used(backend)


def test_both_files_have_the_same_names() -> None:
    """They are read side by side; what only one backend has is said here, with the reason."""
    names = {backend: {name for name in load_statements(text) if not name.startswith("examine_")} for backend, text in TEXTS.items()}
    assert names["sqlite"] - names["postgres"] == ONE_BACKEND_ONLY["sqlite"]
    assert names["postgres"] - names["sqlite"] == ONE_BACKEND_ONLY["postgres"]


@pytest.mark.parametrize("file", sorted(FOLDERS["postgres"].glob("*.sql")), ids=lambda file: file.stem)
def test_blocks_of_one_name_stand_in_the_same_order(file: Path) -> None:
    """So that two windows side by side show the same block."""
    one, other = list(load_statements(file.read_text(encoding="utf-8"))), list(load_statements(TEXTS["sqlite"]))
    assert [name for name in one if name in other] == [name for name in other if name in one]


def test_every_statement_can_be_prepared(tmp_path: Path) -> None:
    """A misspelt column is found here, not in the one situation that needs the statement."""
    store = SQLiteStore(tmp_path / "jobs.db", clock=FakeClock())
    store.open()
    connection = sqlite3.connect(store.path)
    for name, sql in store.statements.items():
        asked = dict.fromkeys(re.findall(r":([a-z_]+)", re.sub(r"'[^']*'", "", sql)))
        plain = sql.replace("{now}", "'now'").replace("{stuck_seconds}", "1")
        assert "{" not in plain, name
        connection.execute(f"EXPLAIN {plain}", asked)
    connection.close()
    store.close()


def test_no_python_file_holds_sql() -> None:
    """Statements are read side by side, backend beside backend, so none may hide in a string. What doctor tells a person to run may."""
    asking = re.compile(r"""["'](?:SELECT|INSERT|UPDATE|DELETE|WITH)\s""")
    changing = re.compile(r"""["'](?:CREATE|DROP|ALTER)\s""")
    advising = {"drift.py", "examine.py", "upkeep.py"}
    texts = {source.name: source.read_text(encoding="utf-8") for source in SOURCES}
    assert [name for name, text in texts.items() if asking.search(text) or (name not in advising and changing.search(text))] == []


def test_blocks_are_split_at_their_opening_line() -> None:
    """Comments explain a block to its reader and are not sent to the database."""
    text = "-- head\n-- name: one\n-- why\nSELECT {what}\n  -- inside\n  FROM t;\n\n-- == part ==\n-- name: two\nDELETE FROM t;\n"
    assert load_statements(text, what="1") == {"one": "SELECT 1\n  FROM t", "two": "DELETE FROM t"}


def test_two_blocks_of_one_name_are_refused() -> None:
    """The second would silently win."""
    with pytest.raises(ValueError, match="two statements are called one"):
        load_statements("-- name: one\nSELECT 1\n-- name: one\nSELECT 2\n")


def test_an_operation_is_driven_through_rows_and_batches() -> None:
    """What an operation yields is run in order, and its value comes back."""

    def operation():  # type: ignore[no-untyped-def]
        nothing = yield Many("add", [{"n": 1}, {"n": 2}])
        rows = yield Statement("all")
        return nothing, rows

    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE t (n)")
    statements = {"add": "INSERT INTO t VALUES (:n)", "all": "SELECT n FROM t ORDER BY n"}
    assert run(connection.cursor(), statements, operation()) == ([], [(1,), (2,)])
    connection.close()


def test_an_operation_hears_of_the_error_of_its_statement() -> None:
    """It may undo what it did, and run more statements for that, on connections of either colour."""

    def operation():  # type: ignore[no-untyped-def]
        try:
            yield Statement("wrong")
        except sqlite3.IntegrityError as error:
            rows = yield Statement("all")
            return str(error), rows

    async def run_awaited() -> object:
        async with aiosqlite.connect(":memory:") as connection:
            await connection.execute("CREATE TABLE t (n CHECK (n > 0))")

            async def execute(wanted: Statement | Many) -> list[Row]:
                return list(await connection.execute_fetchall(statements[wanted.name]))

            return await drive_awaited(execute, operation())

    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE t (n CHECK (n > 0))")
    statements = {"wrong": "INSERT INTO t VALUES (0)", "all": "SELECT n FROM t"}
    told = run(connection.cursor(), statements, operation())
    assert told == ("CHECK constraint failed: n > 0", [])
    assert asyncio.run(run_awaited()) == told
    connection.close()


def test_a_lone_surrogate_does_not_stop_a_list() -> None:
    """One text that no database stores must not fail its neighbours' endings."""
    assert as_json([("a", "bad \ud800"), ("b", "good")]) == '[["a","bad \\\\ud800"],["b","good"]]'


def test_migrations_are_numbered_without_gaps() -> None:
    """The number is the version that the file records."""
    assert list(migrations()) == list(range(1, len(migrations()) + 1))
    assert all(sqlite3.complete_statement(statement) for text in migrations().values() for statement in split(text))
