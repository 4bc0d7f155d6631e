"""The shop as a module that a worker loads. Run by itself, it tries one enqueue and prints how that ended."""

from __future__ import annotations

import os
from pathlib import Path

from onward.errors import OutcomeUnknown, StoreError
from tests.torture.shop import NOTE, Shop, job_id

NEW = 500
shop = Shop(Path(os.environ["SHOP_HOME"]))
app = shop.app


def try_to_enqueue() -> str:
    """Say how an enqueue ends."""
    try:
        app.enqueue(NOTE, NEW, id=job_id(NEW))
    except OutcomeUnknown:
        return "unknown"
    except StoreError:
        return "refused"
    return "accepted"


if __name__ == "__main__":
    print(try_to_enqueue())
