"""``check_sources``: from the text of files to violations, without those that a comment allows."""

from __future__ import annotations

import tokenize
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path

from onward.enqueue_check.allowances import read_allowances
from onward.enqueue_check.scopes import Module
from onward.enqueue_check.sql_writes import Tables, WritePattern
from onward.enqueue_check.tracing import Tracing
from onward.enqueue_check.violation import Finding, Violation
from onward.enqueue_check.visitor import Visitor

_UNPARSABLE = (SyntaxError, ValueError, RecursionError, MemoryError)


def check_sources(sources: Mapping[str, bytes], tables: Tables | None = None) -> list[Violation]:
    """Check files that belong together: path → content. A file that is no Python is a violation."""
    modules, found = [], []
    for path, source in sources.items():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # an odd escape in a string is not ours to mention
                modules.append(Module(path, Path(path).absolute(), source))
        except _UNPARSABLE as error:
            found.append(_unparsable(path, error))
    tracing = Tracing(modules)
    pattern = WritePattern(tables or Tables())
    for module in modules:
        try:
            found += _allowed_taken_out(module, Visitor(module, tracing, pattern).findings(), sources[module.path])
        except RecursionError as error:
            found.append(_unparsable(module.path, error))
    return sorted(found)


def _unparsable(path: str, error: BaseException) -> Violation:
    line = getattr(error, "lineno", None) or 1
    why = "it is nested too deeply" if isinstance(error, RecursionError | MemoryError) else getattr(error, "msg", None) or str(error)
    return Violation(path, line, getattr(error, "offset", None) or 1, "unreadable", f"it is no Python that can be read ({why})")


def _allowed_taken_out(module: Module, found: Iterable[Finding], source: bytes) -> list[Violation]:
    try:
        allowances = read_allowances(source)
    except (tokenize.TokenError, SyntaxError):
        return [violation for violation, _, _ in found]
    kept = [violation for violation, first, last in found if not allowances.covers(first, last)]
    return kept + [
        Violation(module.path, line, 1, "allow-without-reason", "'# onward: allow' without a reason allows nothing")
        for line in allowances.without_reason()
    ]
