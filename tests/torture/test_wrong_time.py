"""A process with a wrong clock is wrong about the time of day, and about nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.torture.injectors import MissingInjector, do_without
from tests.torture.wrong_time import WrongTime

ASK = """
import sys, time, datetime
for line in sys.stdin:
    print(time.time(), datetime.datetime.now().timestamp(), time.monotonic(), flush=True)
    time.sleep(0.001)
"""


def test_the_clock_of_a_process_jumps_while_it_runs(tmp_path: Path) -> None:
    try:
        clock = WrongTime(tmp_path)
    except MissingInjector as reason:
        do_without(reason)
    command = [sys.executable, "-ISuc", ASK]
    environment = {**os.environ, **clock.environment}
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for offset in (0, 86400, -3600, 0):
            clock.set(offset)
            process.stdin.write("now\n")
            process.stdin.flush()
            wall, date, monotonic = map(float, process.stdout.readline().split())
            assert abs(wall - time.time() - offset) < 60
            assert abs(date - wall) < 60
            assert abs(monotonic - time.monotonic()) < 60


def test_a_missing_compiler_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(MissingInjector, match="needs a C compiler"):
        WrongTime(tmp_path)
