"""What is stored is data: no row, payload or error can choose code that was not registered under its name."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from onward.app import Onward
from onward.definition import define_job
from onward.jobs import Job
from onward.payload import payload_hash
from onward.status import Status
from onward.testing.factories import make_new_job
from tests.security.gate import dangers

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "onward"
CHOSEN_BY_THE_PROGRAM = {
    ("__init__.py", "import_module"): "the name is one of a fixed table",
    ("application.py", "import_module"): "the name is what the person who starts the command gave: -A, ONWARD_APP or the settings file",
    ("cli/main.py", "import_module"): "the name is one of a fixed table",
}
"""Imports by a computed name that no stored value can reach, each with the reason."""
HOSTILE_TYPES = [
    *("os.system", "os:system", "subprocess.run", "builtins.eval", "tests.security.canary_app:payload", "__main__", "__class__"),
    *("work.__globals__", "work:__init__", "onward.cli.main:cli", "../../bin/sh", "WORK", "work ", "wоrk"),
]


def test_no_source_of_ours_makes_code_of_data() -> None:
    """Each of these was how somebody took over a job system whose rows or messages he could write."""
    found = {
        (module.relative_to(SOURCE).as_posix(), what)
        for module in SOURCE.rglob("*.py")
        for _, what in dangers(module.read_text(encoding="utf-8"))
    }
    assert found - set(CHOSEN_BY_THE_PROGRAM) == set()
    assert set(CHOSEN_BY_THE_PROGRAM) - found == set(), "an exception that is not needed hides the next danger"


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("import pickle", "pickle"),
        ("import os, marshal as m", "marshal"),
        ("def f():\n    from yaml import load", "yaml"),
        ("from dill.source import x", "dill.source"),
        ("eval(row[0])", "eval"),
        ("import builtins\nbuiltins.exec(text)", "exec"),
        ("__import__(name)", "__import__"),
        ("importlib.import_module(job.type)", "import_module"),
        ("import_module(f'{a}.b')", "import_module"),
        ("pkgutil.resolve_name(job.type)", "resolve_name"),
        ("os.system(command)", "system"),
        ("subprocess.run(command, shell=True)", "shell="),
        ("subprocess.run(command, shell=is_shell)", "shell="),
    ],
)
def test_each_way_is_found(source: str, what: str) -> None:
    """A gate that lets everything through is none."""
    assert [found for _, found in dangers(source)] == [what]


@pytest.mark.parametrize(
    "source", ["import json", "re.compile(x)", "import_module('a.b')", "run(x, shell=False)", "self.exec(x)", "cursor.execute(x)"]
)
def test_what_is_harmless_is_let_through(source: str) -> None:
    """A gate that stops everything is soon taken away."""
    assert list(dangers(source)) == []


APP = """
from onward import Onward, define_job

def work(order: dict[str, str]) -> None: ...

app = Onward("sqlite:///jobs.db", jobs=[define_job("work", work)])
"""


def test_a_row_chooses_no_code(tmp_path: Path) -> None:
    """A real worker meets rows that name functions as their type, with a payload that would suit them: none runs, or costs a try."""
    (tmp_path / "shop.py").write_text(APP)
    payload = '"touch owned"'
    with Onward(f"sqlite:///{tmp_path}/jobs.db", jobs=[define_job("work", lambda: None)]) as app:
        hostile = [make_new_job(type=name, payload="touch owned") for name in HOSTILE_TYPES]
        objects = [make_new_job(payload={key: "os.system", "args": "touch owned"}) for key in ("__class__", "py/object", "__reduce__")]
        app.store.enqueue([*hostile, *objects])
        done = subprocess.run(
            [sys.executable, "-m", "onward", "-A", "shop:app", "worker", "--drain"],
            cwd=tmp_path,
            env={**{name: value for name, value in os.environ.items() if not name.startswith("ONWARD_")}, "PYTHONPATH": str(ROOT / "src")},
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert [app.get(one.id).status for one in objects] == [Status.COMPLETED] * 3
        for one in hostile:
            job = app.get(one.id)
            assert (job.status, job.blocked_by, job.attempts, job.payload) == (Status.QUEUED, "type", 0, payload), job.type
    assert not (tmp_path / "owned").exists()


def test_a_stored_error_is_text_and_no_class() -> None:
    """Other systems built the exception again from its stored name, and ran what the name led to."""
    from onward.reasons import FAILED, public_reason
    from onward.testing.factories import make_job

    for error in (
        "os.system: touch owned",
        "subprocess.CalledProcessError: x",
        "onward.errors.PermanentJobError: secret",
        "x.PermanentJobError: a",
    ):
        job: Job = make_job(Status.DEAD_LETTER, error=error)
        assert public_reason(job) == FAILED


def test_a_pickle_stays_data() -> None:
    """As a payload it is refused, or text like any other."""
    import pickle

    codec = define_job("keep", lambda text: None, payload=str).codec
    text = pickle.dumps(os.system, protocol=0).decode("ascii")
    assert codec.decode(codec.encode(text)) == text
    assert payload_hash(codec.encode(text))
