"""Ports on loopback for servers that are stopped and started again."""

from __future__ import annotations

import random
import socket

HOST = "127.0.0.1"
# Below what Linux and macOS give to outgoing connections. From their range, a client that tries to reach a server which is down
# can be given the server's own port as its source, is then connected with itself, and keeps the server from coming back.
_PORTS = range(20_000, 32_000)


def free_port() -> int:
    """Give a port of 127.0.0.1 that is free, and that no outgoing connection is given. Another process may be quicker to take it."""
    while True:
        port = random.choice(_PORTS)
        with socket.socket() as probe:
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
        return port
