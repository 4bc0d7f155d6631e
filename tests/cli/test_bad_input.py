"""Whatever is wrong, the person gets one clear line, a script the right exit code, and nobody a traceback."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]


def one_line(done: subprocess.CompletedProcess[str], code: int, *parts: str) -> None:
    """The shape of every failure."""
    assert done.returncode == code, (done.stdout, done.stderr)
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("Error: ")
    for part in parts:
        assert part in lines[0]


@pytest.mark.parametrize(
    ("args", "parts"),
    [
        (["jobz"], ["No such command 'jobz'", "jobs"]),
        (["jobs", "lst"], ["No such command 'lst'", "onward jobs --help"]),
        (["jobs", "list", "--statu", "queued"], ["--statu", "--status"]),
        (["jobs", "list", "--status", "pending"], ["'pending' is not one of 'queued'"]),
        (["jobs", "list", "--limit", "0"], ["--limit"]),
        (["jobs", "list", "--limit", "many"], ["'--limit': must be a whole number of at least 1, not 'many'"]),
        (["jobs", "show"], ["Missing argument 'ID'"]),
        (["jobs", "retry"], ["say which jobs: their ids, or --status, --type, --queue, --key or --owner"]),
        (["stats", "everything"], ["'everything' is not one of 'now', 'outstanding'"]),
        (["stats", "--stuck-after", "soon"], ["--stuck-after 'soon' is not a duration"]),
        (["completion", "tcsh"], ["'tcsh' is not one of"]),
        (["worker", "--concurrency", "0"], ["'--concurrency': must be a whole number from 1 to 10,000, not '0'"]),
        (["worker", "--concurrency", "lots"], ["'--concurrency': must be a whole number from 1 to 10,000, not 'lots'"]),
        (["worker", "--grace", "long"], ["--grace: 'long' is not a duration"]),
        (["worker", "--queues", "a b"], ["--queues:", "'a b'", "a queue is"]),
        (["jobs", "list", "--before", "nope"], ["--before is the id of a job", "'nope'"]),
        (["-u", "sqlite:/x.db", "stats"], ["'sqlite:/x.db' lacks slashes: write sqlite:///x.db (relative)"]),
        (["-u", "sqlite:///x.db", "worker"], ["leave --url out", "only where the application names none"]),
        (["-u", "sqlite:///x.db", "enqueue", "broken"], ["leave --url out", "only where the application names none"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_wrong_usage_is_told_in_one_line(onward: Run, args: list[str], parts: list[str]) -> None:
    """Exit code 2, what was wrong, and where help is."""
    one_line(onward(*args, env={"ONWARD_APP": "shop:app"}), 2, *parts)


@pytest.mark.parametrize(
    ("args", "parts"),
    [
        (["send-welcom", "{}"], ["'send-welcom'", "did you mean 'send-welcome'?"]),
        (["send-welcome"], ["send-welcome needs a payload"]),
        (["send-welcome", "{user_id: 1}"], ["not JSON", "line 1 column 2"]),
        (["send-welcome", "{}"], ["missing required field 'user_id' (at $)"]),
        (["send-welcome", '{"user_id": 5}'], ["$.user_id"]),
        (["send-welcome", '{"user_id": "a", "user_id": "b"}'], ["occurs twice"]),
        (["send-welcome", '{"user_id": "a\\u0000"}'], ["NUL"]),
        (["send-welcome", '{"user_id": NaN}'], ["NaN"]),
        (["send-welcome", "[" * 5000], ["levels deep"]),
        (["send-welcome", "@missing.json"], ["'missing.json'", "No such file"]),
        (["send-welcome", "@."], ["'.'", "directory"]),
        (["send-welcome", json.dumps({"user_id": "x" * 110_000})], []),
        (["broken", "5"], ["$"]),
        (["broken", "--delay", "soon"], ["--delay soon is not a duration"]),
        (["broken", "--delay", "-5m"], ["--delay -5m is negative"]),
        (["send-welcome", '{"user_id": "1", "lowd": true}'], ["no field 'lowd'", "'loud'", "$"]),
        (["broken", "--at", "tomorrow"], ["--at tomorrow is not a time"]),
        (["broken", "--at", "2026-03-01T09:30:00"], ["no time zone: add one, such as '2026-03-01T09:30:00Z'"]),
        (["broken", "--at", "9999-03-01T09:30:00Z"], ["--at 9999-03-01T09:30:00+00:00 is out of range"]),
        (["broken", "--delay", "5m", "--at", "2099-03-01T09:30:00Z"], ["--delay or --at, not both"]),
        (["broken", "--priority", "101"], ["-100 to 100"]),
        (["broken", "--priority", "high"], ["'high' is not a valid integer"]),
        (["broken", "--queue", "no such queue"], ["queue"]),
        (["broken", "--key", ""], ["key"]),
        (["broken", "--key", "k", "--scope", "always"], ["'active', 'forever' or a window such as '24h', not 'always'"]),
        (["broken", "--key", "k", "--scope", "0s"], ["longer than nothing"]),
        (["broken", "--scope", "24h"], ["--scope says how long", "this job has no key: give --key as well"]),
        (["broken", "--key", "k", "--on-duplicate", "ignore"], ["'ignore' is not one of 'return', 'same', 'raise'"]),
        (["broken", "--metadata", "[1]"], ["JSON object"]),
        (["broken", "--metadata", "{"], ["--metadata", "not JSON"]),
        (["broken", "--id", "17"], ["ULID"]),
        (["broken", "--expires", "never"], ["--expires never is not a duration"]),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else None,
)
def test_a_job_that_cannot_be_accepted_is_told_in_one_line(onward: Run, shop: Path, args: list[str], parts: list[str]) -> None:
    """And nothing is stored."""
    if "x" * 100 in args[-1]:
        (shop / "large.json").write_text(json.dumps({"user_id": "x" * 300_000}))
        args, parts = ["send-welcome", "@large.json"], ["300,014 bytes", "262,144"]
    one_line(onward("-A", "shop:app", "enqueue", *args), 2, *parts)
    assert not (shop / "shop.db").exists() or onward("-A", "shop:app", "jobs", "list", "--json").stdout == ""


def test_a_payload_that_is_not_utf8_is_told_in_one_line(onward: Run) -> None:
    """Bytes cannot be stored as JSON text."""
    one_line(onward("-A", "shop:app", "enqueue", "send-welcome", "-", input=b'"\xff"'), 2, "not UTF-8")


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("shop", ["shop"]),
        ("shop:", ["shop"]),
        ("shap:app", ["shap"]),
        ("shop:ap", ["'ap'"]),
        ("shop:not_an_app", ["not_an_app"]),
        ("typo:app", ["NameError"]),
        ("quits:app", ["quits"]),
        ("./shop.py:app", ["'./shop.py:app' names no module: write shop:app"]),
        ("shop.py:app", ["'shop.py:app' names no module: write shop:app"]),
        ("./jobs/mail.py:app", ["write jobs.mail:app"]),
        ("../shop.py:app", ["write shop:app, in the directory /"]),
        (".shop:app", ["write shop:app"]),
    ],
)
@pytest.mark.parametrize("command", [["enqueue", "broken"], ["worker", "--drain"], ["jobs", "list"]], ids=lambda command: command[0])
def test_an_application_that_is_not_there_is_told_in_one_line(
    onward: Run, shop: Path, name: str, parts: list[str], command: list[str]
) -> None:
    """Exit code 4; a typo in the name is the first mistake that everyone makes."""
    (shop / "typo.py").write_text("app = undefined_name\n")
    (shop / "quits.py").write_text("import sys\nsys.exit(0)\n")
    one_line(onward("-A", name, *command), 4, *parts)


@pytest.mark.parametrize("command", [["enqueue", "broken"], ["worker"], ["reconcile"]], ids=lambda command: command[0])
def test_no_application_is_told_in_one_line(onward: Run, command: list[str]) -> None:
    """The two ways to give one are named; a store alone has no jobs that could be run."""
    one_line(onward(*command), 2, "no application is given", "-A module:attribute", "ONWARD_APP")
    one_line(onward("-u", "sqlite:///x.db", *command), 2, "no application is given", "-A module:attribute", "leave --url out")


@pytest.mark.parametrize("command", [["jobs", "list"], ["stats"], ["doctor"], ["migrate"]], ids=" ".join)
def test_no_store_is_told_in_one_line(onward: Run, command: list[str]) -> None:
    """The ways to give one are named."""
    one_line(onward(*command), 2, "ONWARD_URL")


@pytest.mark.parametrize(
    "command", [["jobs", "list"], ["stats"], ["doctor"], ["jobs", "cancel", "01JE0000000000000000000000"]], ids=" ".join
)
@pytest.mark.parametrize("where", [["-u", "sqlite:///typo.db"], ["-A", "shop:app"]], ids=lambda where: where[0])
def test_looking_at_a_file_that_is_not_there_does_not_make_it(onward: Run, shop: Path, where: list[str], command: list[str]) -> None:
    """An empty store in the wrong place answers every question with "nothing", and looks healthy for weeks."""
    one_line(onward(*where, *command), 3, "there is no sqlite:///", f": correct the URL, or run onward {' '.join(where)} migrate")
    assert list(shop.glob("*.db")) == []


@pytest.mark.parametrize("command", [["jobs", "list"], ["migrate", "--check"], ["migrate"]], ids=" ".join)
def test_a_path_that_cannot_be_is_told_in_one_line(onward: Run, command: list[str]) -> None:
    """Asking whether a file is there can fail by itself; the store says why."""
    one_line(onward("-u", f"sqlite:///{'x' * 300}.db", *command), 3, "xxx")


def foreign(path: Path) -> None:
    path.write_text("this is a shopping list, " * 200)


def directory(path: Path) -> None:
    path.mkdir()


def newer(path: Path) -> None:
    from onward.app import Onward

    with Onward(f"sqlite:///{path}") as app:
        app.store.open()
    with closing(sqlite3.connect(path)) as connection, connection:
        raise_schema_version(connection)


def raise_schema_version(connection: sqlite3.Connection) -> None:
    """Pretend that a later Onward was here, whose tables this one must not use."""
    connection.execute("INSERT INTO onward_schema_version VALUES (999, '2099-01-01', 999)")


COMMANDS_ON_A_STORE = [
    ["jobs", "list"],
    ["stats"],
    ["doctor"],
    ["migrate"],
    ["migrate", "--check"],
    ["jobs", "retry", "01JE0000000000000000000000"],
]


@pytest.mark.parametrize("command", COMMANDS_ON_A_STORE, ids=" ".join)
@pytest.mark.parametrize(("make", "code"), [(foreign, 3), (directory, 3), (newer, 5)])
def test_a_file_that_is_not_our_store_is_told_in_one_line(
    onward: Run, shop: Path, command: list[str], make: Callable[[Path], None], code: int
) -> None:
    """And the file is left as it is."""
    path = shop / "odd.db"
    make(path)
    before = path.read_bytes() if path.is_file() else b""
    one_line(onward("-u", "sqlite:///odd.db", *command), code, "odd.db")
    assert (path.read_bytes() if path.is_file() else b"") == before


@pytest.mark.parametrize(
    ("url", "code", "parts"),
    [
        ("sqlite://", 2, ["names no file"]),
        ("sqlite:///:memory:", 2, [":memory:"]),
        ("sqlite://x.db", 2, ["two slashes"]),
        ("mysql://x", 2, ["names no backend", "use sqlite:///file.db"]),
        ("x.db", 2, ["names no backend"]),
        ("postgrsql://me:secret@h/db", 2, ["'postgrsql://…' names no backend", "did you mean 'postgresql'?"]),
        ("sqllite:///x.db", 2, ["'sqllite:///x.db' names no backend", "did you mean 'sqlite'?"]),
        ("postgresql://h/db?shema=jobs", 2, ["shema= means nothing in a postgresql:// URL", "did you mean 'schema'?"]),
        ("postgresql://h/db?timeout=soon", 2, ["timeout: 'soon' is not a duration"]),
        ("postgresql://127.0.0.1/db?connect_timeout=soon", 2, ["bad value for connect_timeout"]),
        ("sqlite:///x.db?tiemout=5s", 2, ["tiemout= means nothing in a sqlite:// URL", "did you mean 'timeout'?"]),
        ("sqlite:///x.db?color=red", 2, ["color= means nothing", "known are prefix, timeout, network_file_system"]),
        ("sqlite:///x.db?network_file_system=alow", 2, ["network_file_system must be allow or refuse, not 'alow'"]),
        ("sqlite:///x.db?timeout=soon", 2, ["timeout: 'soon' is not a duration"]),
        ("memory://jobs", 2, ["takes nothing after it"]),
        ("sqlite:///no/such/folder/x.db", 3, ["no/such/folder"]),
        ("postgres://me:secret@127.0.0.1:1/db", 3, ["postgresql://me@127.0.0.1:1/db", "is the server running"]),
    ],
)
def test_a_url_that_cannot_be_used_is_told_in_one_line(onward: Run, url: str, code: int, parts: list[str]) -> None:
    """The form of a URL is easily mistaken; a password in it is never printed."""
    done = onward("-u", url, "jobs", "list")
    one_line(done, code, *parts)
    assert "secret" not in done.stderr


def test_a_locked_database_is_told_in_one_line(onward: Run, shop: Path) -> None:
    """Another program holds the only write lock: nothing was accepted, trying again is safe."""
    onward("-A", "shop:app", "enqueue", "broken")
    with closing(sqlite3.connect(shop / "shop.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        (shop / "impatient.py").write_text(
            "from shop import *\napp = Onward('sqlite:///shop.db?timeout=100ms', jobs=[define_job('broken', broken)])\n"
        )
        one_line(onward("-A", "impatient:app", "enqueue", "broken"), 3)
        listed = onward("-u", "sqlite:///shop.db?timeout=100ms", "jobs", "list", "--json")
        assert (listed.returncode, len(listed.stdout.splitlines())) == (0, 1)


AS_NOBODY = """
import os
import onward.drivers, onward.drivers.sqlite.driver
from onward.cli.main import main

