"""Passwords of a URL, and what an application's own errors hold, are in no answer of the command line and in no error's text."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from onward.application import load_application
from onward.cli.main import cli
from onward.clock import SystemClock
from onward.drivers import connect
from onward.errors import ApplicationNotFound, OnwardError
from onward.settings import Settings
from onward.testing.factories import make_new_job
from tests.loopback import free_port
from tests.security.leaks import is_in, make_canaries

ROOT = Path(__file__).parents[2]
CANARY = make_canaries(["url"])["url"]
URLS = [
    "postgresql://app:§@127.0.0.1:1/shop",
    "postgresql://app:§@127.0.0.1:1/shop?schema=1+1",
    "postgresql://app:§@127.0.0.1:1/shop?sslmode=sure",
    "postgresql://app:§@127.0.0.1:1/shop?colour=red",
    "postgresql://app:§@127.0.0.1:1/shop?connections=0",
    "postgresql://app:§@127.0.0.1:port/shop",
    "postgresql://app:§@127.0.0.1:99999/shop",
    "postgresql://app:§@[::1/shop",
    "postgresql://app:§@127.0.0.1:1/shop#part",
    "postgresql://app:§/x@127.0.0.1:1/shop",
    "postgresql://app:§?x@127.0.0.1:1/shop",
    "postgresql://app:§#x@127.0.0.1:1/shop",
    "postgresql://app:§@x@127.0.0.1:1/shop",
    "postgresql://app:§%zz@127.0.0.1:1/shop",
    "postgresql://app:§%00@127.0.0.1:1/shop",
    "postgresql://app:§℀@127.0.0.1:1/shop",
    "postgresql://:§@127.0.0.1:1/shop",
    "postgresql://127.0.0.1:1/shop?user=app&password=§",
    "postgresql://127.0.0.1:1/shop?password=§&password=§",
    "postgresql://127.0.0.1:1/shop?sslpassword=§&connect_timeout=1",
    "postgresql+oddlib://app:§@127.0.0.1:1/shop",
    "postgres://app:§@127.0.0.1:1/shop?timeout=soon",
    "postgersql://app:§@127.0.0.1:1/shop",
    "mysql://app:§@127.0.0.1:1/shop",
    "app:§@127.0.0.1:1/shop",
    *(
        url
        for url in (
            "mysql://127.0.0.1/shop?user=app&password=§",
            "postgersql://127.0.0.1/shop?password=§",
            "sqlite://app:§@127.0.0.1/shop",
            "memory://app:§@127.0.0.1/shop",
            "sqlite:app:§@127.0.0.1/shop?password=§",
        )
    ),
    *(f"postgresql://127.0.0.1:1/shop?{name}=§" for name in ("oauth_client_secret", "scram_client_key", "scram_server_key")),
]
COMMANDS = [("jobs", "list"), ("stats",), ("doctor",), ("migrate",), ("config",), ("jobs", "show", "x")]


def said_by(arguments: list[str], environment: dict[str, str]) -> str:
    clean = {name: None for name in os.environ if name.startswith(("ONWARD_", "PG"))}
    answer = CliRunner(env={**clean, **environment}).invoke(cli, arguments)
    assert answer.exception is None or isinstance(answer.exception, SystemExit), repr(answer.exception)
    assert answer.exit_code in (0, 1, 2, 3), answer.output
    return answer.output


@pytest.mark.parametrize("given", ["option", "variable"])
@pytest.mark.parametrize("url", URLS)
def test_no_command_repeats_a_password(url: str, given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of a URL that is mistyped: its error is what is pasted into a ticket."""
    monkeypatch.chdir(tmp_path)
    whole = url.replace("§", CANARY)
    for command in COMMANDS:
        said = said_by(["-u", whole, *command], {}) if given == "option" else said_by([*command], {"ONWARD_URL": whole})
        assert not is_in(CANARY, said), said
        assert "Traceback" not in said
    assert not is_in(CANARY, store_as_text(whole))


def store_as_text(url: str) -> str:
    """What a store at this URL is called, or why there is none."""
    try:
        store = connect(url, clock=SystemClock())
    except OnwardError as error:
        return str(error)
    with closing(store):
        return f"{store.url} {store!r}"


