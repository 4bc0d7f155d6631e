"""``stats``, ``doctor``, ``migrate``, ``reconcile``, ``config`` and ``demo``."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from click.testing import Result

from onward.app import Onward
from onward.cli.stats import TITLES
from onward.drivers.sqlite.driver import SQLiteStore
from onward.inspection import QUESTIONS
from onward.turn import Demand

Run = Callable[..., subprocess.CompletedProcess[str]]
Invoke = Callable[..., Result]


def lines_of_json(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


# -- stats -----------------------------------------------------------------------------------------------------------


def test_every_question_of_the_contract_can_be_asked() -> None:
    """The list on the command line is written by hand, so that help needs no driver; it must be the same."""
    assert tuple(TITLES) == QUESTIONS


def test_stats_answer_all_six_questions(app: Onward, invoke: Invoke) -> None:
    """One command at three in the morning."""
    app.enqueue(app.definitions["echo"], "done")
    app.enqueue(app.definitions["fail"], "this")
    app.worker(concurrency=1, drain=True).run()
    app.enqueue(app.definitions["echo"], "waiting", delay="1h", key="k")
    result = invoke("stats")
    assert result.exit_code == 0
    for title in TITLES.values():
        assert title in result.stdout
    assert "ValueError: cannot do this" in result.stdout
    answers = {answer["question"]: answer["rows"] for answer in lines_of_json(invoke("stats", "--json").stdout)}
    assert list(answers) == ["now", *QUESTIONS]
    (outstanding,) = answers["outstanding"]  # type: ignore[misc]  # rows are a list
    assert (outstanding["type"], outstanding["status"], outstanding["jobs"]) == ("echo", "queued", 1)
    assert [row["type"] for row in answers["failed"]] == ["fail"]  # type: ignore[index,attr-defined]  # rows are objects
    assert {row["type"] for row in answers["last-hour"]} == {"echo", "fail"}  # type: ignore[index,attr-defined]
    assert answers["duplicates"] == answers["stuck"] == []


def test_what_somebody_wrote_by_hand_is_shown_as_far_as_it_goes(app: Onward, invoke: Invoke) -> None:
    """A type of bytes ended the command with a traceback; a cell of a book's length pushed the others out of sight."""
    handles = [app.enqueue(app.definitions["echo"], "x") for _ in range(2)]
    assert isinstance(app.store, SQLiteStore)
    with closing(sqlite3.connect(app.store.path)) as connection, connection:
        for handle, type_ in zip(handles, (b"\xffecho", "long" * 1000), strict=True):
            connection.execute("UPDATE onward_jobs SET type = ? WHERE id = ?", [type_, handle.id])
    (answer,) = lines_of_json(invoke("stats", "outstanding", "--json").stdout)
    assert {row["type"] for row in answer["rows"]} == {"\ufffdecho", "long" * 1000}  # type: ignore[attr-defined]  # rows are objects
    for args in (["stats", "outstanding"], ["jobs", "list"]):
        result = invoke(*args)
        assert result.exit_code == 0
        assert max(map(len, result.stdout.splitlines())) < 500


def test_one_question_is_answered_alone(app: Onward, invoke: Invoke) -> None:
    """Alerts ask one thing."""
    app.store.open()
    assert [answer["question"] for answer in lines_of_json(invoke("stats", "stuck", "failed", "--json").stdout)] == ["failed", "stuck"]


def test_stuck_after_moves_the_border(app: Onward, invoke: Invoke) -> None:
    """What is slow for one application is a coffee break for another."""
    app.enqueue(app.definitions["echo"], "x")
    app.store.turn((), Demand(lease_owner="host:1:abc", slots=1, types=app.definitions.leases()))
    assert lines_of_json(invoke("stats", "stuck", "--json").stdout)[0]["rows"] == []
    (row,) = lines_of_json(invoke("stats", "stuck", "--json", "--stuck-after", "0s").stdout)[0]["rows"]  # type: ignore[misc]
    assert row["lease_owner"] == "host:1:abc"


def test_the_printed_queries_run_in_the_database_itself(app: Onward, invoke: Invoke, tmp_path: Path) -> None:
    """They are for pasting into the shell of a database that has no Onward beside it."""
    app.enqueue(app.definitions["echo"], "x")
    for asked in lines_of_json(invoke("stats", "--sql", "--json").stdout):
        with closing(sqlite3.connect(tmp_path / "jobs.db")) as connection:
            rows = connection.execute(str(asked["sql"])).fetchall()
        assert len(rows) == (1 if asked["question"] == "outstanding" else 0)
    assert "-- outstanding: What work is outstanding?" in invoke("stats", "--sql").stdout


