"""``onward check``: what it prints, and how it ends."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]

AROUND = """\
from shop import app

app.store.enqueue([])
with app.transaction() as connection:
    connection.execute("DELETE FROM onward_jobs")
    app.enqueue(app.definitions["broken"])
"""


@pytest.fixture
def bad(shop: Path) -> Path:
    """A file beside the shop that goes around its primitives three times."""
    (shop / "around.py").write_text(AROUND)
    return shop / "around.py"


def test_an_application_that_keeps_to_the_primitives_ends_with_0(onward: Run) -> None:
    """Quiet on stdout, so that a build log shows only what is to be done."""
    done = onward("check", "shop.py")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "1 file checked, 0 to mend.\n"


def test_each_violation_is_a_line_with_file_line_and_primitive(onward: Run, bad: Path) -> None:
    """The build fails, and says where and what to write instead."""
    done = onward("check", ".")
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        (
            "around.py:3:1: the store's own enqueue goes around the application: "
            "use app.enqueue(definition, payload), with within=connection to join a transaction"
        ),
        (
            "around.py:5:24: SQL writes a table of Onward (DELETE FROM onward_jobs): "
            "use app.enqueue(definition, payload, within=connection), or app.cancel, app.retry and app.delete"
        ),
        (
            "around.py:6:5: enqueue without within= inside the transaction that line 4 opens: "
            "add within= with the connection or session of that transaction, or enqueue behind its block"
        ),
    ]
    assert done.stderr == "2 files checked, 3 to mend.\n"


def test_json_has_every_field_of_a_violation(onward: Run, bad: Path) -> None:
    """For a build that makes annotations of them."""
    done = onward("check", "--json", ".")
    assert done.returncode == 1
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(one["path"], one["line"], one["column"], one["rule"]) for one in found] == [
        ("around.py", 3, 1, "store-verb"),
        ("around.py", 5, 24, "raw-sql"),
        ("around.py", 6, 5, "missing-within"),
    ]
    assert all(set(one) == {"path", "line", "column", "rule", "found", "instead"} for one in found)


def test_a_file_alone_is_checked_with_what_it_says_by_itself(onward: Run, bad: Path) -> None:
    """Without the file that makes the application, only the SQL can be known; checked together, all three."""
    assert [line.partition(": ")[0] for line in onward("check", "around.py").stdout.splitlines()] == ["around.py:5:24"]
    assert len(onward("check", "around.py", "shop.py").stdout.splitlines()) == 3


def test_a_file_that_is_no_python_is_one_line_and_a_failure(onward: Run, shop: Path) -> None:
    """It is not passed over."""
    (shop / "broken.py").write_text("def f(:\n")
    done = onward("check", ".")
    assert done.returncode == 1
    (line,) = done.stdout.splitlines()
    assert line.startswith("broken.py:1:7: it is no Python that can be read (invalid syntax)")


def test_tables_of_another_prefix_or_schema_are_named(onward: Run, shop: Path) -> None:
    """As the store was given them."""
    (shop / "around.py").write_text("run('DELETE FROM work_jobs')\nrun('DELETE FROM queue.jobs')\n")
    assert onward("check", ".").returncode == 0
    assert len(onward("check", ".", "--prefix", "work_", "--schema", "queue").stdout.splitlines()) == 2


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ((), "Missing argument 'PATH...'"),
        (("nowhere.py",), "Path 'nowhere.py' does not exist"),
        (("empty",), "there is no Python file below empty"),
        (("shop.py", "--tables", "x"), "No such option '--tables'"),
    ],
)
def test_wrong_use_ends_with_2(onward: Run, shop: Path, args: tuple[str, ...], told: str) -> None:
    """A check of nothing must not look like a check that found nothing."""
    (shop / "empty").mkdir()
    done = onward("check", *args)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr


def test_nothing_of_the_checked_code_is_run(onward: Run, shop: Path) -> None:
    """It may be code of a pull request."""
    (shop / "harm.py").write_text("open('harmed', 'w').close()\nimport nowhere\n")
    done = onward("check", ".")
    assert done.returncode == 0
    assert not (shop / "harmed").exists()
    assert not (shop / "shop.db").exists()


def test_a_file_name_cannot_write_to_the_terminal(onward: Run, shop: Path) -> None:
    """Names come from whoever made the branch."""
    (shop / "a\x1b[31m.py").write_text("run('DELETE FROM onward_jobs')\n")
    done = onward("check", ".")
    assert done.returncode == 1
    assert done.stdout.startswith("a\\x1b[31m.py:1:5: SQL")
