"""What is mutated, in groups, and the tests that may kill a mutant of each."""

from __future__ import annotations

from dataclasses import dataclass

from tests.mutation.mutant import ROOT, Mutant
from tests.mutation.python import python_mutants
from tests.mutation.session import Tests
from tests.mutation.sql import sql_mutants

_SUITE = "tests/drivers/test_conformance.py"
_SQLITE = (
    *(f"tests/drivers/test_{name}.py" for name in ("sqlite", "sqlite_claim", "sqlite_transaction", "statements", "borrowed")),
    "tests/drivers/borrowed/test_another_file.py",
    "tests/unit/test_sqlite_edges.py",
)
_MEMORY = ("tests/drivers/test_memory.py", "tests/drivers/test_sqlite_url.py")
# What beside its statements makes a file a store.
_FILE = (
    *(f"tests/drivers/test_{name}.py" for name in ("sqlite_courtesy", "sqlite_wake", "sqlite_kqueue", "durability")),
    "tests/outage_kinds/test_damaged_index.py",
)
_OPERATIONS = (
    "tests/drivers/test_placeholders.py",
    "tests/drivers/test_rows.py",
    "tests/unit/test_migrations_rule.py",
    "tests/drivers/test_migrations.py",
    "tests/drivers/test_bounds.py",
    "tests/drivers/test_postgres.py",
    "tests/drivers/test_sqlite_transaction_place.py",
    *(f"tests/drivers/borrowed/test_{name}.py" for name in ("unwrapped", "together", "elsewhere", "handlers", "others_transactions")),
    *(f"tests/drivers/borrowed/test_{name}.py" for name in ("another_place", "another_store", "ended_inside")),
)
_POSTGRES = (
    *(
        f"tests/drivers/test_postgres{name}.py"
        for name in ("", "_alone", "_bulk", "_claim", "_lanes", "_lists", "_plans", "_transaction", "_errors", "_url", "_wake", "_settings")
    ),
    "tests/drivers/test_postgres_migrations.py",
    "tests/drivers/test_postgres_examine.py",
    "tests/drivers/test_bounds.py",
    *(
        f"tests/drivers/borrowed/test_{name}.py"
        for name in ("another_store", "another_place", "encodings", "ended_inside", "others_transactions", "together")
    ),
)
_RULES = (
    *("status", "outcome", "retry", "unique", "payload", "json_text", "redact", "error_text", "reasons", "durations", "spelling"),
    *(
        "settings",
        "definition",
        "signature",
        "registry",
        "events",
        "jobs",
        "turn",
        "inspection",
        "options",
        "steps",
        "ids",
        "rollups",
        "actions",
    ),
)
_WAITS = ("admission", "breaker", "limit", "rate", "constraints", "moments", "periodic", "cron", "cron_fields")
_SIGHT = ("alerts", "alert_rules", "failures", "metrics", "presence", "readings", "verdict")
# What a log line and a stored text may hold is told by the rules, and tried there.
_TOLD = ("tests/telemetry", *(f"tests/security/test_{name}.py" for name in ("limits", "parsers_agree", "existence")))


@dataclass(frozen=True)
class Group:
    """``files`` are patterns under ``src/onward``, ``tests`` what may kill their mutants."""

    name: str
    files: tuple[str, ...]
    tests: Tests

    def mutants(self) -> list[Mutant]:
        """All of them, in the order of the files."""
        made: list[Mutant] = []
        for pattern in self.files:
            for path in sorted((ROOT / "src/onward").glob(pattern)):
                file, text = str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")
                made += sql_mutants(file, text) if path.suffix == ".sql" else python_mutants(file, text)
        return made


GROUPS = (
    # The suite runs over each store: what only one of them has needs no other, and what all have is quickest in memory.
    Group(
        "rules", tuple(f"{name}.py" for name in _RULES), Tests(("tests/unit", "tests/testing", _SUITE, *_TOLD), ("[sqlite", "[postgres"))
    ),
    Group("rules-waits", tuple(f"{name}.py" for name in _WAITS), Tests(("tests/unit", _SUITE), ("[sqlite", "[postgres"))),
    Group(
        "rules-sight", tuple(f"{name}.py" for name in _SIGHT), Tests(("tests/unit", "tests/telemetry", _SUITE), ("[sqlite", "[postgres"))
    ),
    Group("sql-sqlite", ("drivers/sqlite/*.sql",), Tests((_SUITE, *_SQLITE), ("[memory", "[postgres"))),
    Group(
        "sql-postgres",
        ("drivers/postgres/*.sql",),
        Tests((_SUITE, *_POSTGRES), ("[memory", "[sqlite")),
    ),
    Group("operations", ("drivers/sql/*.py",), Tests((_SUITE, *_SQLITE, *_OPERATIONS), ("[memory", "[postgres-", "[postgres]"))),
    Group(
        "drivers",
        ("drivers/memory/*.py", "drivers/sqlite/*.py", "drivers/postgres/*.py"),
        Tests((_SUITE, *_SQLITE, *_FILE, *_POSTGRES, *_OPERATIONS, *_MEMORY)),
    ),
)
