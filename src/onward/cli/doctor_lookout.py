"""What ``onward doctor`` says of who works, and of alerts that are open."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from onward.inspection import Finding
from onward.presence import living, who_is_lacking

if TYPE_CHECKING:
    from onward.driver import Store

MOST_ALERTS = 100


def workers(store: Store) -> Iterator[Finding]:
    """Jobs that are due and that nobody will ever take are the commonest reason for a queue that does nothing."""
    now = store.now()
    alive = living(store.workers(), now)
    paused = store.paused()
    waiting = [one for one in store.backlog() if one.depth and one.queue not in paused]
    if not alive:
        due = sum(one.depth for one in waiting)
        if due:
            yield Finding("workers", "warning", f"none is running, and {due:,} due job{' waits' if due == 1 else 's wait'}: onward worker")
        else:
            yield Finding("workers", "ok", "none is running, and no job is due")
        return
    yield Finding("workers", "ok", f"{len(alive):,} running")
    for one in waiting:
        match who_is_lacking(alive, one.queue, one.type):
            case "queue":
                yield Finding(
                    "workers", "warning", f"{one.type} waits in queue {one.queue}, which no running worker serves: onward workers"
                )
            case "type":
                text = f"{one.type} waits in queue {one.queue}, and no running worker that serves it knows this type"
                yield Finding("workers", "warning", text)


def open_alerts(store: Store) -> Iterator[Finding]:
    """Those that nobody has said to know of come first, and each is one line of the list."""
    found = store.alerts(is_open=True, limit=MOST_ALERTS)
    unseen = sum(one.acknowledged_at is None for one in found)
    if not found:
        yield Finding("alerts", "ok", "none is open")
    else:
        more = "+" if len(found) == MOST_ALERTS else ""
        yield Finding("alerts", "warning", f"{len(found):,}{more} open, {unseen:,} of them not acknowledged: onward alerts list")
