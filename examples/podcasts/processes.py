"""The application as it runs: the API and a worker of two processes, started and stopped. For the demo and the tests."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self, TypeVar

import httpx

ROOT = Path(__file__).parents[2]
PATIENCE = 40.0
PASSWORD = "correct horse"
Found = TypeVar("Found")
_ADDRESS = re.compile(r"running on (http://\S+)")


class Processes:
    """Real processes over one home, one database and one voice service; ``with`` starts and stops them."""

    def __init__(self, home: Path, url: str, voice: str) -> None:
        self.home = home
        self.url = url
        self.address = ""
        """Where the API listens."""
        self._environment = {name: text for name, text in os.environ.items() if not name.startswith(("EXAMPLE_", "ONWARD_"))} | {
            "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))),
            "EXAMPLE_PODCASTS_HOME": str(home),
            "EXAMPLE_PODCASTS_URL": url,
            "EXAMPLE_PODCASTS_VOICE": voice,
            "EXAMPLE_PODCASTS_BACK_OFF": "200ms",
        }
        self._running: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        self.home.mkdir(parents=True, exist_ok=True)
        try:
            self._run("examples.podcasts.install")
            self._start("api", "examples.podcasts.serve", "--port", "0")
            self.address = until(self._listening, f"the API does not listen: see {self.home / 'api.log'}")
        except BaseException:
            self.stop()
            raise
        return self

    def start_worker(self, concurrency: int = 4) -> None:
        """Start a worker of two processes, which look for jobs five times a second."""
        size = ("--processes", "2", "--concurrency", str(concurrency))
        pace = ("--poll", "200ms", "--sweep", "1s", "--grace", "5s")
        self._start("worker", "onward", "-A", "examples.podcasts.jobs:app", "worker", *size, *pace)

    def stop(self) -> list[int]:
        """Stop all of them as an operator would; give their exit codes."""
        for process in self._running:
            process.send_signal(signal.SIGTERM)
        codes = []
        for process in self._running:
            try:
                codes.append(process.wait(timeout=15))
            except subprocess.TimeoutExpired:
                process.kill()
                codes.append(process.wait())
        self._running.clear()
        return codes

    def __exit__(self, *_: object) -> None:
        self.stop()

    def sign_up(self, name: str) -> httpx.Client:
        """Add a user, and give a client that is signed in. The caller closes it."""
        client = httpx.Client(base_url=self.address, timeout=PATIENCE)
        who = {"name": name, "password": PASSWORD}
        client.post("/users", json=who).raise_for_status()
        client.headers["Authorization"] = f"Bearer {client.post('/session', json=who).raise_for_status().json()['token']}"
        return client

    def _run(self, module: str) -> None:
        done = subprocess.run(
            [sys.executable, "-m", module], cwd=self.home, env=self._environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{module} ended with exit code {done.returncode}:\n{done.stderr}")

    def _start(self, name: str, module: str, *words: str) -> None:
        with (self.home / f"{name}.log").open("wb") as log:
            command = [sys.executable, "-m", module, *words]
            self._running.append(subprocess.Popen(command, cwd=self.home, env=self._environment, stdout=log, stderr=log))

    def _listening(self) -> str | None:
        said = _ADDRESS.search((self.home / "api.log").read_text())
        return said and said[1]


def until(look: Callable[[], Found | None], complaint: str) -> Found:
    """Look again and again until there is something true. Raises ``TimeoutError``."""
    give_up_at = time.monotonic() + PATIENCE
    while not (found := look()):
        if time.monotonic() > give_up_at:
            raise TimeoutError(f"{complaint}, after {PATIENCE:g} s")
        time.sleep(0.02)
    return found
