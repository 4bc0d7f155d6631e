"""What a process start is called in the rows that it holds. By itself, so that a supervisor need not load a worker for it."""

from __future__ import annotations

import os
import socket


def make_lease_owner(pid: int | None = None, nonce: str | None = None) -> str:
    """Name one start of one process: host:pid:nonce, so that a reused pid or host name is never taken for the same."""
    return f"{socket.gethostname()}:{os.getpid() if pid is None else pid}:{nonce or os.urandom(4).hex()}"
