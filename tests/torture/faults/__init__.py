"""What a run does to its fleet: each fault a small function that breaks something, waits as long as the fault is to last, and mends it."""

from __future__ import annotations

from tests.torture.faults import callers, cancels, damage, disk, files, host, network, postgres, processes, reach, sqlite

FAULTS = {
    fault.name: fault
    for part in (processes, host, files, sqlite, disk, damage, callers, postgres, network, reach, cancels)
    for fault in part.FAULTS
}
