from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.errors import InvalidSetting
from onward.settings import Settings, find_app, find_url, safe_url, variable_of

FROM_PROJECT = '[tool.onward]\nurl = "sqlite:///project.db"\nconcurrency = 2\ngrace = "5s"\npoll = 3\n'
FROM_FILE = 'url = "sqlite:///file.db"\nconcurrency = 4\nqueues = ["mail", "default"]\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\n" + FROM_PROJECT)
    (tmp_path / "onward.toml").write_text(FROM_FILE)
    return tmp_path


def sources(settings: Settings) -> dict[str, tuple[str, str]]:
    return {one.name: (one.shown, one.source) for one in settings}


def test_each_value_comes_from_the_strongest_place_and_remembers_it(folder: Path) -> None:
    """Arguments, environment, onward.toml, pyproject.toml, default; ``onward config`` prints which."""
    settings = Settings({"url": "memory://", "queues": None}, environment={"ONWARD_CONCURRENCY": "8", "ONWARD_SWEEP": ""}, folder=folder)
    assert sources(settings) == {
        "url": ("memory://", "given"),
        "listen_url": ("", "default"),
        "app": ("", "default"),
        "queues": ("mail,default", "onward.toml"),
        "concurrency": ("8", "ONWARD_CONCURRENCY"),
        "processes": ("1", "default"),
        "grace": ("5s", "[tool.onward] in pyproject.toml"),
        "poll": ("3s", "[tool.onward] in pyproject.toml"),
        "sweep": ("30s", "default"),
        "prune": ("10m", "default"),
    }
    assert settings.concurrency == 8
    assert settings.queues == ("mail", "default")
    assert settings.grace == timedelta(seconds=5)
    assert settings["url"].source == "given"


def test_without_anything_every_setting_has_a_default(tmp_path: Path) -> None:
    """An empty folder is a fine place to start."""
    settings = Settings(environment={}, folder=tmp_path)
    assert {one.source for one in settings} == {"default"}
    assert (settings.url, settings.app, settings.listen_url, settings.queues) == (None, None, None, ())
    assert (settings.concurrency, settings.processes) == (16, 1)
    assert (settings.grace, settings.poll, settings.sweep, settings.prune) == (
        timedelta(seconds=30),
        timedelta(seconds=1),
        timedelta(seconds=30),
        timedelta(minutes=10),
    )


def test_the_application_s_database_is_never_guessed(tmp_path: Path) -> None:
    """DATABASE_URL belongs to somebody else."""
    assert Settings(environment={"DATABASE_URL": "sqlite:///x.db"}, folder=tmp_path).url is None


def test_every_setting_has_its_variable(tmp_path: Path) -> None:
    """No setting can only be set in a file."""
    values = {"url": "memory://", "listen_url": "x://", "app": "a:b", "queues": "q", "concurrency": "3", "processes": "3"} | dict.fromkeys(
        ("grace", "poll", "sweep", "prune"), "3s"
    )
    settings = Settings(environment={variable_of(name): value for name, value in values.items()}, folder=tmp_path)
    assert {one.name: one.shown for one in settings} == values
    assert {one.source for one in settings} == {f"ONWARD_{name.upper()}" for name in values}


WRONG: list[tuple[str, Any]] = [
    ("concurrency", "0"),
    ("concurrency", "many"),
    ("concurrency", "-1"),
    ("concurrency", "1.5"),
    ("concurrency", True),
    ("concurrency", "٣"),
    ("concurrency", "9" * 5000),
    ("processes", "0"),
    ("processes", "1001"),
    ("grace", "soon"),
    ("grace", "-1s"),
    ("grace", True),
    ("poll", "0s"),
    ("sweep", "0"),
    ("prune", "x"),
    ("app", "myapp"),
    ("app", ":app"),
    ("app", "m:"),
    ("app", 5),
    ("url", 5),
    ("url", "a\nb"),
    ("queues", 5),
    ("queues", ","),
    ("queues", " , , "),
    ("queues", [1]),
]


@pytest.mark.parametrize(("name", "value"), WRONG, ids=range(len(WRONG)))
def test_a_wrong_value_names_the_setting_and_its_source(name: str, value: Any, tmp_path: Path) -> None:
    """At start, in one short line."""
    with pytest.raises(InvalidSetting) as refused:
        Settings({name: value}, environment={}, folder=tmp_path)
    assert str(refused.value).startswith(f"{name} (given): ")
    assert "\n" not in str(refused.value)
    if isinstance(value, str) and value.isprintable():
        with pytest.raises(InvalidSetting, match=variable_of(name)):
            Settings(environment={variable_of(name): value}, folder=tmp_path)
        (tmp_path / "onward.toml").write_text(f'{name} = "{value}"\n')
        with pytest.raises(InvalidSetting, match=r"\(onward\.toml\)"):
            Settings(environment={}, folder=tmp_path)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("concurency = 3", "did you mean 'concurrency'"),
        ("listen-url = 'x'", "did you mean 'listen_url'"),
        ("zzz = 1", "known are url"),
        ("url = ", "not TOML"),
        ("\xff", "not TOML"),
        ("[worker]\nconcurrency = 3", "no setting 'worker'"),
    ],
)
def test_a_file_with_a_mistake_is_refused_with_a_hint(content: str, says: str, tmp_path: Path) -> None:
    """A key that nobody reads is a setting that is not in force."""
    (tmp_path / "onward.toml").write_bytes(content.encode("latin-1"))
    with pytest.raises(InvalidSetting, match=says) as refused:
        Settings(environment={}, folder=tmp_path)
    assert "onward.toml" in str(refused.value)


