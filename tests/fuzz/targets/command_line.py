"""The command line: any words end in an exit code that is declared and in one line that says why, never in a traceback."""

from __future__ import annotations

import os
import re

from click.testing import CliRunner
from hypothesis import strategies as st

from onward.cli.main import cli
from tests.fuzz.target import Target, as_bytes, as_text, must

EXIT_CODES = {0, 1, 2, 3}
VERBS = (
    ("jobs", "list"),
    ("jobs", "show"),
    ("jobs", "retry"),
    ("jobs", "cancel"),
    ("jobs", "delete"),
    ("stats",),
    ("doctor",),
    ("config",),
)
_LEADS_ELSEWHERE = re.compile(r"-[^-]*[Au]|--(?:app|url)")
"""Options that would import a module, or reach another store."""


def check(data: bytes) -> None:
    first, *words = as_text(data[1:]).split("\n")
    verb = VERBS[data[0] % len(VERBS)] if data else VERBS[0]
    arguments = [word.replace("\0", "") for word in (first, *words) if word and not _LEADS_ELSEWHERE.match(word)]
    answer = CliRunner(env={name: None for name in os.environ if name.startswith("ONWARD_")}).invoke(
        cli, ["-u", "memory://", *verb, *arguments]
    )
    if answer.exception is not None and not isinstance(answer.exception, SystemExit):
        raise answer.exception
    must(answer.exit_code in EXIT_CODES, f"the exit code {answer.exit_code}")
    must("Traceback" not in answer.output, "a traceback")
    must(all(one.isprintable() or one == "\n" for one in answer.output), "a character that could be a command")
    if answer.exit_code == 2:
        must(answer.output.startswith(("Error: ", "Usage: ")), "a refusal that does not say that it is one")


_words = st.sampled_from(
    (
        *("--status", "queued", "--type", "--queue", "--key", "--owner", "--limit", "5", "0", "9" * 30, "--before", "--json", "--raw"),
        *("--full", "--yes", "0" * 26, "7ZZZZZZZZZZZZZZZZZZZZZZZZZ", "--", "-", "--help", "--sql", "--stuck-after", "5m", "failed"),
        *("stuck", "\x1b[2J", "\ud800", "--limit=-1"),
    )
)

TARGET = Target(
    "command-line",
    check,
    st.tuples(st.integers(0, 255), st.lists(_words | st.text(max_size=6), max_size=7)).map(
        lambda made: bytes([made[0]]) + as_bytes("\n".join(made[1]))
    ),
    ("--status\n", "--limit\n", "--before\n", "--json\n", "--owner\n", "--stuck-after\n", "queued\n", "--sql\n", "--\n"),
)