def test_the_printed_query_asks_with_the_border_that_was_given(app: Onward, invoke: Invoke, tmp_path: Path) -> None:
    """A query that answers another question than the command beside it is believed."""
    app.enqueue(app.definitions["echo"], "x")
    app.store.turn((), Demand(lease_owner="host:1:abc", slots=1, types=app.definitions.leases()))
    for border, found in (("1h", 0), ("0s", 1)):
        (asked,) = lines_of_json(invoke("stats", "stuck", "--sql", "--json", "--stuck-after", border).stdout)
        with closing(sqlite3.connect(tmp_path / "jobs.db")) as connection:
            assert len(connection.execute(str(asked["sql"])).fetchall()) == found


def test_a_long_answer_is_cut_to_its_newest_rows(app: Onward, invoke: Invoke) -> None:
    """Ten thousand failures in a terminal hide the newest; JSON has them all."""
    ids = [handle.id for handle in app.enqueue_many(app.definitions["echo"].new_job(str(number)) for number in range(53))]
    app.worker(concurrency=1, drain=True).run()
    lines = invoke("stats", "last-hour").stdout.splitlines()
    assert lines[-1] == "… and 3 more (--json prints all)"
    shown = [line.split()[0] for line in lines[3:-1]]
    (answer,) = lines_of_json(invoke("stats", "last-hour", "--json").stdout)
    every = [row["id"] for row in answer["rows"]]  # type: ignore[attr-defined]  # rows are a list
    assert shown == every[:50]
    assert sorted(every) == ids
    assert "more (--json" not in invoke("stats", "outstanding").stdout


@pytest.mark.parametrize(
    "command",
    [["stats"], ["jobs", "list"], ["jobs", "show", "01JE0000000000000000000000"], ["jobs", "retry", "X"], ["doctor"], ["reconcile"]],
)
def test_looking_makes_no_tables_in_a_database_that_is_not_ours(onward: Run, shop: Path, command: list[str]) -> None:
    """The application's own database gets neither tables nor another journal from a question."""
    with closing(sqlite3.connect(shop / "shop.db")) as connection, connection:
        connection.execute("CREATE TABLE customers (id INTEGER)")
    before = (shop / "shop.db").read_bytes()
    done = onward("-A", "shop:app", *command)
    assert (done.returncode, done.stdout) == (5, "")
    assert "has no tables of Onward, or older ones: run onward -A shop:app migrate\n" in done.stderr
    assert (shop / "shop.db").read_bytes() == before
    assert {path.name for path in shop.iterdir() if path.name.startswith("shop.db")} == {"shop.db"}


# -- doctor and migrate ----------------------------------------------------------------------------------------------


def test_doctor_names_the_store_and_its_newest_job(app: Onward, invoke: Invoke) -> None:
    """A worker that polls an abandoned database looks healthy; only the identity and the age of the newest job give it away."""
    job_id = app.enqueue(app.definitions["echo"], "x").id
    result = invoke("doctor")
    assert result.exit_code == 0, result.output
    assert "jobs.db" in result.stdout
    assert job_id in result.stdout
    findings = lines_of_json(invoke("doctor", "--json").stdout)
    assert all(set(finding) == {"name", "level", "text"} for finding in findings)
    assert any("schema" in str(finding["name"]) or "version" in str(finding["text"]) for finding in findings)


def test_doctor_tells_when_settings_and_application_use_different_stores(onward: Run) -> None:
    """One program enqueues here, another works there, and both look fine."""
    onward("-A", "shop:app", "enqueue", "broken")
    done = onward("-A", "shop:app", "doctor", "--json", env={"ONWARD_URL": "sqlite:///other.db"})
    assert {finding["name"]: finding["level"] for finding in lines_of_json(done.stdout)}["settings"] == "warning"
    assert "other.db" in done.stdout
    same = onward("-A", "shop:app", "doctor", "--json", env={"ONWARD_URL": "sqlite:///shop.db"})
    assert {finding["name"]: finding["level"] for finding in lines_of_json(same.stdout)}["settings"] == "ok"


def test_doctor_tells_of_types_that_the_application_does_not_know(onward: Run, shop: Path) -> None:
    """They wait for ever, and cost nothing, and nobody notices."""
    onward("-A", "shop:app", "enqueue", "broken")
    (shop / "later.py").write_text("from onward import Onward\napp = Onward('sqlite:///shop.db')\n")
    done = onward("-A", "later:app", "doctor")
    assert "does not know: broken" in done.stdout
    assert done.returncode == 0