connect = onward.drivers.connect

def connect_as_nobody(*args, **options):
    store = connect(*args, **options)
    if os.geteuid() == 0:
        os.setegid(65534), os.seteuid(65534)
    return store

onward.drivers.connect = connect_as_nobody
main()
"""


def test_a_read_only_database_is_told_in_one_line(onward: Run, shop: Path, environment: dict[str, str]) -> None:
    """Not everyone who may read a store may write it."""
    onward("-A", "shop:app", "enqueue", "broken")
    job_id = json.loads(onward("-A", "shop:app", "jobs", "list", "--json").stdout)["id"]
    for path in shop.glob("shop.db*"):
        path.chmod(0o444)
    for folder in (shop, *list(shop.parents)[:3]):
        if os.access(folder, os.W_OK) and folder.owner() == shop.owner():
            folder.chmod(0o555)
    try:
        command = [sys.executable, "-c", AS_NOBODY, "-u", "sqlite:///shop.db", "jobs", "cancel", job_id]
        done = subprocess.run(command, cwd=shop, env=environment, capture_output=True, text=True, timeout=60, check=False)
    finally:
        for folder in (shop, *list(shop.parents)[:3]):
            if folder.owner() == shop.owner():
                folder.chmod(0o755)
    one_line(done, 3, "shop.db")


def test_errors_are_one_line_also_when_the_message_is_not(onward: Run) -> None:
    """Line ends and escapes in what was typed must not forge a second line."""
    one_line(onward("-u", "memory://", "jobs", "show", "a\nError: b\x1b[31m"), 1, "a Error: b\\x1b[31m")


def test_an_unwritable_output_is_told_in_one_line(onward: Run, shop: Path, environment: dict[str, str]) -> None:
    """A full disk behind stdout is neither a bug nor a success."""
    onward("-A", "shop:app", "enqueue", "broken")
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "onward", "-A", "shop:app", "jobs", "list"]
        done = subprocess.run(command, cwd=shop, env=environment, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines() == ["Error: the output cannot be written: No space left on device"]


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_reader_that_leaves_ends_the_list_quietly(shop: Path, environment: dict[str, str], options: list[str]) -> None:
    """``onward jobs list | head -1`` is no error, and a traceback after it is noise."""
    fill = (
        "from shop import *\njob = app.definitions['send-welcome']\napp.enqueue_many(job.new_job(Welcome(str(n))) for n in range(10_000))\n"
    )
    subprocess.run(
        [sys.executable, "-c", fill], cwd=shop, env={**environment, "PYTHONPATH": environment["PYTHONPATH"] + ":."}, timeout=120, check=True
    )
    command = [sys.executable, "-m", "onward", "-A", "shop:app", "jobs", "list", "--limit", "10000", *options]
    with subprocess.Popen(command, cwd=shop, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        stderr = process.stderr.read()
        assert process.wait(60) == 0
    assert stderr == ""


def test_ctrl_c_ends_with_130(shop: Path, environment: dict[str, str]) -> None:
    """As shells expect of a program that was interrupted; and no traceback."""
    import signal

    program = (
        "import os, signal\n"
        "import onward.cli.jobs as jobs\n"
        "jobs.open_store_and_application = lambda: os.kill(os.getpid(), signal.SIGINT)\n"
        "from onward.cli.main import main\n"
        "main()\n"
    )
    signal_as_in_a_terminal = lambda: signal.signal(signal.SIGINT, signal.default_int_handler)  # noqa: E731
    done = subprocess.run(
        [sys.executable, "-c", program, "jobs", "list"],
        cwd=shop,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        preexec_fn=signal_as_in_a_terminal,
    )
    assert done.returncode == 130
    assert "Traceback" not in done.stderr
