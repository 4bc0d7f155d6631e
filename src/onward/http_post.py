"""One HTTP request that ends in time, however slowly the other side answers: a timeout of a socket begins anew with every byte."""

from __future__ import annotations

import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from http.client import HTTPConnection, HTTPSConnection
from urllib.parse import SplitResult, urlsplit
from urllib.request import getproxies, proxy_bypass

LARGEST_ANSWER = 64 * 1024
"""Bytes of an answer that are read, so that the receiver may see its end."""


def post(url: str, body: bytes, headers: Mapping[str, str], *, seconds: float) -> int:
    """Send it, and give the status of the answer. Follows no redirect: what was signed for one place is not carried to another.

    The proxies of the environment (``https_proxy``) are used. Raises ``OSError``, ``http.client.HTTPException`` or ``ValueError``.
    """
    parts = urlsplit(url)
    target = f"{parts.path or '/'}{'?' + parts.query if parts.query else ''}"
    connection, is_whole = _connection(parts, seconds)
    ends = threading.Timer(seconds, _end, (connection,))
    ends.daemon = True
    ends.start()
    try:
        connection.request("POST", f"{parts.scheme}://{parts.netloc}{target}" if is_whole else target, body, dict(headers))
        answer = connection.getresponse()
        with suppress(OSError, ValueError):
            answer.read(LARGEST_ANSWER)
        return answer.status
    finally:
        ends.cancel()
        connection.close()


def _connection(parts: SplitResult, seconds: float) -> tuple[HTTPConnection, bool]:
    """A connection to the place or to a proxy before it, and whether the whole URL is to be asked for there."""
    kinds = {"http": HTTPConnection, "https": HTTPSConnection}
    host, port = parts.hostname or "", parts.port
    proxy = urlsplit(getproxies().get(parts.scheme, "")) if not proxy_bypass(host) else None
    if proxy is None or not proxy.hostname:
        return kinds[parts.scheme](host, port, timeout=seconds), False
    connection = kinds[parts.scheme](proxy.hostname, proxy.port, timeout=seconds)
    if parts.scheme == "http":
        return connection, True
    connection.set_tunnel(host, port)
    return connection, False


def _end(connection: HTTPConnection) -> None:
    """Whatever it waits for just now fails."""
    with suppress(OSError, AttributeError):
        connection.sock.shutdown(socket.SHUT_RDWR)
