"""One run of the canary application by real worker processes, and everything that it wrote, stored and shows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

from click.testing import CliRunner

from onward.cli.main import cli
from onward.drivers.sql.migrations import TABLES
from tests.drivers.tables import Tables
from tests.receiver import receiver
from tests.security.leaks import make_canaries

ROOT = Path(__file__).parents[2]
APP = "tests.security.canary_app"
PATIENCE = 240
OTHERS = ("dsn", "environment", "reconciler", "hook_url", "hook_secret")
"""Secrets that no job carries."""
Commands: TypeAlias = tuple[tuple[str, ...], ...]
ASKED_OF_APP: Commands = (("doctor",), ("doctor", "--json"), ("config",), ("reconcile",), ("alerts", "check"), ("alerts", "test"))
"""What is asked on the command line of the application, after the run; and of its store:"""
ASKED: Commands = (
    ("jobs", "list", "--limit", "500"),
    ("jobs", "list", "--limit", "500", "--json"),
    ("stats",),
    ("stats", "--json"),
    ("stats", "--prometheus"),
    ("history", "--limit", "500"),
    ("history", "--limit", "500", "--json"),
    ("failures", "list"),
    ("failures", "list", "--json"),
    ("alerts", "list", "--all", "--json"),
    ("workers", "--all", "--json"),
    ("actions", "--json"),
    ("doctor",),
)
ASKED_OF_EACH: Commands = (("jobs", "show", "--full"), ("jobs", "show", "--json"))
"""And of each job."""


class CanaryRun:
    """Enqueues, runs and looks, all in processes whose only way to the store is ``ONWARD_URL``.

    ``canaries`` are the secrets by name, ``ids`` the jobs by the name of their type, ``sources`` all that there is to read afterwards.
    """

    def __init__(self, home: Path, tables: Tables, url: str, canaries: Mapping[str, str], *, is_planted: bool = False) -> None:
        self.canaries = canaries
        self.sources: dict[str, str] = {}
        self._home = home
        self._tables = tables
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("ONWARD_", "CANARY_"))},
            "ONWARD_URL": url,
            "CANARY_HOME": str(home),
            "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
            "SERVICE_TOKEN": canaries["environment"],
            "CANARY_PLANTED": "yes" if is_planted else "",
        }
        (home / "canaries.json").write_text(json.dumps(canaries))
        self.ids: dict[str, str] = json.loads(self._run(APP))
        self._damage(self.ids["damaged"], json.dumps({"api_key": [canaries["damaged"]]}))
        drain = ("onward", "-A", f"{APP}:app", "worker", "--drain")
        self.sources["worker stdout"] = self._run(*drain, keep="worker stderr")
        with receiver() as there:
            # What the rules of alerts find is told by HTTP, and to people who look at a group of dead letters.
            self._environment["CANARY_HOOK"] = there.url
            self._run("onward", "-A", f"{APP}:app", "alerts", "check", keep="alerts check (stderr)")
            self.sources["worker stdout"] += self._run(*drain, keep="worker stderr")
            self.sources["webhook bodies"] = "\n".join(one.body.decode() for one in there.received)
        for line in self._invoke("failures", "list", "--json").splitlines():
            self._add("failures show", self._invoke("failures", "show", json.loads(line)["id"]))
        self._read_store()
        for name in ("events", "arguments"):
            self.sources[name] = (home / name).read_text(errors="replace")

    def ask(self) -> None:
        """Ask everything on the command line, and keep what it says on stdout and on stderr."""
        for command in ASKED_OF_APP:
            self._add(" ".join(("-A", *command)), self._run("onward", "-A", f"{APP}:app", *command, keep=f"{command[0]} (stderr)"))
        for command in ASKED:
            self._add(" ".join(command), self._invoke(*command))
        for command in ASKED_OF_EACH:
            for job_id in self.ids.values():
                self._add(" ".join(command), self._invoke(*command, job_id))

    def error_of(self, job: str) -> str:
        """What is stored as a job's error."""
        ((error,),) = self._tables.rows(f"SELECT error FROM {{prefix}}jobs WHERE id = '{self.ids[job]}'")
        return str(error)

    def _damage(self, job_id: str, payload: str) -> None:
        self._tables.run(f"UPDATE {{prefix}}jobs SET payload = '{payload}' WHERE id = '{job_id}'")

    def _read_store(self) -> None:
        for table in TABLES:
            for column in self._columns(table):
                rows = self._tables.rows(f'SELECT "{column}" FROM {{prefix}}{table}')
                self.sources[f"{table}.{column}"] = "\n".join(str(value) for (value,) in rows)

    def _columns(self, table: str) -> list[str]:
        if hasattr(self._tables, "schema"):
            place = f"table_schema = '{self._tables.schema}' AND table_name = '{table}'"
            asked = f"SELECT column_name FROM information_schema.columns WHERE {place}"
        else:
            asked = f"SELECT name FROM pragma_table_info('{{prefix}}{table}')"
        return [name for (name,) in self._tables.rows(asked)]

    def _invoke(self, *command: str) -> str:
        answer = CliRunner(env={"ONWARD_URL": self._environment["ONWARD_URL"]}).invoke(cli, command)
        assert answer.exit_code in (0, 1), answer.output  # 1: doctor has something to say of the server
        return answer.output

    def _add(self, source: str, text: str) -> None:
        self.sources[source] = self.sources.get(source, "") + text

    def _run(self, *arguments: str, keep: str = "") -> str:
        done = subprocess.run(
            [sys.executable, "-m", *arguments],
            cwd=ROOT,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE,
            text=True,
            errors="replace",
            check=False,
        )
        assert keep or done.returncode == 0, done.stderr
        self._add(keep or "enqueue (stderr)", done.stderr)
        return done.stdout


def new_canaries(jobs: Iterable[str]) -> dict[str, str]:
    """A secret for each job, and for what no job carries."""
    return make_canaries(dict.fromkeys([*jobs, *OTHERS]))
