"""Where the application keeps its things.

``EXAMPLE_FILES_HOME`` names the directory, ``EXAMPLE_FILES_URL`` another database: ``sqlite:///file.db`` or ``postgresql://…``.
"""

from __future__ import annotations

import os
from pathlib import Path

HOME = Path(os.environ.get("EXAMPLE_FILES_HOME", "files-home")).absolute()
URL = os.environ.get("EXAMPLE_FILES_URL") or f"sqlite:///{HOME / 'app.db'}"
LEASE = os.environ.get("EXAMPLE_FILES_LEASE", "60s")

MODELS = HOME / "models"
"""One JSON file a model: the data layer."""
FILES = HOME / "files"
"""Whatever ``create_file`` and ``delete_file`` are asked for."""


def make_directories() -> None:
    """Make what has to exist before a job runs."""
    for directory in (HOME, MODELS, FILES):
        directory.mkdir(parents=True, exist_ok=True)
