"""Which tests reach what: each line of the library, and each statement of a store."""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib
import json
import re
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import coverage
import pytest

from tests.mutation.apply import Recording
from tests.mutation.mutant import ROOT, Mutant
from tests.mutation.processes import Say, in_process, run_forked
from tests.mutation.session import Tests, name_of, run_items, with_collected

_PATIENCE = 180.0
_NAME = re.compile(r"^-- name: (\w+)", re.MULTILINE)
KEPT = Path(tempfile.gettempdir()) / "onward-mutation"


@dataclass
class Reach:
    """``tests`` gives each test's seconds; ``reached`` the tests of ``file:line``, ``file:`` for any line, and ``file:block``.

    What only looks at constants runs no line of ours: such a test is one of ``file:`` if it imports that module.
    """

    tests: dict[str, float] = field(default_factory=dict)
    reached: dict[str, list[str]] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)

    def of(self, mutant: Mutant) -> list[str]:
        """The tests that reach it, the quickest first."""
        if mutant.file.endswith(".sql"):
            places = [f"{mutant.file}:{mutant.place}"]
        elif mutant.place:
            places = [f"{mutant.file}:{line}" for line in mutant.lines]
        else:
            places = [f"{mutant.file}:"]
        found = {test for place in places for test in self.reached.get(place, ())}
        return sorted(found, key=lambda test: (self.tests[test], test))


def record(tests: Tests, jobs: int, folder: Path = KEPT) -> Reach:
    """Run these tests once, or read from the folder what the last run over the same files found."""
    folder.mkdir(exist_ok=True)
    kept = folder / f"{hashlib.sha256(repr(tests).encode()).hexdigest()[:16]}.json"
    state = _state_of_the_tree(tests)
    if kept.exists() and (read := json.loads(kept.read_text(encoding="utf-8"))).pop("state") == state:
        return Reach(**read)
    reach = Reach()

    def run(items: list[pytest.Item]) -> None:
        for ended in run_forked(_portions(items, jobs * 4), _record_portion, jobs):
            _add(reach, ended.said, [name_of(item) for item in ended.task], ended.has_hung)

    def collect(send: Callable[[Reach], None]) -> None:
        with_collected(tests, run)
        send(reach)

    for found in in_process(collect):
        reach = found
    kept.write_text(json.dumps({"state": state, **reach.__dict__}), encoding="utf-8")
    return reach


def _portions(items: Sequence[pytest.Item], count: int) -> list[list[pytest.Item]]:
    """Whole files, so that what the tests of a file share is made once."""
    files = sorted(([*tests] for _, tests in groupby(items, lambda item: name_of(item).partition("::")[0])), key=len, reverse=True)
    portions: list[list[pytest.Item]] = [[] for _ in range(count)]
    for tests in files:
        min(portions, key=len).extend(tests)
    return [portion for portion in portions if portion]


def _record_portion(items: list[pytest.Item], say: Say) -> None:
    say({"patience": _PATIENCE})
    asked: set[str] = set()
    _listen(asked)
    measured = coverage.Coverage(data_file=None, source=[str(ROOT / "src/onward")], config_file=False, messages=False)
    tests: dict[str, float] = {}
    failed: list[str] = []
    statements: dict[str, list[str]] = {}
    measured.start()

    def begin(item: pytest.Item) -> None:
        measured.switch_context(name_of(item))
        asked.clear()
        say({"patience": _PATIENCE, "by": name_of(item)})

    for item, has_passed, seconds in run_items(items, begin):
        statements[name_of(item)] = sorted(asked)
        tests[name_of(item)] = round(seconds, 4)
        if not has_passed:
            failed.append(name_of(item))
    say({"patience": _PATIENCE})
    measured.stop()
    data = measured.get_data()
    lines: dict[str, dict[str, list[str]]] = {}
    for file in data.measured_files():
        by_line = data.contexts_by_lineno(file)
        lines[str(Path(file).relative_to(ROOT))] = {str(line): [one for one in contexts if one] for line, contexts in by_line.items()}
    say({"tests": tests, "failed": failed, "statements": statements, "lines": lines})


def _listen(asked: set[str]) -> None:
    """Have every store say which statements it runs."""
    driver: Any = importlib.import_module("onward.drivers.sqlite.driver")
    statement_text: Any = importlib.import_module("onward.drivers.postgres.statement_text")
    sqlite, postgres = (_files_of(name) for name in ("sqlite", "postgres"))
    load, fill = driver.load_statements, statement_text.StatementText.__init__

    def load_recording(text: str, **replacements: str) -> dict[str, str]:
        return Recording(load(text, **replacements), asked, sqlite)

    def fill_recording(self: Any, *arguments: Any, **named: Any) -> None:
        fill(self, *arguments, **named)
        self.raw = Recording(self.raw, asked, postgres)
        self._styled = Recording(self._styled, asked, postgres)

    driver.load_statements = load_recording
    statement_text.StatementText.__init__ = fill_recording


def _files_of(store: str) -> dict[str, str]:
    """In which file each statement of a store stands."""
    found = {}
    for path in sorted((ROOT / "src/onward/drivers" / store).glob("*.sql")):
        found |= dict.fromkeys(_NAME.findall(path.read_text(encoding="utf-8")), str(path.relative_to(ROOT)))
    return found


def _add(reach: Reach, said: Mapping[str, Any], asked_for: Sequence[str], has_hung: bool) -> None:
    if has_hung or "tests" not in said:
        where = said.get("by", "what comes before and behind the tests")
        why = said.get("error", f"{'it hung' if has_hung else 'its process ended'} in {where}")
        raise RuntimeError(f"the recording of {asked_for[0]} and {len(asked_for) - 1} more did not end: {why}")
    failed = set(said["failed"])
    reach.failed += sorted(failed)
    reach.tests |= {test: seconds for test, seconds in said["tests"].items() if test not in failed}
    pairs: list[tuple[str, Iterable[str]]] = []
    for test, statements in said["statements"].items():
        pairs += [(place, [test]) for place in statements]
    for file, by_line in said["lines"].items():
        pairs += [(f"{file}:{line}", tests) for line, tests in by_line.items()]
        pairs.append((f"{file}:", {test for tests in by_line.values() for test in tests}))
    running = {test for by_line in said["lines"].values() for tests in by_line.values() for test in tests}
    for test in said["tests"].keys() - running:
        pairs += [(f"{file}:", [test]) for file in _imported(ROOT / test.partition("::")[0])]
    for place, tests in pairs:
        reach.reached.setdefault(place, []).extend(test for test in tests if test not in failed)


@functools.cache
def _imported(path: Path) -> list[str]:
    """The files of the library whose modules this file imports."""
    modules = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            modules |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
    files = [f"src/{module.replace('.', '/')}.py" for module in sorted(modules)]
    return [file for file in files if (ROOT / file).is_file()]


def _state_of_the_tree(tests: Tests) -> str:
    """Of the library, and of the tests themselves: what they import beside that changes what they do, not what they reach."""
    digest = hashlib.sha256(repr(tests).encode())
    for path in (ROOT / "src", *(ROOT / path for path in tests.paths)):
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.suffix in (".py", ".sql"):
                digest.update(str(file).encode() + file.read_bytes())
    return digest.hexdigest()