@pytest.mark.parametrize("place", ["url", "listen_url"])
def test_settings_are_shown_without_their_passwords(place: str) -> None:
    """``onward config`` is what people are asked to send."""
    settings = Settings({}, environment={f"ONWARD_{place.upper()}": f"postgresql://app:{CANARY}@localhost/shop?sslpassword={CANARY}"})
    assert settings[place].value.count(CANARY) == 2
    assert not is_in(CANARY, settings[place].shown)


def test_a_password_in_a_broken_settings_file_is_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line that is not TOML may be the one with the URL."""
    monkeypatch.chdir(tmp_path)
    for text in (
        f'url = "postgresql://app:{CANARY}@localhost/shop',
        f"url = postgresql://app:{CANARY}@localhost",
        f'urk = "{CANARY}"\nurl = 5',
    ):
        (tmp_path / "onward.toml").write_text(text)
        assert not is_in(CANARY, said_by(["jobs", "list"], {}))


@pytest.fixture
def broken_application(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a module that does not load; what its error says is up to the test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield "canary_that_does_not_load"
    sys.modules.pop("canary_that_does_not_load", None)


@pytest.mark.parametrize(
    "source",
    [
        "raise RuntimeError('cannot reach postgresql://app:§@localhost/shop')",
        "url = 'postgresql://app:§@localhost/shop'; raise RuntimeError('the line with the secret is shown as well')",
        "def app():\n    raise ValueError('password=§')",
        "raise SystemExit('token: §')",
    ],
)
def test_an_application_that_does_not_load_tells_no_secret(broken_application: str, source: str) -> None:
    """It often fails because something that it connects to has refused it, and the error has all that it was tried with."""
    Path(f"{broken_application}.py").write_text(source.replace("§", CANARY))
    with pytest.raises(ApplicationNotFound) as failed:
        load_application(f"{broken_application}:app")
    assert "failed" in str(failed.value)
    assert not is_in(CANARY, str(failed.value))


APP = """
from onward import Onward, define_job

class Ledger:
    name = "ledger"
    def sweep(self, store):
        raise RuntimeError("the ledger refused password=§")
    def reconcile(self, store): ...

def alert(event):
    raise RuntimeError("no answer from https://app:§@example.com")

app = Onward(jobs=[define_job("work", lambda: None)], subscribers=[alert], reconcile=[Ledger()])
"""


def run_worker(folder: Path, url: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "shop.py").write_text(APP.replace("§", CANARY))
    environment: dict[str, Any] = {name: value for name, value in os.environ.items() if not name.startswith("ONWARD_")}
    return subprocess.run(
        [sys.executable, "-m", "onward", "-A", "shop:app", "worker", *arguments],
        cwd=folder,
        env={**environment, "PYTHONPATH": str(ROOT / "src"), "ONWARD_URL": url},
        capture_output=True,
        timeout=60,
        text=True,
        check=False,
    )


def test_a_worker_that_cannot_reach_its_store_tells_no_password(tmp_path: Path) -> None:
    """Its log is read by more people than the settings are."""
    done = run_worker(tmp_path, f"postgresql://app:{CANARY}@127.0.0.1:{free_port()}/shop", "--drain")
    assert done.returncode == 3, done.stderr
    assert "127.0.0.1" in done.stderr
    assert not is_in(CANARY, done.stdout + done.stderr)


def test_what_an_application_raises_beside_its_jobs_is_logged_without_secrets(tmp_path: Path) -> None:
    """Subscribers and checks of an application fail as handlers do, and with the same words."""
    with_job = tmp_path / "jobs.db"
    store = connect(f"sqlite:///{with_job}", clock=SystemClock())
    store.enqueue([make_new_job()])
    store.close()
    done = run_worker(tmp_path, f"sqlite:///{with_job}", "--drain")
    assert done.returncode == 0, done.stderr
    assert "a subscriber failed" in done.stderr
    assert "reconciling ledger failed" in done.stderr
    assert not is_in(CANARY, done.stdout + done.stderr)
