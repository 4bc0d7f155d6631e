"""Serve the API: ``python -m examples.podcasts.serve``. What is wrong with the database is said in one line, before anybody asks."""

from __future__ import annotations

import argparse
import asyncio

import uvicorn

from examples.podcasts.errors import UNUSABLE, first_line
from examples.podcasts.install import missing_tables


def main() -> None:
    """Look at the database, and serve until a signal. Raises ``SystemExit`` with one line where it cannot be used."""
    asked = argparse.ArgumentParser(prog="python -m examples.podcasts.serve", description=__doc__)
    asked.add_argument("--host", default="127.0.0.1")
    asked.add_argument("--port", type=int, default=8000)
    given = asked.parse_args()
    try:
        from examples.podcasts.api import api
        from examples.podcasts.jobs import app

        is_ready = app.store.exists() and not app.store.needs_migration() and not asyncio.run(missing_tables())
    except UNUSABLE as error:
        raise SystemExit(first_line(error)) from None
    if not is_ready:
        raise SystemExit(f"{app.store.url} lacks tables: run python -m examples.podcasts.install")
    uvicorn.run(api, host=given.host, port=given.port)


if __name__ == "__main__":
    main()
