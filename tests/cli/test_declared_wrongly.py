"""A mistake in the application's own declarations, as the command line tells it: which job, and where."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]

OPENING = "from onward import Onward, RetryPolicy, define_job, job\n\ndef send(to: str) -> None: ...\n\n"


@pytest.mark.parametrize(
    ("mistake", "told"),
    [
        ("mail = define_job('send-mail', send, tiemout='5s')", "send-mail: unknown rule 'tiemout': did you mean 'timeout'?"),
        ("mail = job('send-mail', retires=3)(send)", "send-mail: unknown rule 'retires': did you mean 'retry'?"),
        ("mail = define_job('send-mail', send, priority=1000)", "a priority is a whole number from -100 to 100"),
        ("mail = define_job('send-mail', lambda to: None)", "the payload of send-mail has no type"),
        ("retry = RetryPolicy(max_attempts=0)", "max_attempts must be a whole number"),
        ("app = Onward('sqlite:shop.db')", "'sqlite:shop.db' lacks slashes"),
    ],
    ids=["rule", "decorator", "priority", "payload", "policy", "url"],
)
@pytest.mark.parametrize("is_factory", [False, True], ids=["module", "factory"])
def test_the_place_of_a_wrong_declaration_is_told(onward: Run, shop: Path, mistake: str, told: str, is_factory: bool) -> None:
    """An application has many jobs, in many files; the exit code says still that the declaration is wrong, not the application's name."""
    text = f"def app():\n    {mistake}\n    return Onward('memory://')\n" if is_factory else f"{mistake}\n"
    (shop / "shop_jobs.py").write_text(OPENING + text)
    (shop / "broken.py").write_text("from shop_jobs import *\n")
    done = onward("-A", "broken:app", "worker", "--drain")
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"Error: {told}")
    assert line.endswith(f" ({shop}/shop_jobs.py, line {6 if is_factory else 5})")


def test_the_line_itself_is_not_shown(onward: Run, shop: Path) -> None:
    """The error has masked the password; the line that it came from has it."""
    (shop / "broken.py").write_text("from onward import Onward\napp = Onward('sqlite:ada:s3cret@host/shop.db')\n")
    done = onward("-A", "broken:app", "jobs", "list")
    assert done.returncode == 2
    assert "broken.py, line 2)" in done.stderr
    assert "s3cret" not in done.stderr
