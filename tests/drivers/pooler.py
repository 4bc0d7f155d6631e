"""A pooler before a Postgres server, as far as a client can tell one: it lends connections of its own, and makes up process numbers."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import struct
import threading
from typing import Any, Literal, Self
from urllib.parse import urlsplit, urlunsplit

import psycopg

from tests.loopback import HOST

ASKS_TO_ENCRYPT = (80877103, 80877104)
TOLD = ("server_version", "server_encoding", "client_encoding", "standard_conforming_strings", "integer_datetimes", "TimeZone", "DateStyle")
ENDS_A_REQUEST = b"QS"


class Pooler:
    """Lends a connection for a ``transaction`` or for a whole ``session``, the one that came back last. Use in a ``with`` block.

    All its connections to the server are to the database of ``url``, and there are never more than ``most``. Like PgBouncer before 1.21
    it knows nothing of prepared statements.
    Notifications come through only beside an answer.
    """

    def __init__(self, url: str, lends_for: Literal["transaction", "session"], most: int = 100) -> None:
        self._server = url
        self._lends_for = lends_for
        self._most = most
        self._idle: list[Lent] = []
        self._all: list[Lent] = []
        self._clients: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server((HOST, 0))
        parts = urlsplit(url)
        host = f"{parts.username or 'postgres'}@{HOST}:{self._listener.getsockname()[1]}"
        self.url = urlunsplit(parts._replace(netloc=host))

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._threads[0].join()
        for client in self._clients:
            with contextlib.suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)
        for lent in self._all:
            lent.close()
        for thread in self._threads[1:]:
            thread.join()
        self._listener.close()

    def _start(self, work: Any, *arguments: Any) -> None:
        self._threads.append(threading.Thread(target=work, args=arguments, daemon=True))
        self._threads[-1].start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._clients.append(client)
                self._start(self._serve, client)

    def _serve(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError, EOFError, struct.error):
            self._greet(client)
            lent: Lent | None = None
            try:
                while (request := read_message(client))[:1] != b"X":
                    lent = lent or self._take()
                    lent.socket.sendall(request)
                    if request[:1] in ENDS_A_REQUEST and self._pass_answer(lent, client) and self._lends_for == "transaction":
                        self._idle.append(lent)
                        lent = None
            finally:
                if lent is not None:
                    lent.close()

    def _greet(self, client: socket.socket) -> None:
        while True:
            size, code = struct.unpack("!ii", read(client, 8))
            read(client, size - 8)
            if code not in ASKS_TO_ENCRYPT:
                break
            client.sendall(b"N")
        lent = self._take()
        told = [(name, lent.connection.info.parameter_status(name)) for name in TOLD]
        self._idle.append(lent)
        client.sendall(b"R" + struct.pack("!ii", 8, 0))
        for name, value in told:
            body = f"{name}\0{value}\0".encode()
            client.sendall(b"S" + struct.pack("!i", len(body) + 4) + body)
        client.sendall(b"K" + struct.pack("!i", 12) + secrets.token_bytes(8) + b"Z" + struct.pack("!i", 5) + b"I")

    def _take(self) -> Lent:
        try:
            return self._idle.pop()
        except IndexError:
            if len(self._all) == self._most:
                raise EOFError("there is none to lend") from None
            self._all.append(Lent(self._server))
            return self._all[-1]

    def _pass_answer(self, lent: Lent, client: socket.socket) -> bool:
        """Pass everything on up to the end of the answer. True when no transaction is open behind it."""
        while True:
            message = read_message(lent.socket)
            client.sendall(message)
            if message[:1] == b"Z":
                return message[5:] == b"I"


class Lent:
    """A connection to the server, opened by libpq and then spoken to directly."""

    def __init__(self, url: str) -> None:
        self.connection = psycopg.connect(url, autocommit=True, sslmode="disable", gssencmode="disable")
        self.socket = socket.socket(fileno=os.dup(self.connection.fileno()))
        self.socket.setblocking(True)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # requests are passed on in pieces

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        self.connection.close()


def read_message(source: socket.socket) -> bytes:
    head = read(source, 5)
    return head + read(source, struct.unpack("!i", head[1:])[0] - 4)


def read(source: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = source.recv(size - len(data))
        if not more:
            raise EOFError
        data += more
    return data
