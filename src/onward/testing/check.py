"""``check_enqueues``: ``onward check`` as a test of the application's own suite."""

from __future__ import annotations

import os

from onward.enqueue_check import Tables, check_paths


def check_enqueues(*paths: str | os.PathLike[str], prefix: str = "onward_", schema: str = "onward") -> None:
    """Assert that no code below these paths enqueues around the primitives; the failure lists every place that does.

    ``prefix`` and ``schema`` are those of Onward's tables, where they were given other names. Also fails when there is nothing to check:
    a folder that was moved would pass for ever.
    """
    __tracebackhide__ = True
    checked = check_paths(paths, Tables(prefix=prefix, schema=schema))
    if not checked.files and not checked.violations:
        raise AssertionError(f"there is no Python file below {', '.join(map(str, paths)) or 'no path at all'}, so nothing was checked")
    if checked.violations:
        raise AssertionError("\n".join([f"{len(checked.violations):,} to mend:", *map(str, checked.violations)]))
