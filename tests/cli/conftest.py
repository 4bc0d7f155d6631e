"""A small shop with jobs in a folder of its own, and the real command run in it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

import pytest
from click.testing import CliRunner, Result

from onward.app import Onward
from onward.cli.main import cli
from onward.definition import define_job
from onward.retry import RetryPolicy

SHOP = """
from __future__ import annotations

from dataclasses import dataclass

from onward import JobContext, Onward, PermanentJobError, define_job


@dataclass
class Welcome:
    user_id: str
    loud: bool = False


def send_welcome(payload: Welcome, ctx: JobContext) -> str:
    return f"welcome {payload.user_id}"


def broken() -> None:
    raise PermanentJobError("not\\x1b[31m today")


class Ledger:
    name = "ledger"
    discrepancies: list[str] = []

    def reconcile(self, store):
        class Found:
            checked, unchecked, pending, discrepancies = 7, 2, 1, Ledger.discrepancies
            notes = ["2 entries are older than the jobs that are kept"]
        return Found

    def sweep(self, store):
        return []


app = Onward(
    "sqlite:///shop.db",
    jobs=[define_job("send-welcome", send_welcome, queue="mail"), define_job("broken", broken)],
    reconcile=[Ledger()],
)
not_an_app = 42


def make_app() -> Onward:
    return app
"""


class Run(Protocol):
    def __call__(
        self, *args: str, input: str | bytes | None = None, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]: ...


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A folder with an application ``shop:app`` whose store is ``shop.db`` beside it."""
    (tmp_path / "shop.py").write_text(SHOP)
    return tmp_path


@pytest.fixture
def environment() -> dict[str, str]:
    """The environment without settings of ours, and with the code under test on the path of every child."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("ONWARD_", "NO_COLOR"))}
    source = str(Path(__file__).resolve().parents[2] / "src")
    return {**clean, "PYTHONPATH": source, "PYTHONDONTWRITEBYTECODE": "1"}


@pytest.fixture
def onward(shop: Path, environment: dict[str, str]) -> Run:
    """Run the real command in the shop's folder."""

    def run(*args: str, input: str | bytes | None = None, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        data = input.encode() if isinstance(input, str) else input or b""
        done = subprocess.run(
            [sys.executable, "-m", "onward", *args],
            cwd=shop,
            env={**environment, **(env or {})},
            input=data,
            capture_output=True,
            timeout=60,
            check=False,
        )
        return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())

    return run


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture
def invoke(url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Result]:
    """Run a command in this process, on the store at ``url``."""
    for name in list(os.environ):
        if name.startswith("ONWARD_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)

    def run(*args: str, input: str | None = None) -> Result:
        return CliRunner().invoke(cli, ["-u", url, *args], input=input)

    return run


def echo(text: str) -> str:
    return text


def fail(text: str) -> None:
    raise ValueError(f"cannot do {text}\nsecond line\x1b[31m")


@pytest.fixture
def app(url: str) -> Onward:
    """An application in this process, on the same store."""
    return Onward(
        url,
        jobs=[
            define_job("echo", echo, payload=str, queue="mail"),
            define_job("fail", fail, payload=str, retry=RetryPolicy(1)),
        ],
    )
