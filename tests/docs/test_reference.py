"""The reference says what the code says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import onward
import onward.errors
from onward.errors import OnwardError
from onward.events import Event, EventName
from onward.settings import Settings, variable_of
from onward.telemetry.log import describe

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"


def rows(page: str) -> dict[str, list[str]]:
    """The rows of every table of a page, by the first name in code type; stars dropped."""
    found = {}
    for line in (REFERENCE / page).read_text(encoding="utf-8").splitlines():
        if match := re.match(r"\| `([^`]+)`( \*)? \| (.*) \|$", line):
            found[match[1]] = [match[2] or "", *(cell.strip() for cell in match[3].split(" | "))]
    return found


def all_errors() -> dict[str, type[OnwardError]]:
    return {name: one for name, one in vars(onward.errors).items() if isinstance(one, type) and issubclass(one, OnwardError)}


def test_the_page_of_the_command_line_is_what_the_commands_say() -> None:
    """An option that is not on the page does not exist for a reader, and one that is gone costs an hour."""
    answer = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "write_cli_page.py"), "--check"], capture_output=True, text=True, timeout=60
    )
    assert answer.returncode == 0, answer.stderr


def test_every_error_is_on_the_page_with_its_exit_code() -> None:
    """Scripts are written against exit codes."""
    listed = {name: cells[1] for name, cells in rows("errors.md").items()}
    assert listed == {name: str(one.exit_code) for name, one in all_errors().items()}


def test_the_page_of_errors_says_which_can_be_imported_from_onward() -> None:
    """A star in the wrong place is an ImportError in the reader's program."""
    starred = {name for name, cells in rows("errors.md").items() if cells[0]}
    assert starred == {name for name in all_errors() if name in onward.__all__}


def test_every_event_and_every_field_of_its_line_is_on_the_page() -> None:
    """Dashboards are built on these names."""
    event = Event(event="queued", job_id="1", job_type="a")
    assert set(rows("events.md")) == {*get_args(EventName), *describe(event, at="")}


def test_every_setting_is_on_the_page_with_its_variable_and_default() -> None:
    """A setting that is not on the page is found by nobody, and a wrong default is believed."""
    page = {name: cells for name, cells in rows("settings.md").items() if cells[1].startswith("`ONWARD_")}
    words = {"": {"none", "every queue"}}
    settings = list(Settings(environment={}, folder=ROOT / "docs"))
    assert set(page) == {setting.name for setting in settings}
    for setting in settings:
        assert page[setting.name][1] == f"`{variable_of(setting.name)}`"
        assert page[setting.name][2] in words.get(setting.shown, {setting.shown}), setting.name
