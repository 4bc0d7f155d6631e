"""From ``module:attribute`` to an application, with one clear line for each way to be wrong."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from onward.application import load_application
from onward.errors import ApplicationNotFound, InvalidDefinition

SHOP = """
from onward import Onward, define_job

app = Onward("memory://")
class holder:
    inner = app
def make():
    return app
def breaks():
    raise RuntimeError("no network")
number = 3
def wipe():
    raise SystemExit("a handler was called")
wipe_job = define_job("wipe", wipe)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    (tmp_path / "shop_of_test.py").write_text(SHOP)
    for name in ("shop_of_test", "broken_of_test", "misspelt_of_test", "needs_of_test", "wrong_of_test", "leaves_of_test"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


@pytest.mark.parametrize("attribute", ["app", "make", "holder.inner"])
def test_an_application_or_what_makes_one_is_found_in_the_current_directory(folder: Path, attribute: str) -> None:
    """As servers of web applications do."""
    assert load_application(f"shop_of_test:{attribute}").store.url == "memory://"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("shop_of_test", "write module:attribute"),
        (":app", "write module:attribute"),
        ("shop_of_test:", "write module:attribute"),
        ("nowhere_of_test:app", "there is no module 'nowhere_of_test'"),
        ("shop_of_test.deeper:app", "shop_of_test"),
        ("shop_of_test:ap", "has no 'ap'; the module's application is app"),
        ("shop_of_test:number", "is an int, not an Onward application"),
        ("shop_of_test:wipe_job", "is a job, not an application; the module's application is app"),
        ("shop_of_test:breaks", "RuntimeError: no network"),
    ],
)
def test_what_is_missing_is_said_in_one_line(folder: Path, name: str, words: str) -> None:
    """A typing error must not end in a traceback."""
    with pytest.raises(ApplicationNotFound) as raised:
        load_application(name)
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)
    assert raised.value.exit_code == 4


@pytest.mark.parametrize(
    ("module", "text", "words"),
    [
        ("broken_of_test", "x = 1\ny = x / 0\n", ("ZeroDivisionError", "line 2: y = x / 0")),
        ("misspelt_of_test", "def f(:\n", ("SyntaxError", "line 1")),
        ("needs_of_test", "import not_installed_of_test\n", ("No module named 'not_installed_of_test'", "line 1")),
        ("leaves_of_test", "import sys\nsys.exit(3)\n", ("SystemExit", "line 2")),
    ],
)
def test_the_applications_own_error_is_shown_with_its_line(folder: Path, module: str, text: str, words: tuple[str, ...]) -> None:
    """The error is the application's, so the place must be too."""
    (folder / f"{module}.py").write_text(text)
    with pytest.raises(ApplicationNotFound) as raised:
        load_application(f"{module}:app")
    for one in words:
        assert one in str(raised.value)


def test_a_wrong_definition_keeps_its_own_message(folder: Path) -> None:
    """It says better than we could what to do."""
    (folder / "wrong_of_test.py").write_text("from onward import define_job\ndefine_job('no spaces', print)\n")
    with pytest.raises(InvalidDefinition, match="job name"):
        load_application("wrong_of_test:app")
