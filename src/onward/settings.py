"""Settings: what was given, else the environment, else ``onward.toml``, else ``[tool.onward]`` in pyproject.toml, else a default.

``DATABASE_URL`` is never read: it belongs to the application, and guessing sends jobs to the wrong store.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Any

from msgspec import Struct

from onward.durations import format_duration, parse_duration
from onward.errors import InvalidDefinition, InvalidSetting, InvalidTime, OnwardError
from onward.spelling import did_you_mean, nearest, with_article

FILE = "onward.toml"
PROJECT_FILE = "pyproject.toml"
GIVE_A_URL = (
    "no store is given: give a url: Onward('sqlite:///app.db'), ONWARD_URL, url in onward.toml, or in a shell -u URL or -A module:attribute"
)


class Setting(Struct, frozen=True):
    """One setting, its value, and where that came from: ``given``, a variable's name, a file's name or ``default``."""

    name: str
    value: Any
    source: str

    @property
    def shown(self) -> str:
        """The value as text that is safe to print."""
        if self.value is None:
            return ""
        if isinstance(self.value, timedelta):
            return format_duration(self.value)
        if isinstance(self.value, tuple):
            return ",".join(self.value)
        return safe_url(self.value) if isinstance(self.value, str) else str(self.value)


class Settings:
    """Every setting, checked. Raises ``InvalidSetting``, which names the setting and where its value came from.

    ``given`` are arguments that win over everything; None is no value. ``folder`` is where the files are looked for, else the current one.
    """

    def __init__(
        self,
        given: Mapping[str, Any] | None = None,
        *,
        environment: Mapping[str, str] | None = None,
        folder: str | os.PathLike[str] | None = None,
    ) -> None:
        folder = os.getcwd() if folder is None else os.fspath(folder)
        self._settings: dict[str, Setting] = {name: Setting(name, default, "default") for name, (_, default) in _KNOWN.items()}
        # The weakest first, so that each may replace the one before.
        self._take(_read_file(os.path.join(folder, PROJECT_FILE), ("tool", "onward")), f"[tool.onward] in {PROJECT_FILE}")
        self._take(_read_file(os.path.join(folder, FILE), ()), FILE)
        for name, text in _from_environment(os.environ if environment is None else environment).items():
            self._take({name: text}, variable_of(name))
        self._take({name: value for name, value in (given or {}).items() if value is not None}, "given")

    def __getitem__(self, name: str) -> Setting:
        return self._settings[name]

    def __iter__(self) -> Iterator[Setting]:
        return iter(self._settings.values())

    @property
    def url(self) -> str | None:
        """Where the jobs are stored."""
        return self._text("url")

    @property
    def listen_url(self) -> str | None:
        """Where notifications are listened for, when a pooler stands before the store."""
        return self._text("listen_url")

    @property
    def app(self) -> str | None:
        """The application, as ``module:attribute``."""
        return self._text("app")

    @property
    def queues(self) -> tuple[str, ...]:
        """The queues that a worker serves; empty means every queue."""
        return self._value("queues") or ()

    @property
    def concurrency(self) -> int:
        """How many jobs a worker process runs at once."""
        return int(self._value("concurrency"))

    @property
    def processes(self) -> int:
        """How many worker processes a supervisor keeps."""
        return int(self._value("processes"))

    @property
    def grace(self) -> timedelta:
        """How long running jobs may go on after a stop signal."""
        return self._duration("grace")

    @property
    def poll(self) -> timedelta:
        """How long an idle worker waits before it asks again."""
        return self._duration("poll")

    @property
    def sweep(self) -> timedelta:
        """How often a worker takes back jobs whose lease ran out."""
        return self._duration("sweep")

    @property
    def prune(self) -> timedelta:
        """How often a worker deletes jobs past their retention."""
        return self._duration("prune")

    def _value(self, name: str) -> Any:
        return self._settings[name].value

    def _text(self, name: str) -> str | None:
        value: str | None = self._value(name)
        return value

    def _duration(self, name: str) -> timedelta:
        value: timedelta = self._value(name)
        return value

    def _take(self, values: Mapping[str, Any], source: str) -> None:
        for name, value in values.items():
            if name not in _KNOWN:
                raise InvalidSetting(f"{source}: there is no setting {name!r}{did_you_mean(name, _KNOWN)}")
            read, _ = _KNOWN[name]
            try:
                self._settings[name] = Setting(name, read(value), source)
            except (ValueError, TypeError, OnwardError) as error:
                raise InvalidSetting(f"{name} ({source}): {error}") from None


def find_url() -> str:
    """The store's URL from the settings. Raises ``InvalidSetting`` when there is none."""
    url = Settings().url
    if url is None:
        raise InvalidSetting(GIVE_A_URL)
    return url


def find_app() -> str | None:
    """``module:attribute`` of the application from the settings, or None."""
    return Settings().app


