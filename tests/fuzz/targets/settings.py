"""Settings from the environment and from a file: read, or refused with the one error that says which and why."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from datetime import timedelta
from pathlib import Path

from onward.errors import InvalidSetting
from onward.settings import Settings, variable_of
from tests.fuzz.taking import Taker
from tests.fuzz.target import Target, declared, must, texts

NAMES = ("url", "listen_url", "app", "queues", "concurrency", "processes", "grace", "poll", "sweep", "prune")
LONGEST_TEXT = 30_000
SECRET = "Vogelfrei7Kanari"


class Folder:
    """A directory of this process for a settings file."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="onward-fuzz-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


_empty, _filled = Folder(), Folder()


def check(data: bytes) -> None:
    take = Taker(data)
    environment: dict[str, str] = {}
    while not take.is_at_end and len(environment) < 8:
        name = take.choice(NAMES)
        environment[variable_of(name) if take.number(8) else f"ONWARD_{take.text(10)}"] = take.text(200)
    environment["ONWARD_LISTEN_URL"] = f"postgresql://user:{SECRET}@host/{take.text(20)}"
    with declared(InvalidSetting, longest=LONGEST_TEXT) as told:
        _check(Settings({}, environment=environment, folder=_empty.path))
    must(not any(SECRET in text for text in told), "an error repeats a password")


def check_file(data: bytes) -> None:
    (_filled.path / "onward.toml").write_bytes(data)
    (_filled.path / "pyproject.toml").write_bytes(b"[tool.onward]\n" + data)
    with declared(InvalidSetting, longest=LONGEST_TEXT):
        _check(Settings({}, environment={}, folder=_filled.path))


def _check(settings: Settings) -> None:
    must(1 <= settings.concurrency <= 10_000 and 1 <= settings.processes <= 1000, "a count is out of range")
    must(settings.poll > timedelta(0) and settings.sweep > timedelta(0), "a pause of nothing")
    for setting in settings:
        must(setting.name in NAMES and setting.source, "a setting without a source")
        must(setting.shown.isprintable(), f"{setting.name} cannot be printed")
        must(SECRET not in setting.shown, f"{setting.name} is shown with its password")


TARGET = Target(
    "settings",
    check,
    texts("\x00\x01\x14sqlite:///app.db", "\x03\x01", "\x04\x01\x028", "5m", "mail,default", "module:app", "\x06\x01\x035m"),
)
FILES = Target(
    "settings-files",
    check_file,
    texts(
        'url = "sqlite:///a.db"\n',
        "concurrency = 4\n",
        'poll = "1s"\n',
        "queues = [",
        '"mail",',
        "]\n",
        "[tool.onward]\n",
        "a.b.c = 1\n",
        "= ",
        '"""',
    )
    | texts(
        "{" * 20,
        "[" * 200,
        "poll = 2026-01-01\n",
        "poll = inf\n",
        "concurrency = 1e3\n",
        "concurrency = " + "9" * 5000 + "\n",
        "app = 'a:b'\n",
    ),
    ("url = ", "poll = ", "queues = [", "concurrency = ", "[[", "]]", "{", "}", "'''", "inf", "1979-05-27"),
)
