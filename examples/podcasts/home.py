"""Where the application keeps its things, and whom it asks. The only module that reads the environment.

``EXAMPLE_PODCASTS_HOME`` names the directory, ``EXAMPLE_PODCASTS_URL`` the database: ``sqlite:///file.db`` or ``postgresql://…``.
"""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

import sqlalchemy

HOME = Path(os.environ.get("EXAMPLE_PODCASTS_HOME", "podcasts-home")).absolute()
AUDIO = HOME / "audio"

URL = os.environ.get("EXAMPLE_PODCASTS_URL") or f"sqlite:///{quote(str(HOME / 'podcasts.db'))}"
"""The one database: the application's tables and Onward's jobs are in it, so that one transaction can hold both."""

VOICE = os.environ.get("EXAMPLE_PODCASTS_VOICE") or None
"""The address of a voice service; without one the built-in voice speaks."""

BACK_OFF = os.environ.get("EXAMPLE_PODCASTS_BACK_OFF", "10s")
"""How long a job waits after its first failed try."""


ONWARDS_OPTIONS = ("schema", "timeout", "connections", "notify", "prepare")
"""What a Postgres URL may say to Onward alone: other libraries would refuse it."""


def sqlalchemy_url(url: str) -> sqlalchemy.URL:
    """The same database as SQLAlchemy names it, with the driver that is awaited. Raises ``SystemExit`` for any other database."""
    scheme = urlsplit(url).scheme
    if scheme == "sqlite":
        return sqlalchemy.URL.create("sqlite+aiosqlite", database=unquote(urlsplit(url).path)[1:])
    if scheme in ("postgresql", "postgres"):
        return sqlalchemy.make_url(url).difference_update_query(ONWARDS_OPTIONS).set(drivername="postgresql+psycopg")
    raise SystemExit(f"EXAMPLE_PODCASTS_URL is sqlite:///file.db or postgresql://host/database, not {scheme}://…")