DOCTOR_OF_A_READER = """
import os, sys
from click.testing import CliRunner
from onward import Onward
from onward.cli.main import cli, main

app = Onward("sqlite:///jobs.db")
app.store.open()
# What the command imports is read before it loses its rights, and the application beside it keeps the log of the file there.
CliRunner().invoke(cli, ["-u", "sqlite:///jobs.db", "doctor", "--json"])
for name, mode in zip(sys.argv[1::2], sys.argv[2::2]):
    os.chmod(name, int(mode, 8))
if os.geteuid() == 0:
    os.setegid(65534), os.seteuid(65534)
sys.argv = ["onward", "-u", "sqlite:///jobs.db", "doctor", "--json"]
main()
"""


@pytest.mark.parametrize(
    ("modes", "closed"),
    [
        ({"jobs.db": "666", "jobs.db-wal": "666", "jobs.db-shm": "666", ".": "777"}, []),
        ({"jobs.db": "444", "jobs.db-wal": "666", "jobs.db-shm": "666", ".": "777"}, ["jobs.db"]),
        ({"jobs.db": "666", "jobs.db-wal": "444", "jobs.db-shm": "666", ".": "777"}, ["jobs.db-wal"]),
        ({"jobs.db": "666", "jobs.db-wal": "666", "jobs.db-shm": "666", ".": "555"}, [""]),
        ({"jobs.db": "444", "jobs.db-wal": "444", "jobs.db-shm": "444", ".": "555"}, ["jobs.db", "jobs.db-wal", "jobs.db-shm", ""]),
    ],
)
def test_doctor_tells_when_its_user_may_not_write(environment: dict[str, str], modes: dict[str, str], closed: list[str]) -> None:
    """All looks well to who may read, and every enqueue of that user fails, at the latest when the log has to be made anew."""
    with TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        words = [word for pair in modes.items() for word in pair]
        done = subprocess.run(
            [sys.executable, "-c", DOCTOR_OF_A_READER, *words], cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        os.chmod(folder, 0o755)
        found = {finding["name"]: finding for finding in lines_of_json(done.stdout)}["writable"]
        paths = ", ".join(os.path.join(os.path.realpath(folder), name).rstrip("/") for name in closed)
    assert (found["level"], done.returncode) == (("error", 1) if closed else ("ok", 0)), done.stderr
    assert f"may not write {paths}: it can neither enqueue nor run jobs" in str(found["text"]) or not closed


def test_doctor_ends_with_1_on_an_error(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    """Deployments run it before they go on."""
    from onward.inspection import Finding

    found = [Finding("a", "warning", "b"), Finding("c", "error", "d\x1b[1m")]
    monkeypatch.setattr("onward.cli.doctor.examine", lambda store, app: found)
    assert invoke("migrate").exit_code == 0
    result = invoke("doctor")
    assert result.exit_code == 1
    assert result.stdout.splitlines()[1].startswith("error")
    assert "\x1b" not in result.stdout


def test_migrate_makes_the_tables_and_may_be_repeated(onward: Run, shop: Path) -> None:
    """Deployments run it every time."""
    for _ in range(2):
        done = onward("-u", "sqlite:///new.db", "migrate")
        assert (done.returncode, done.stderr) == (0, "")
        assert "new.db is up to date (version " in done.stdout
    assert (shop / "new.db").stat().st_size > 0


def test_migrate_can_answer_in_json(onward: Run) -> None:
    """A deployment writes down which version it made."""
    done = onward("-u", "sqlite:///new.db", "migrate", "--json")
    (answer,) = lines_of_json(done.stdout)
    assert set(answer) == {"store", "schema"}
    assert str(answer["store"]).endswith("new.db")
    checked = onward("-u", "sqlite:///new.db", "migrate", "--check", "--json")
    assert (checked.returncode, lines_of_json(checked.stdout)[0]["store"]) == (0, answer["store"])
    refused = onward("-u", "sqlite:///other.db", "migrate", "--check", "--json")
    assert (refused.returncode, refused.stdout) == (5, "")


def test_migrate_check_changes_nothing(onward: Run, shop: Path) -> None:
    """A deployment asks first, and decides by the exit code; the application's own file gets no tables by asking."""
    assert onward("-u", "sqlite:///new.db", "migrate", "--check").returncode == 5
    assert not (shop / "new.db").exists()
    with closing(sqlite3.connect(shop / "own.db")) as connection, connection:
        connection.execute("CREATE TABLE customers (id INTEGER)")
    before = (shop / "own.db").read_bytes()
    done = onward("-u", "sqlite:///own.db", "migrate", "--check")
    assert (done.returncode, done.stdout) == (5, "")
    assert len(done.stderr.splitlines()) == 1
    assert "has no tables of Onward, or older ones: run onward -u sqlite:///own.db migrate\n" in done.stderr
    assert (shop / "own.db").read_bytes() == before
    assert onward("-u", "sqlite:///own.db", "migrate").returncode == 0
    assert onward("-u", "sqlite:///own.db", "migrate", "--check").returncode == 0


# -- reconcile, config, demo -----------------------------------------------------------------------------------------


def test_reconcile_reports_and_ends_with_0_when_all_is_right(onward: Run) -> None:
    """Cron mails only what fails."""
    onward("-A", "shop:app", "migrate")
    done = onward("-A", "shop:app", "reconcile")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("ledger: 7 checked, 0 wrong, 1 pending, 2 unchecked\n  2 entries")


def test_reconcile_ends_with_1_on_a_discrepancy(onward: Run, shop: Path) -> None:
    """And says which, harmlessly."""
    (shop / "wrong.py").write_text("from shop import *\nimport shop\nshop.Ledger.discrepancies = ['a.json is missing\\x1b[31m']\n")
    onward("-A", "wrong:app", "migrate")
    done = onward("-A", "wrong:app", "reconcile")
    assert done.returncode == 1
    assert "  a.json is missing\\x1b[31m" in done.stdout
    as_json = onward("-A", "wrong:app", "reconcile", "--json")
    assert as_json.returncode == 1
    (answer,) = lines_of_json(as_json.stdout)
    assert answer["discrepancies"] == ["a.json is missing\x1b[31m"]
    assert (answer["checked"], answer["pending"], answer["unchecked"], len(answer["notes"])) == (7, 1, 2, 1)


def test_config_says_where_each_value_comes_from(onward: Run, shop: Path) -> None:
    """Whoever says "but I set that" is answered in one look."""
    (shop / "onward.toml").write_text('queues = ["mail"]\ngrace = "10s"\n')
    done = onward("-A", "shop:app", "config", "--json", env={"ONWARD_GRACE": "20s", "ONWARD_URL": "postgres://me:secret@host/db"})
    assert done.returncode == 0
    found = {line["name"]: (line["value"], line["source"]) for line in lines_of_json(done.stdout)}
    assert found["app"] == ("shop:app", "command line")
    assert found["grace"] == ("20s", "ONWARD_GRACE")
    assert found["queues"] == ("mail", "onward.toml")
    assert found["concurrency"] == ("16", "default")
    assert "secret" not in done.stdout


def test_config_shows_the_store_that_is_used(onward: Run, shop: Path) -> None:
    """A variable that an application does not ask for must not look as if it counted."""

    def url(*args: str, **env: str) -> tuple[object, object, str]:
        done = onward(*args, "config", "--json", env=env)
        assert done.returncode == 0, done.stderr
        (line,) = [line for line in lines_of_json(done.stdout) if line["name"] == "url"]
        return line["value"], line["source"], done.stderr

    value, source, said = url("-A", "shop:app", ONWARD_URL="sqlite:///other.db")
    assert (str(value).endswith("/shop.db"), source) == (True, "the application's own")
    assert "ONWARD_URL names" in said
    assert url("-A", "shop:app", ONWARD_URL="sqlite:///shop.db")[1:] == ("ONWARD_URL", "")
    assert url("-A", "shop:app")[1:] == ("the application's own", "")
    assert url("-A", "shop:app", "-u", "sqlite:///x.db")[:2] == ("sqlite:///x.db", "command line")
    value, source, said = url("-A", "gone:app", ONWARD_URL="sqlite:///other.db")
    assert (value, source) == ("sqlite:///other.db", "ONWARD_URL")
    assert "no module 'gone'" in said
    assert not (shop / "shop.db").exists()


@pytest.mark.parametrize("content", ["concurency = 4\n", "grace = 'soon'\n", "not toml at all\n"])
def test_a_wrong_settings_file_is_told_in_one_line(onward: Run, shop: Path, content: str) -> None:
    """A setting that is silently ignored is found in production."""
    (shop / "onward.toml").write_text(content)
    done = onward("config")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "onward.toml" in done.stderr


def test_the_demo_runs_by_itself_and_leaves_nothing(onward: Run, shop: Path) -> None:
    """The first thing that a stranger types; it needs no file, no setting and no store."""
    temporary = shop / "tmp"
    temporary.mkdir()
    done = onward("demo", env={"TMPDIR": str(temporary)})
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("completed") == 7
    assert done.stdout.count("dead_letter") == 1
    assert "8 jobs, as expected" in done.stderr
    assert list(temporary.iterdir()) == []


def test_the_demo_fails_when_the_store_counts_something_else(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    """A demo that cannot fail proves nothing."""
    from onward.cli import demo
    from onward.status import Status

    wrong = {**demo.EXPECTED, ("greet", Status.COMPLETED): 4, ("greet", Status.CANCELLED): 1}
    monkeypatch.setattr(demo, "EXPECTED", wrong)
    result = invoke("demo", "--json")
    assert result.exit_code == 1
    assert "Error: expected 4 greet completed" in result.stderr
    assert len(lines_of_json(result.stdout)) == 8
