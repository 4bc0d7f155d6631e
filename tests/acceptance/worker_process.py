"""A command-line worker in a process of its own, watched through the JSON lines it prints."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).parents[2]
PATIENCE = 60


class WorkerProcess:
    """``onward worker`` for ``tests.acceptance.jobs_app``. Use in a ``with`` block: it never outlives it."""

    def __init__(self, home: Path, *arguments: str, app: str = "tests.acceptance.jobs_app:app") -> None:
        self.events: list[dict[str, Any]] = []
        self._lines: queue.Queue[str | None] = queue.Queue()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "onward", "-A", app, "worker", *arguments],
            cwd=ROOT,
            env={**os.environ, "ACCEPTANCE_HOME": str(home), "PYTHONPATH": str(ROOT / "src")},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._readers = [threading.Thread(target=self._read_events, daemon=True), threading.Thread(target=self._read_errors, daemon=True)]
        self.errors: list[str] = []
        for reader in self._readers:
            reader.start()

    def _read_events(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        self.errors.extend(self.process.stderr)

    def wait_for(self, event: str, matches: Callable[[dict[str, Any]], bool] = lambda found: True) -> dict[str, Any]:
        """Give the next event of this name that ``matches`` likes, however long it takes up to a minute."""
        while True:
            line = self._lines.get(timeout=PATIENCE)
            assert line is not None, f"the worker ended before {event}: {''.join(self.errors)[-2000:]}"
            found = json.loads(line)
            self.events.append(found)
            if found.get("event") == event and matches(found):
                return found

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and give the exit code."""
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        for reader in self._readers:
            reader.join(PATIENCE)
        for pipe in (self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()
