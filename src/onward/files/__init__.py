"""Files as the effect of jobs: written whole or not at all, below one directory, and checked against what the store says.

``FileJobs`` is all that most applications need. ``create_file`` and ``delete_file`` serve a handler of one's own, which completes its job
through them; ``compare`` serves a check of one's own.
"""

from onward.files.create import create_file
from onward.files.delete import delete_file
from onward.files.jobs import CreateFile, DeleteFile, FileJobs
from onward.files.reconcile import Promise, Reconciliation, compare
from onward.files.safe_path import UnsafePath, digest, read_file
from onward.files.temporary import find_leftovers, sweep_temporaries

__all__ = [
    "CreateFile",
    "DeleteFile",
    "FileJobs",
    "Promise",
    "Reconciliation",
    "UnsafePath",
    "compare",
    "create_file",
    "delete_file",
    "digest",
    "find_leftovers",
    "read_file",
    "sweep_temporaries",
]
