"""The public surface is a list: whoever changes it changes this file, where a reviewer sees it."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import onward

PUBLIC_NAMES = {
    "CONNECTION_ERRORS",
    "Breaker",
    "AlertNotFound",
    "AlertRules",
    "BreakerOpen",
    "Cancel",
    "DuplicateJob",
    "DurabilityWarning",
    "Event",
    "FailureGroupNotFound",
    "IllegalTransition",
    "InvalidDefinition",
    "InvalidPayload",
    "Job",
    "JobContext",
    "JobDefinition",
    "JobHandle",
    "JobNotEnded",
    "JobNotFound",
    "Kept",
    "KeyReused",
    "LeaseLost",
    "Limit",
    "Onward",
    "OnwardError",
    "OutcomeUnknown",
    "PayloadTooLarge",
    "Periodic",
    "PeriodicJobNotFound",
    "PermanentJobError",
    "Release",
    "Retention",
    "RetryPolicy",
    "Secret",
    "Snooze",
    "Status",
    "StoreBusy",
    "StoreError",
    "StoreUnavailable",
    "TransientJobError",
    "Webhook",
    "awith_transactional_state_and_enqueue",
    "define_job",
    "job",
    "public_reason",
    "with_transactional_state_and_enqueue",
}

# Every public name is asked for, since importing the package alone loads none of them.
USE = "from onward import *"

HEAVY = {"asyncio", "click", "concurrent.futures.process", "ctypes", "dataclasses", "email", "http", "multiprocessing", "rich", "sqlite3"}

MODULES_AFTER = "import sys; {statement}; print('\\n'.join(sorted(sys.modules)))"


def modules_after(statement: str) -> set[str]:
    """Say which modules a fresh interpreter has loaded after one statement."""
    command = [sys.executable, "-c", MODULES_AFTER.format(statement=statement)]
    return set(subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout.split())


def top(modules: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in modules}


def test_the_public_names_are_these_and_no_others() -> None:
    """A name that slips in is a promise to keep; one that slips out breaks an application."""
    assert set(onward.__all__) == PUBLIC_NAMES
    assert all(hasattr(onward, name) for name in PUBLIC_NAMES)


def test_the_list_of_public_names_is_sorted_and_says_each_once() -> None:
    """Two branches that add a name then meet in a merge, not in a doubled line."""
    assert onward.__all__ == sorted(set(onward.__all__), key=lambda name: (not name.isupper(), name))


def test_what_a_type_checker_sees_is_what_a_program_gets() -> None:
    """Names are loaded on demand, so the imports that a type checker reads are never run: they must name the same things."""
    tree = ast.parse(Path(onward.__file__).read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("onward.")]
    seen = {alias.name: node.module for node in imports for alias in node.names}
    assert set(seen) == PUBLIC_NAMES
    for name, module in seen.items():
        assert getattr(onward, name) is getattr(sys.modules[str(module)], name)


def test_a_name_that_is_not_there_is_said_to_be_missing() -> None:
    """A misspelt import must read like any other."""
    with pytest.raises(AttributeError, match="module 'onward' has no attribute 'Onwards'"):
        _ = onward.Onwards  # type: ignore[attr-defined]


def test_importing_the_package_alone_loads_nothing_but_itself() -> None:
    """The command line answers --help before it has loaded anything it does not need."""
    assert {name for name in modules_after("import onward") if "." in name and name.startswith("onward.")} == set()


@pytest.mark.parametrize("name", sorted(PUBLIC_NAMES))
def test_every_public_name_says_what_it_is(name: str) -> None:
    """Help in an editor is the documentation that is read most."""
    text = getattr(onward, name).__doc__
    assert text, f"onward.{name} has no docstring"
    assert len(text.split()) >= 3, f"the docstring of onward.{name} says nothing: {text!r}"


def test_importing_onward_loads_only_the_standard_library_and_msgspec() -> None:
    """Code that only enqueues must not pay for a command line or a web framework, nor need them installed."""
    brought_by_msgspec = top(modules_after("import msgspec"))
    loaded = top(modules_after(USE))
    strangers = {name for name in loaded - brought_by_msgspec if name not in sys.stdlib_module_names}
    assert strangers == {"onward"}


def test_importing_onward_leaves_the_heavy_parts_of_the_standard_library_alone() -> None:
    """A short script and a serverless function pay the import on every start."""
    before = modules_after("import msgspec, logging, threading")
    assert (modules_after(USE) - before) & HEAVY == set()


def test_no_driver_worker_or_command_line_is_loaded_before_it_is_used() -> None:
    """Enqueueing needs no worker, and one backend needs no other."""
    loaded = modules_after(USE)
    assert {
        name for name in loaded if name.startswith(("onward.worker", "onward.cli", "onward.testing", "onward.files", "onward.drivers."))
    } == set()