def check_url(url: str) -> str:
    """Give a URL back, unless its slashes would be misread. Raises ``InvalidSetting``."""
    scheme, colon, rest = url.partition(":")
    if colon and scheme.lower() == "sqlite" and not rest.startswith("//"):
        path = safe_url(f"sqlite:///{rest.lstrip('/') or 'file.db'}").removeprefix("sqlite:///")
        raise InvalidSetting(f"{safe_url(url)!r} lacks slashes: write sqlite:///{path} (relative) or sqlite:////{path} (absolute)")
    return url


def check_queues(queues: Iterable[str]) -> tuple[str, ...]:
    """Give the names of queues back as a tuple. Raises ``InvalidDefinition`` for what no queue can be called."""
    from onward.definition import check_name  # commands that only look need no definitions

    if isinstance(queues, str):
        raise InvalidDefinition(f"queues= takes a list of names, such as [{queues!r}], not text")
    return tuple(check_name("queue", name) for name in queues)


def safe_url(url: str) -> str:
    """A URL that is safe to print: its password, and secrets in its query, masked."""
    from onward.redact import REDACTED, redact  # compiling its patterns takes as long as importing half of this package

    scheme, separator, rest = url.partition("://")
    userinfo, at, host = rest.rpartition("@")
    if at and ":" in userinfo:
        url = f"{scheme}{separator}{userinfo.partition(':')[0]}:{REDACTED}@{host}"
    elif not separator and "@" in url and (mistyped := re.fullmatch(_MISTYPED, url, re.DOTALL)):
        url = f"{mistyped['user']}:{REDACTED}@{mistyped['host']}"
    return redact(url)


_MISTYPED = r"(?P<user>[\w+.\-]*(?::?/+[^:/@]*)?):.*@(?P<host>[^@]*)"
"""A URL whose ``://`` lacks a character, with a name and a password in it."""


def variable_of(name: str) -> str:
    """The environment variable of a setting: ``ONWARD_URL``."""
    return f"ONWARD_{name.upper()}"


def _from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    _refuse_misspelt(environment)
    # An empty variable is how shells and compose files say "not set".
    return {name: text for name in _KNOWN if (text := environment.get(variable_of(name), "").strip())}


def _refuse_misspelt(environment: Mapping[str, str]) -> None:
    """A variable that nearly is one of ours is a mistake; any other may be the application's own."""
    known = [variable_of(name) for name in _KNOWN]
    for name in environment:
        if name.startswith("ONWARD") and name not in known and (meant := nearest(name, known)):
            raise InvalidSetting(f"the environment has {name}, which is no setting: did you mean {meant!r}?")


def _read_file(path: str, table: tuple[str, ...]) -> dict[str, Any]:
    name = os.path.basename(path)
    try:
        with open(path, "rb") as file:
            content = file.read()
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise InvalidSetting(f"{name} cannot be read: {error.strerror}") from None
    if table and b"onward" not in content:
        return {}
    import tomllib

    try:
        found: Any = tomllib.loads(content.decode())
    except (ValueError, RecursionError) as error:
        raise InvalidSetting(f"{name} is not TOML: {error}") from None
    for key in table:
        found = found.get(key, {}) if isinstance(found, dict) else found
    if not isinstance(found, dict):
        raise InvalidSetting(f"{name}: [{'.'.join(table)}] must be a table")
    return found


def _read_text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        found = "empty or with control characters" if isinstance(value, str) else with_article(type(value).__name__)
        raise ValueError(f"must be text, not {found}")
    return value.strip()


def _read_url(value: Any) -> str:
    return check_url(_read_text(value))


def _read_app(value: Any) -> str:
    text = _read_text(value)
    module, colon, attribute = text.partition(":")
    if not (colon and module and attribute):
        raise ValueError(f"must be module:attribute, such as myapp.jobs:app, not {text!r}")
    return text


def _read_queues(value: Any) -> tuple[str, ...]:
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise TypeError(f"must be names of queues, such as mail,default, not {value!r}")
    named = tuple(stripped for name in names if (stripped := name.strip()))
    if isinstance(value, str) and value.strip() and not named:
        raise TypeError(f"must be names of queues, such as mail,default, not {value!r}; leave it out to serve every queue")
    return check_queues(named)


def _count_up_to(most: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        text = str(value).strip()
        if isinstance(value, bool) or not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= most):
            raise ValueError(f"must be a whole number from 1 to {most:,}, not {value!r}")
        return int(text)

    return read


def _read_duration(value: Any) -> timedelta:
    return parse_duration(value)


def _read_pause(value: Any) -> timedelta:
    duration = parse_duration(value)
    if duration < timedelta(milliseconds=1):
        raise InvalidTime("must be longer than nothing")
    return duration


_KNOWN: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "url": (_read_url, None),
    "listen_url": (_read_text, None),
    "app": (_read_app, None),
    "queues": (_read_queues, ()),
    "concurrency": (_count_up_to(10_000), 16),
    "processes": (_count_up_to(1000), 1),
    "grace": (_read_duration, timedelta(seconds=30)),
    "poll": (_read_pause, timedelta(seconds=1)),
    "sweep": (_read_pause, timedelta(seconds=30)),
    "prune": (_read_pause, timedelta(minutes=10)),
}
