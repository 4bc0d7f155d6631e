"""One look at a store: what waits and runs just now, what ended within a while, and who works."""

from __future__ import annotations

from datetime import datetime, timedelta

from onward.driver import Store
from onward.metrics import LATEST, Metrics, flows
from onward.rollups import minute_of

WINDOW = timedelta(hours=1)


def look(store: Store, window: timedelta = WINDOW) -> Metrics:
    """What waits and runs in a store just now, and what ended within the window before. Raises ``StoreError``."""
    now = store.now()
    # What was counted before the clock was set back is not of this hour.
    rollups = [one for one in store.rollups(now - window) if one.minute <= minute_of(now)]
    begin = minute_of(now - LATEST)
    latest = now - datetime.fromisoformat(f"{begin}+00:00")
    return Metrics(
        at=now,
        window=window,
        backlog=tuple(store.backlog()),
        flows=tuple(flows(rollups, window)),
        latest=tuple(flows((one for one in rollups if one.minute >= begin), min(latest, window))),
        workers=tuple(store.workers()),
        paused=frozenset(store.paused()),
    )
