"""``durability=relaxed`` in a URL: a turn's commit does not wait for the disk.

What a power cut may then take back are the newest claims and completions without children, so that these jobs run again. Every commit
that accepts a job, that a person asks for, or that is a handler's own (``ctx.transaction()``) still waits, and with it all that was
committed before.
The kill of a process, or its crash, takes nothing back in either setting.
"""

from __future__ import annotations

from onward.errors import InvalidSetting

WAYS = ("strict", "relaxed")


def is_relaxed(value: str) -> bool:
    """Read the option. Raises ``InvalidSetting``."""
    if value not in WAYS:
        raise InvalidSetting(f"durability must be {' or '.join(WAYS)}, not {value!r:.40}")
    return value == "relaxed"
