"""Finds where an application's code enqueues around the primitives. Reads source text; imports and runs nothing of it.

``check_sources`` is the rule: from the text of files to violations. ``check_paths`` reads the files. What is found, and what cannot be,
stands in ``docs/howto/keep-to-the-primitives.md``.
"""

from onward.enqueue_check.files import Checked, check_paths
from onward.enqueue_check.sources import check_sources
from onward.enqueue_check.sql_writes import Tables
from onward.enqueue_check.violation import Violation

__all__ = ["Checked", "Tables", "Violation", "check_paths", "check_sources"]
