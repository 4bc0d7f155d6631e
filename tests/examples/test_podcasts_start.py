"""How the podcasts example is installed and started: what its README says is all there is to it, and what is missing is said in a line."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from importlib.metadata import packages_distributions, requires
from pathlib import Path
from typing import Any

import httpx
import pytest

from examples.podcasts.home import sqlalchemy_url
from examples.podcasts.processes import until
from onward import Onward
from tests.loopback import free_port

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "podcasts"


def run(home: Path, module: str, *words: str, url: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("EXAMPLE_", "DEMO_", "ONWARD_"))}
    return subprocess.run(
        [sys.executable, "-m", module, *words],
        cwd=home,
        env={**clean, "PYTHONPATH": str(ROOT), "EXAMPLE_PODCASTS_URL": url},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def unusable(server: Any, how: str) -> str:
    """The URL of a database that is not there, or of a role that is not, on a server that is."""
    if how == "MISSING":
        return str(server.database("nowhere_at_all"))
    return re.sub(r"//[^@/]*@?", "//nobody_at_all@", server.url, count=1)


def one_line(done: subprocess.CompletedProcess[str], code: int, said: str) -> None:
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr


# -- install -------------------------------------------------------------------------------------------------------------


def test_the_readme_lists_every_package_that_is_imported() -> None:
    """Who follows it in an environment of their own gets no ModuleNotFoundError; the drivers are named in URLs only."""
    (line,) = re.findall(r"^pip install (.+)$", (EXAMPLE / "README.md").read_text(), re.MULTILINE)
    listed = {re.split(r"[\[<>=]", word.strip("'"))[0].lower() for word in line.split()}
    assert "." in listed
    assert "'.[postgres]'" in line
    assert "'sqlalchemy[asyncio]'" in line
    assert {"aiosqlite"} <= listed
    for name in [one for one in listed if one not in (".", "onward")]:
        listed |= {re.split(r"[^\w.-]", need)[0].lower() for need in requires(name) or () if "extra ==" not in need}
    imported = set()
    for path in EXAMPLE.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add(str(node.module).partition(".")[0])
    others = imported - set(sys.stdlib_module_names) - {"examples", "onward", "psycopg"}
    assert others == {"fastapi", "httpx", "pydantic", "sqlalchemy", "uvicorn"}
    assert [one for one in others if not {name.lower() for name in packages_distributions()[one]} & listed] == []


@pytest.mark.parametrize(("how", "said"), [("MISSING", "does not exist: create the database"), ("REFUSED", "refused the log-in")])
@pytest.mark.parametrize(
    ("module", "words", "code"),
    [
        ("examples.podcasts.install", (), 1),
        ("examples.podcasts.serve", ("--port", "0"), 1),
        ("onward", ("-A", "examples.podcasts.jobs:app", "worker"), 3),
        ("onward", ("-A", "examples.podcasts.jobs:app", "worker", "--drain"), 3),
    ],
)
def test_a_database_that_cannot_be_used_is_told_in_one_line(
    tmp_path: Path, postgres: Any, how: str, said: str, module: str, words: tuple[str, ...], code: int
) -> None:
    """The first mistake that is made, and the traceback of three libraries hides it."""
    one_line(run(tmp_path, module, *words, url=unusable(postgres, how)), code, said)


@pytest.mark.parametrize("module", ["examples.podcasts.install", "examples.podcasts.serve"])
@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://127.0.0.1:1/nowhere", "is the server running"),
        ("postgresql://127.0.0.1/nowhere?shema=mine", "did you mean 'schema'?"),
        ("sqlite:////nowhere/at/all.db", "/nowhere/at"),
        ("memory://", "EXAMPLE_PODCASTS_URL is sqlite:///file.db or postgresql://host/database, not memory://"),
    ],
)
def test_any_other_mistake_in_the_url_is_one_line_as_well(tmp_path: Path, module: str, url: str, said: str) -> None:
    """Whichever library meets it first."""
    one_line(run(tmp_path, module, url=url), 1, said)


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_the_api_says_what_to_run_where_the_tables_are_missing(request: pytest.FixtureRequest, tmp_path: Path, database: str) -> None:
    """The step of the README that is forgotten."""
    url = f"sqlite:///{tmp_path}/a.db" if database == "sqlite" else request.getfixturevalue("postgres_database")
    one_line(run(tmp_path, "examples.podcasts.serve", "--port", "0", url=url), 1, "run python -m examples.podcasts.install")
    assert run(tmp_path, "examples.podcasts.install", url=url).returncode == 0


def test_an_outage_under_the_api_is_a_line_a_request(private_postgres: Any, tmp_path: Path) -> None:
    """A log that is full of tracebacks hides the one that matters; whoever asked is told to ask again."""
    url, port = private_postgres.url, free_port()
    assert run(tmp_path, "examples.podcasts.install", url=url).returncode == 0
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("EXAMPLE_", "DEMO_", "ONWARD_"))}
    environment = {**clean, "PYTHONPATH": str(ROOT), "EXAMPLE_PODCASTS_URL": url}
    command = [sys.executable, "-m", "examples.podcasts.serve", "--port", str(port)]
    log = tmp_path / "api.log"
    with log.open("wb") as written, subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=written, stderr=written) as server:
        try:
            until(lambda: "running on" in log.read_text(), "the API does not listen")
            private_postgres.stop("immediate")
            who = {"name": "ada", "password": "correct horse"}
            answer = httpx.post(f"http://127.0.0.1:{port}/users", json=who, timeout=30)
            assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
            private_postgres.start()
            assert httpx.post(f"http://127.0.0.1:{port}/users", json=who, timeout=30).status_code == 201
        finally:
            server.terminate()
    assert "Traceback" not in log.read_text()
    assert [line.partition(":")[0] for line in log.read_text().splitlines() if not line.startswith("INFO")] == ["the database is away"]


# -- the URL -------------------------------------------------------------------------------------------------------------


def test_the_url_may_say_what_is_for_onward_alone(tmp_path: Path, postgres_database: str) -> None:
    """One variable serves both, and SQLAlchemy's driver refuses what it does not know."""
    given = f"{postgres_database}{'&' if '?' in postgres_database else '?'}schema=podcasts_jobs&timeout=2s&application_name=podcasts"
    assert set(sqlalchemy_url(given).query) >= {"application_name"}
    assert not {"schema", "timeout", "connections", "notify", "prepare"} & set(sqlalchemy_url(given).query)
    done = run(tmp_path, "examples.podcasts.install", url=given)
    assert (done.returncode, done.stderr) == (0, "")
    with Onward(given) as app:
        assert app.find() == []
