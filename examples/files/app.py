"""The application: its jobs, its store and its checks. A worker for it: ``onward -A examples.files.app:app worker``."""

from __future__ import annotations

from examples.files.handlers import delete_model, delete_summary, files, write_model, write_summary
from examples.files.home import URL, make_directories
from examples.files.models import ModelCheck
from onward import Onward

make_directories()
app = Onward(
    URL, jobs=[write_model, write_summary, delete_model, delete_summary, *files.jobs], reconcile=[ModelCheck(), files], migrate=True
)
