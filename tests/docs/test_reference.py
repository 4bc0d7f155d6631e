"""The reference says what the code says."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import onward
import onward.errors
from onward.breaker import Breaker
from onward.context import JobContext
from onward.cron import NICKNAMES, Cron
from onward.definition import JobDefinition, Rules
from onward.errors import OnwardError
from onward.events import Event, EventName
from onward.jobs import EnqueueOptions
from onward.limit import Limit
from onward.periodic import ITS_OWN, OPTIONS, Periodic, PeriodicJob
from onward.periodic_jobs import PeriodicJobs
from onward.retry import RetryPolicy
from onward.settings import Settings, variable_of
from onward.telemetry.log import describe
from tests.unit.making import make_job

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"


def rows(page: str) -> dict[str, list[str]]:
    """The rows of every table of a page, by the first name in code type; stars dropped."""
    return rows_of((REFERENCE / page).read_text(encoding="utf-8"))


def rows_of(text: str) -> dict[str, list[str]]:
    found = {}
    for line in text.splitlines():
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


def sections(page: str) -> dict[str, dict[str, list[str]]]:
    """The rows of a page, by the heading they stand under."""
    _, *parts = re.split(r"^## ", (REFERENCE / page).read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {part.partition("\n")[0]: rows_of(part) for part in parts}


def test_every_rule_and_option_is_on_the_page_of_jobs() -> None:
    """A rule that is not on the page is found by nobody."""
    page = sections("jobs.md")
    assert set(page["Rules of `define_job` and `@job`"]) == set(Rules.__annotations__)
    assert set(page["`RetryPolicy`"]) == set(inspect.signature(RetryPolicy).parameters)
    assert set(page["`Breaker`"]) == set(inspect.signature(Breaker).parameters) - {"key"}
    assert set(page["`Limit`"]) == set(inspect.signature(Limit).parameters)
    assert set(page["Options of an enqueue"]) == set(EnqueueOptions.__annotations__)


def test_everything_that_a_handler_may_use_of_ctx_is_on_the_page_of_jobs() -> None:
    """And nothing that is not there; what the worker calls on a context is not for handlers."""
    of_the_worker = {"ask_to_stop", "lose_lease", "collecting_children", "is_completed"}
    page = set(sections("jobs.md")["`ctx`"])
    assert page - {"job", "services", "worker_id"} == {name for name in vars(JobContext) if not name.startswith("_")} - of_the_worker
    assert all(hasattr(JobContext(make_job()), name) for name in page)


def test_the_page_of_jobs_says_the_right_defaults() -> None:
    """A wrong default is believed."""
    page = sections("jobs.md")
    says_none = {None: "none", (): "none"}
    defaults = {
        "Rules of `define_job` and `@job`": inspect.signature(JobDefinition).parameters,
        "`RetryPolicy`": inspect.signature(RetryPolicy).parameters,
        "`Breaker`": inspect.signature(Breaker).parameters,
        "`Limit`": inspect.signature(Limit).parameters,
    }
    for heading, parameters in defaults.items():
        for name, cells in page[heading].items():
            default = parameters[name].default
            if name not in ("payload", "retry", "counts"):
                assert cells[1].strip("`") == says_none.get(default, str(default)), name


def test_all_that_a_periodic_job_can_be_told_is_on_its_page() -> None:
    """With the right defaults; and what is stored of it, and every verb."""
    page = sections("periodic.md")
    told = page["Arguments of `Periodic`"]
    assert set(told) == {"definition", "cron", *ITS_OWN}
    parameters = inspect.signature(Periodic).parameters
    for name, cells in told.items():
        if name not in ("definition", "timezone", "name"):
            assert cells[1].strip("`") == str(parameters[name].default or "none"), name
    assert set(page["Options of its jobs"]) == OPTIONS
    assert set(page["What is stored"]) == set(PeriodicJob.__struct_fields__)
    verbs = {name for name in vars(PeriodicJobs) if not name.startswith("_")}
    assert set(page["`app.periodic`"]) == {"declared", *(name for name in verbs if f"a{name}" in verbs)}


def test_every_nickname_of_a_cron_expression_is_on_the_page() -> None:
    """And means what it says there."""
    text = (REFERENCE / "periodic.md").read_text(encoding="utf-8")
    told = {name: line.split("`")[-2] for line in text.splitlines() for name in re.findall(r"`(@[a-z]+)`", line)}
    assert told == NICKNAMES
    assert all(Cron(example).explain() for example in ("0 0 L * *", "0 0 LW * *", "0 0 * jan-dec sun", "0 0 * * 1L", "*/60 */24 * * *"))


def test_every_setting_is_on_the_page_with_its_variable_and_default() -> None:
    """A setting that is not on the page is found by nobody, and a wrong default is believed."""
    page = {name: cells for name, cells in rows("settings.md").items() if cells[1].startswith("`ONWARD_")}
    words = {"": {"none", "every queue"}}
    settings = list(Settings(environment={}, folder=ROOT / "docs"))
    assert set(page) == {setting.name for setting in settings}
    for setting in settings:
        assert page[setting.name][1] == f"`{variable_of(setting.name)}`"
        assert page[setting.name][2] in words.get(setting.shown, {setting.shown}), setting.name
