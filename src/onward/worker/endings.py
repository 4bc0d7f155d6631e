"""How a process ended, in words."""

from __future__ import annotations

import signal


def describe_end(code: int) -> str:
    """Say how a process ended, by the exit code that is negative for a signal. Some signals have no name."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