def test_a_project_file_of_others_is_left_alone(tmp_path: Path) -> None:
    """Only the table is ours; a table that is none is refused."""
    (tmp_path / "pyproject.toml").write_text("this is not TOML, but it is not ours")
    assert Settings(environment={}, folder=tmp_path).url is None
    (tmp_path / "pyproject.toml").write_text("[project]\ndependencies = ['onward']\n")
    assert Settings(environment={}, folder=tmp_path).url is None
    (tmp_path / "pyproject.toml").write_text("[tool]\nonward = 5\n")
    with pytest.raises(InvalidSetting, match="must be a table"):
        Settings(environment={}, folder=tmp_path)


def test_a_settings_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    """To go on with defaults would be to use another store."""
    (tmp_path / "onward.toml").mkdir()
    with pytest.raises(InvalidSetting, match=r"onward\.toml cannot be read"):
        Settings(environment={}, folder=tmp_path)


def test_find_url_and_find_app_read_the_settings_of_this_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What ``Onward()`` and the command line use; without a url it says how to give one."""
    monkeypatch.chdir(tmp_path)
    for name in ("URL", "APP"):
        monkeypatch.delenv(f"ONWARD_{name}", raising=False)
    assert find_app() is None
    with pytest.raises(
        InvalidSetting, match=r"Onward\('sqlite:///app.db'\), ONWARD_URL, url in onward\.toml, .* -u URL or -A module:attribute"
    ):
        find_url()
    (tmp_path / "onward.toml").write_text("url = 'memory://'\napp = 'a:b'\n")
    assert (find_url(), find_app()) == ("memory://", "a:b")
    monkeypatch.setenv("ONWARD_URL", "sqlite:///x.db")
    assert find_url() == "sqlite:///x.db"


@pytest.mark.parametrize(
    ("url", "safe"),
    [
        ("sqlite:///app.db", "sqlite:///app.db"),
        ("sqlite:////home/a@b/app.db?timeout=5s", "sqlite:////home/a@b/app.db?timeout=5s"),
        ("memory://", "memory://"),
        ("postgres://u@h/db", "postgres://u@h/db"),
        ("postgres://u:p@h/db", "postgres://u:[redacted]@h/db"),
        ("postgres://u:p@ss/w:x@h/db", "postgres://u:[redacted]@h/db"),
        ("postgres://u:80/x@h/db", "postgres://u:[redacted]@h/db"),
        ("postgresql//u:p@h/db", "postgresql//u:[redacted]@h/db"),
        ("postgresql:/u:p@ss:w/x@h/db", "postgresql:/u:[redacted]@h/db"),
        ("postgresql:u:p@h/db", "postgresql:[redacted]@h/db"),
        ("u:p:p@h/db", "u:[redacted]@h/db"),
        ("/srv/a@b/jobs.db", "/srv/a@b/jobs.db"),
        ("u:p@h/db", "u:[redacted]@h/db"),
        ("postgres://h/db?user=u&password=p", "postgres://h/db?user=u&password=[redacted]"),
    ],
)
def test_a_url_is_shown_without_its_password(url: str, safe: str) -> None:
    """It is printed by ``config`` and ``doctor``, and in errors."""
    assert safe_url(url) == safe
    assert safe_url(safe) == safe
    assert Settings({"url": url}, environment={})["url"].shown == safe


@given(st.text(alphabet=st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=30))
def test_no_password_is_ever_in_the_shown_url(password: str) -> None:
    """Whatever it is made of, unquoted mistakes included."""
    secret = f"Qx{password}Qy"
    shown = safe_url(f"postgresql://user:{secret}@host:5432/db")
    assert "Qx" not in shown
    assert "Qy" not in shown
    assert shown.startswith("postgresql://user:")


def test_a_misspelt_variable_is_an_error_and_others_are_let_be(tmp_path: Path) -> None:
    """A variable that is silently ignored is found in production; one of the application's own is none of our business."""
    with pytest.raises(InvalidSetting, match="ONWARD_CONCURENCY, which is no setting: did you mean 'ONWARD_CONCURRENCY'"):
        Settings(environment={"ONWARD_CONCURENCY": "4"}, folder=tmp_path)
    assert Settings(environment={"ONWARD_HOME": "/srv", "ONWARD_TEST_DATA": "x", "URL": "y"}, folder=tmp_path).url is None


@pytest.mark.parametrize("url", ["sqlite:/shop.db", "sqlite:shop.db"])
def test_a_url_with_too_few_slashes_says_how_it_is_written(url: str, tmp_path: Path) -> None:
    """Read loosely, it would lead to another file than its writer means."""
    with pytest.raises(InvalidSetting, match=r"url \(ONWARD_URL\): .* write sqlite:///shop.db \(relative\) or sqlite:////shop.db"):
        Settings(environment={"ONWARD_URL": url}, folder=tmp_path)


@pytest.mark.parametrize("queues", ["a b", "mail,a/b c"])
def test_a_queue_that_no_job_can_be_in_is_refused(queues: str, tmp_path: Path) -> None:
    """A worker that serves it waits for ever and looks healthy."""
    with pytest.raises(InvalidSetting, match=r"queues \(given\): a queue is 1 to 100 letters"):
        Settings({"queues": queues}, environment={}, folder=tmp_path)
