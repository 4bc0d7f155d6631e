"""A TCP proxy on loopback that can break the network between a client and a server, and mend it again."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Self
from urllib.parse import urlsplit, urlunsplit

from tests.loopback import HOST, free_port

TO_SERVER, TO_CLIENT = "to server", "to client"
BOTH = (TO_SERVER, TO_CLIENT)
PATIENCE = 10
CHUNK = 65536
HEAD = 4096
"""Bytes at the beginning of a connection by which it is known."""


class TcpProxy:
    """Passes everything on to ``host`` and ``port`` until it is told otherwise. Runs in a thread of its own. Use in a ``with`` block.

    - ``drop``: reset all connections, and refuse new ones.
    - ``silence``: stay connected and take new connections, but pass nothing on, in both directions or in one.
    - ``silence_at``: the same, from the moment on at which a client sends certain bytes.
    - ``silence_those``: the same for single connections, new ones included: those whose client began with certain bytes.
    - ``half_close``: end one direction of all connections, new ones included, while the other goes on.
    - ``reset``: reset all connections, and take new ones.
    - ``refuse``: refuse new connections, and go on with those that are open.
    - ``delay``: let everything arrive later.
    - ``stall_after`` and ``cut_after``: pass on some bytes of each connection, new ones included, and then nothing, or reset it.
    - ``lead_to``: reset all connections, and lead new ones to another server.
    - ``restore``: take and pass on again. What silence held back then still arrives, as with packets that are sent again.

    Each returns when it is so. ``passed`` counts the bytes passed on, by direction, and ``hits`` how often single connections were
    silenced, stalled or cut.
    """

    def __init__(self, host: str, port: int, *, address: str = HOST) -> None:
        """``address`` is the one of this machine at which it listens."""
        self.address = address
        self.port = free_port()
        self.passed = dict.fromkeys(BOTH, 0)
        self.hits = 0
        self._server = (host, port)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tcp-proxy", daemon=True)
        self._listener: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._connections: set[_Connection] = set()
        self._opening: set[asyncio.Task[None]] = set()
        self._gates = {direction: asyncio.Event() for direction in BOTH}
        self._ended: str | None = None
        self._trap: tuple[bytes, tuple[str, ...]] | None = None
        self._silenced: bytes | None = None
        self._delay = 0.0
        self._allowance: tuple[dict[str, int], bool] | None = None
        """How many bytes more each connection may pass on, by direction, and whether it is reset behind them."""
        self._mended = asyncio.Event()
        """Set by ``restore``: ends the silence of single connections."""

    @classmethod
    def before(cls, url: str) -> Self:
        """A proxy before the server of this URL."""
        parts = urlsplit(url)
        assert parts.hostname is not None
        return cls(parts.hostname, parts.port or 5432)

    def through(self, url: str) -> str:
        """The URL that reaches the same through this proxy."""
        parts = urlsplit(url)
        user, at, _ = parts.netloc.rpartition("@")
        return urlunsplit(parts._replace(netloc=f"{user}{at}{self.address}:{self.port}"))

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self._connections)

    @property
    def is_silent(self) -> bool:
        """True while anything is held back, also by ``silence_at``."""
        return not all(gate.is_set() for gate in self._gates.values())

    def drop(self) -> None:
        self._do(self._drop)

    def silence(self, *directions: str) -> None:
        self._do(lambda: self._silence(directions or BOTH))

    def silence_at(self, sent: bytes, *directions: str) -> None:
        """``TO_SERVER`` holds back what was sent, ``TO_CLIENT`` lets that through and holds back its answer."""
        self._do(lambda: self._set_trap(sent, directions or BOTH))

    def silence_those(self, began_with: bytes) -> None:
        self._do(lambda: self._silence_those(began_with))

    def half_close(self, direction: str) -> None:
        self._do(lambda: self._half_close(direction))

    def reset(self) -> None:
        self._do(self._reset_all)

    def lead_to(self, host: str, port: int) -> None:
        self._server = (host, port)
        self.reset()

    def refuse(self) -> None:
        self._do(self._refuse)

    def delay(self, seconds: float) -> None:
        self._do(lambda: self._set_delay(seconds))

    def stall_after(self, count: int, *directions: str) -> None:
        self._do(lambda: self._allow(dict.fromkeys(directions or BOTH, count), cuts=False))

    def cut_after(self, count: int, *directions: str) -> None:
        self._do(lambda: self._allow(dict.fromkeys(directions or BOTH, count), cuts=True))

    def restore(self) -> None:
        self._do(self._restore)

    def __enter__(self) -> Self:
        self._thread.start()
        self.restore()
        return self

    def __exit__(self, *_: object) -> None:
        self.drop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)
        self._loop.close()

    # -- in the thread ---------------------------------------------------------------------------------------------------

    def _do(self, what: Callable[[], Coroutine[Any, Any, None]]) -> None:
        asyncio.run_coroutine_threadsafe(what(), self._loop).result(PATIENCE)

    async def _restore(self) -> None:
        self._ended = self._trap = self._silenced = self._allowance = None
        self._delay = 0.0
        for connection in self._connections:
            connection.left.clear()
        self._mended.set()
        for gate in self._gates.values():
            gate.set()
        if self._listener is None:
            self._listener = socket.create_server((self.address, self.port), backlog=100)
            self._listener.setblocking(False)
            self._accepting = self._loop.create_task(self._accept(self._listener))

    async def _drop(self) -> None:
        await self._refuse()
        await _cancel(*self._opening)
        await self._reset_all()

    async def _refuse(self) -> None:
        if self._listener is not None:
            assert self._accepting is not None
            await _cancel(self._accepting)
            self._listener.close()
            self._listener = None

    async def _reset_all(self) -> None:
        for connection in list(self._connections):
            await connection.reset()

    async def _set_delay(self, seconds: float) -> None:
        self._delay = seconds

    async def _silence_those(self, began_with: bytes) -> None:
        self._mended.clear()
        self._silenced = began_with

    async def _allow(self, left: dict[str, int], *, cuts: bool) -> None:
        self._mended.clear()
        self._allowance = left, cuts
        for connection in self._connections:
            connection.left = dict(left)

    async def _silence(self, directions: tuple[str, ...]) -> None:
        for direction in directions:
            self._gates[direction].clear()

    async def _set_trap(self, sent: bytes, directions: tuple[str, ...]) -> None:
        self._trap = sent, directions

    async def _half_close(self, direction: str) -> None:
        self._ended = direction
        for connection in list(self._connections):
            await connection.end(direction)

    async def _spring(self, data: bytes) -> None:
        if self._trap is not None and self._trap[0] in data:
            await self._silence(self._trap[1])
            self._trap = None

    async def _accept(self, listener: socket.socket) -> None:
        while True:
            client, _ = await self._loop.sock_accept(listener)
            task = self._loop.create_task(self._open(client))
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)

    async def _open(self, client: socket.socket) -> None:
        server = socket.socket()
        server.setblocking(False)
        try:
            await self._loop.sock_connect(server, self._server)
        except BaseException as error:
            _reset(client, server)
            if not isinstance(error, OSError):
                raise
            return
        connection = _Connection(self, client, server, {} if self._allowance is None else dict(self._allowance[0]))
        self._connections.add(connection)
        if self._ended is not None:
            await connection.end(self._ended)


class _Connection:
    """Two sockets, and a task for each direction. Lives in the proxy's thread."""

    def __init__(self, proxy: TcpProxy, client: socket.socket, server: socket.socket, left: dict[str, int]) -> None:
        self._proxy = proxy
        self.left = left
        """Bytes that may still pass, by direction; without end where there is no number."""
        self._head = b""
        self._ends = {TO_SERVER: (client, server), TO_CLIENT: (server, client)}
        for end in (client, server):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._tasks = {direction: proxy._loop.create_task(self._pass(direction)) for direction in BOTH}

    async def _pass(self, direction: str) -> None:
        """Pass on until the source ends, and then let the target know."""
        source, target = self._ends[direction]
        try:
            while data := await self._proxy._loop.sock_recv(source, CHUNK):
                if direction == TO_SERVER:
                    self._head = (self._head + data)[:HEAD]
                    await self._proxy._spring(data)
                await self._proxy._gates[direction].wait()
                await self._send(direction, target, data)
            await self._proxy._gates[direction].wait()
            target.shutdown(socket.SHUT_WR)
        except OSError:  # one side was reset, and so the other is
            self._forget()
            other = self._tasks[TO_CLIENT if direction == TO_SERVER else TO_SERVER]
            await _cancel(other)
            _reset(source, target)
            return
        self._close_if_done(direction)

    async def _send(self, direction: str, target: socket.socket, data: bytes) -> None:
        """Send what may pass; the rest when all is mended, or never."""
        proxy = self._proxy
        if proxy._delay:
            await asyncio.sleep(proxy._delay)
        if proxy._silenced is not None and proxy._silenced in self._head:
            proxy.hits += 1
            await proxy._mended.wait()
        left = self.left.get(direction)
        if left is not None:
            now, data = data[:left], data[left:]
            self.left[direction] = left - len(now)
            await proxy._loop.sock_sendall(target, now)
            proxy.passed[direction] += len(now)
            if not data:
                return
            proxy.hits += 1
            if proxy._allowance is not None and proxy._allowance[1]:
                raise ConnectionResetError
            await proxy._mended.wait()
        await proxy._loop.sock_sendall(target, data)
        proxy.passed[direction] += len(data)

    async def end(self, direction: str) -> None:
        """Pass nothing more on in this direction, and say so to the target."""
        await _cancel(self._tasks[direction])
        if self in self._proxy._connections:
            with contextlib.suppress(OSError):
                self._ends[direction][1].shutdown(socket.SHUT_WR)
            self._close_if_done(direction)

    async def reset(self) -> None:
        await _cancel(*self._tasks.values())
        self._forget()
        _reset(*self._ends[TO_SERVER])

    def _close_if_done(self, direction: str) -> None:
        """Close both sockets when the other direction has ended before."""
        if self._tasks[TO_CLIENT if direction == TO_SERVER else TO_SERVER].done():
            self._forget()
            for end in self._ends[TO_SERVER]:
                end.close()

    def _forget(self) -> None:
        self._proxy._connections.discard(self)


def _reset(*ends: socket.socket) -> None:
    """Close so that the other side gets a reset (RST), and no orderly end."""
    for end in ends:
        with contextlib.suppress(OSError):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        end.close()


async def _cancel(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
