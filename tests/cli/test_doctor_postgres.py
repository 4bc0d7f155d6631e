"""``onward doctor`` on Postgres, as a person or a deployment runs it. What is found is tested beside the store."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pytest

from onward.clock import SystemClock
from onward.drivers import connect
from onward.testing.factories import make_new_job
from tests.drivers.tables import PostgresTables

Run = Callable[..., subprocess.CompletedProcess[str]]


def findings(done: subprocess.CompletedProcess[str]) -> dict[str, dict[str, str]]:
    assert done.stderr == ""
    return {finding["name"]: finding for finding in map(json.loads, done.stdout.splitlines())}


@pytest.fixture
def url(postgres_database: str) -> str:
    store = connect(postgres_database, clock=SystemClock(), migrate=True)
    store.enqueue([make_new_job(type="paint")])
    store.close()
    return postgres_database


def test_the_exit_code_says_whether_anything_is_an_error(onward: Run, url: str) -> None:
    """Deployments run it before they go on."""
    found = findings(onward("-u", url, "doctor", "--json"))
    done = onward("-u", url, "doctor")
    assert done.returncode == any(one["level"] == "error" for one in found.values())
    assert len(done.stdout.splitlines()) == len(found)
    PostgresTables(url).run("DROP INDEX {prefix}jobs_claim")
    done = onward("-u", url, "doctor")
    assert done.returncode == 1
    assert 'error    schema drift: index jobs_claim is missing, so every look reads all of "onward".jobs: CREATE INDEX' in done.stdout


def test_what_is_said_of_every_store_is_said_of_postgres(onward: Run, url: str, shop: Path) -> None:
    """The newest job, what is stuck, which types nobody knows, whether the settings lead elsewhere."""
    (shop / "later.py").write_text(f"from onward import Onward\napp = Onward({url!r})\n")
    done = onward("-A", "later:app", "doctor", "--json", env={"ONWARD_URL": "sqlite:///other.db"})
    found = findings(done)
    assert found["store"]["text"] == url
    assert found["newest job"]["text"].startswith("paint ")
    assert found["stuck jobs"]["text"] == "none"
    assert "does not know: paint" in found["job types"]["text"]
    assert found["settings"]["level"] == "warning"
    assert "writable" not in found


def test_a_password_is_not_shown(onward: Run, url: str) -> None:
    """What it prints is sent to others."""
    parts = urlsplit(url)
    if not parts.hostname:
        pytest.skip("the server is reached through a socket")
    secret = urlunsplit(parts._replace(netloc=f"postgres:s3cret@{parts.hostname}:{parts.port or 5432}"))
    done = onward("-u", secret, "doctor")
    assert "s3cret" not in done.stdout + done.stderr
    assert "database: " in done.stdout


def test_a_role_that_may_not_read_jobs_gets_every_finding_and_no_traceback(onward: Run, url: str) -> None:
    """It is often the first thing that a new role meets."""
    parts = urlsplit(url)
    if not parts.hostname:
        pytest.skip("the server is reached through a socket, where no other role can log in")
    role = f"onward_test_reader_{parts.path.rpartition('_')[2]}"
    tables = PostgresTables(url)
    tables.run(f"CREATE ROLE {role} LOGIN PASSWORD 'secret'; GRANT USAGE ON SCHEMA onward TO {role}")
    try:
        tables.run(f"GRANT SELECT ON {{prefix}}schema_version TO {role}")
        asked = urlunsplit(parts._replace(netloc=f"{role}:secret@{parts.hostname}:{parts.port or 5432}"))
        done = onward("-u", asked, "doctor", "--json")
    finally:
        tables.run(f"DROP OWNED BY {role}; DROP ROLE {role}")
    found = findings(done)
    assert done.returncode == 1
    assert re.search(f'GRANT .+ ON "onward"\\.\\w+ TO "{role}"', str(found["rights"]["text"]))
    assert found["newest job"]["level"] == found["stuck jobs"]["level"] == "error"
    assert "permission denied" in found["newest job"]["text"]
    assert found["schema"]["level"] == "ok"


def test_a_server_that_is_not_there_is_one_line(onward: Run) -> None:
    """Nothing else could be said."""
    done = onward("-u", "postgresql://ada:s3cret@127.0.0.1:1/shop", "doctor")
    assert (done.returncode != 0, done.stdout) == (True, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("Error: the connection to postgresql://ada@127.0.0.1:1/shop failed")
