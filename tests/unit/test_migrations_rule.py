"""What the version of the tables asks for, and the files that change it."""

from __future__ import annotations

import re

import pytest

from onward.drivers.sql.migrations import Step, fill_in, load_migrations, next_step, too_new, whole_script

PACKAGES = ("onward.drivers.sqlite", "onward.drivers.postgres")
RECORD = re.compile(r"INSERT INTO \{prefix\}schema_version \(version, applied_at, works_with\) VALUES \((\d+), \{now\}, (\d+)\);\s*\Z")
FIRST_OF_SQLITE = re.compile(r"INSERT INTO \{prefix\}schema_version \(version, applied_at\) VALUES \((\d+), \{now\}\);\s*\Z")


@pytest.mark.parametrize(
    ("found", "works_with", "known", "may_migrate", "step"),
    [
        # There are no tables.
        (0, 0, [1], True, Step.MIGRATE),
        (0, 0, [1], False, Step.REFUSE_AS_OUT_OF_DATE),
        (0, 0, [1, 2, 3], True, Step.MIGRATE),
        # The tables are as old as the code.
        (1, 1, [1], True, Step.NOTHING),
        (1, 1, [1], False, Step.NOTHING),
        (3, 1, [1, 2, 3], False, Step.NOTHING),
        (3, 3, [1, 2, 3], False, Step.NOTHING),
        # The tables are older.
        (1, 1, [1, 2], True, Step.MIGRATE),
        (1, 1, [1, 2], False, Step.REFUSE_AS_OUT_OF_DATE),
        (2, 2, [1, 2, 3, 4], False, Step.REFUSE_AS_OUT_OF_DATE),
        # The tables are newer, and whoever made them says which code may use them.
        (2, 1, [1], False, Step.NOTHING),
        (2, 1, [1], True, Step.NOTHING),
        (9, 2, [1, 2], False, Step.NOTHING),
        (9, 3, [1, 2], False, Step.REFUSE_AS_TOO_NEW),
        (9, 3, [1, 2], True, Step.REFUSE_AS_TOO_NEW),
        (9, 9, [1, 2], True, Step.REFUSE_AS_TOO_NEW),
    ],
)
def test_what_to_do_follows_from_the_versions(found: int, works_with: int, known: list[int], may_migrate: bool, step: Step) -> None:
    """Code and tables are never deployed in the same moment, so every combination is met by somebody."""
    assert next_step(found, works_with, known, may_migrate=may_migrate) is step


def test_who_has_to_upgrade_is_told_to_what() -> None:
    """The number is what a release's notes are searched for."""
    assert too_new("jobs.db", 9, 7).endswith(
        "version 9, are newer than this Onward, and need one that knows at least version 7: upgrade Onward"
    )


@pytest.mark.parametrize("package", PACKAGES)
def test_migrations_are_numbered_without_gaps(package: str) -> None:
    """The next one is the one whose number is one higher."""
    assert list(load_migrations(package)) == list(range(1, len(load_migrations(package)) + 1))


@pytest.mark.parametrize("package", PACKAGES)
def test_each_migration_ends_by_recording_its_own_number(package: str) -> None:
    """One that recorded another would be applied again, or leave out the next; and what it works with is never left to a default."""
    lowest = 1
    for number, text in load_migrations(package).items():
        record = RECORD.search(text) or (FIRST_OF_SQLITE.search(text) if (package, number) == (PACKAGES[0], 1) else None)
        assert record, number
        assert int(record[1]) == number
        works_with = int(record[2]) if record.re is RECORD else 1
        assert lowest <= works_with <= number
        lowest = works_with


@pytest.mark.parametrize("package", PACKAGES)
def test_nothing_in_a_migration_is_left_open(package: str) -> None:
    """A word in braces that nobody replaces would reach the database."""
    for text in load_migrations(package).values():
        assert re.findall(r"\{\w+\}", fill_in(text, {"prefix": "p_", "schema": "s", "now": "now()"})) == []


def test_a_script_holds_what_is_missing_in_one_transaction() -> None:
    """A shell that goes on after an error must not apply the second migration without the first."""
    migrations = {1: "ONE {prefix};\n", 2: "TWO {now};\n", 3: "THREE;\n"}
    script = whole_script(1, migrations, {"prefix": "p", "now": "clock()"}, place="jobs.db", how="shell FILE", begin="BEGIN;")
    assert (
        script == "-- Brings the tables of jobs.db from version 1 to 3, once: shell FILE\n\nBEGIN;\n\nTWO clock();\n\nTHREE;\n\nCOMMIT;\n"
    )


@pytest.mark.parametrize("found", [3, 4])
def test_a_script_for_tables_that_lack_nothing_is_a_comment(found: int) -> None:
    """It may be piped into a shell all the same."""
    script = whole_script(found, {3: "THREE;\n"}, {}, place="jobs.db", how="", begin="BEGIN;")
    assert [line for line in script.splitlines() if not line.startswith("--")] == []
    assert "nothing to do" in script


def test_the_name_of_a_file_cannot_end_the_comment_that_it_stands_in() -> None:
    """The script is run by somebody with more rights than whoever chose the name."""
    for found in (0, 1):
        script = whole_script(found, {1: "ONE;\n"}, {}, place="a\nDROP TABLE b;\r\n.db", how="", begin="BEGIN;")
        assert [line for line in script.splitlines() if "DROP" in line and not line.startswith("--")] == []
