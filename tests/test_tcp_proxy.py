"""The proxy breaks the network in the ways that it says, since the tests of outages trust it."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from tests.loopback import HOST, free_port
from tests.tcp_proxy import TO_CLIENT, TO_SERVER, TcpProxy

PATIENCE = 10.0
SOON = 0.2
"""Seconds in which loopback would long have carried what must not come."""


class Echo:
    """A server that sends everything back, and closes when its client has ended."""

    def __init__(self) -> None:
        self.listener = socket.create_server((HOST, 0))
        self.port = self.listener.getsockname()[1]
        self.ended: list[bytes] = []
        self._threads = [threading.Thread(target=self._serve)]
        self._threads[0].start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                connection.settimeout(PATIENCE)
                self._threads.append(threading.Thread(target=self._answer, args=(connection,)))
                self._threads[-1].start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            while data := connection.recv(1000):
                connection.sendall(data)
            self.ended.append(b"")

    def close(self) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for thread in self._threads:
            thread.join(PATIENCE)


@pytest.fixture
def echo() -> Iterator[Echo]:
    made = Echo()
    yield made
    made.close()


@pytest.fixture
def proxy(echo: Echo) -> Iterator[TcpProxy]:
    with TcpProxy(HOST, echo.port) as made:
        yield made


@pytest.fixture
def client(proxy: TcpProxy) -> Iterator[socket.socket]:
    """Connected through the proxy, and heard by the server."""
    with socket.create_connection((HOST, proxy.port), timeout=PATIENCE) as made:
        assert asks(made, b"hello") == b"hello"
        yield made


def asks(client: socket.socket, data: bytes) -> bytes:
    client.sendall(data)
    return client.recv(1000)


def hears_nothing(client: socket.socket) -> bool:
    client.settimeout(SOON)
    try:
        client.recv(1000)
    except TimeoutError:
        return True
    finally:
        client.settimeout(PATIENCE)
    return False


def wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.005)


def test_bytes_are_passed_on_and_counted_in_each_direction(proxy: TcpProxy, client: socket.socket) -> None:
    """More than one buffer holds, so that what arrives in pieces is whole."""
    sent = bytes(range(256)) * 4000
    writer = threading.Thread(target=client.sendall, args=(sent,))
    writer.start()
    came = b""
    while len(came) < len(sent):
        came += client.recv(100_000)
    writer.join()
    assert came == sent
    wait_for(lambda: proxy.passed == {TO_SERVER: len(sent) + 5, TO_CLIENT: len(sent) + 5})


def test_an_end_is_passed_on(proxy: TcpProxy, client: socket.socket, echo: Echo) -> None:
    """Each side sees the other's orderly end, and the proxy keeps no socket of a connection that is over."""
    client.shutdown(socket.SHUT_WR)
    assert client.recv(10) == b""
    wait_for(lambda: proxy.connections == 0)
    assert echo.ended == [b""]


def test_drop_resets_and_refuses_until_restored(proxy: TcpProxy, client: socket.socket) -> None:
    """As when a host is gone and its address answers."""
    proxy.drop()
    with pytest.raises(ConnectionResetError):
        client.recv(10)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((HOST, proxy.port), timeout=PATIENCE)
    proxy.restore()
    with socket.create_connection((HOST, proxy.port), timeout=PATIENCE) as another:
        assert asks(another, b"again") == b"again"


def test_silence_keeps_everybody_connected_and_passes_nothing(proxy: TcpProxy, client: socket.socket) -> None:
    """As a firewall that forgot the connection; what was sent meanwhile arrives when it is over."""
    proxy.silence()
    client.sendall(b"late")
    with socket.create_connection((HOST, proxy.port), timeout=PATIENCE) as another:
        another.sendall(b"new")
        assert hears_nothing(client)
        assert hears_nothing(another)
        assert proxy.passed == {TO_SERVER: 5, TO_CLIENT: 5}
        proxy.restore()
        assert client.recv(10) == b"late"
        assert another.recv(10) == b"new"


def test_silence_in_one_direction_lets_the_other_through(proxy: TcpProxy, client: socket.socket) -> None:
    """A server that does what it is asked, and whose answer never comes: what makes an outcome unknown."""
    proxy.silence(TO_CLIENT)
    client.sendall(b"done?")
    wait_for(lambda: proxy.passed[TO_SERVER] == 10)
    assert hears_nothing(client)
    assert proxy.passed[TO_CLIENT] == 5
    proxy.restore()
    assert client.recv(10) == b"done?"


@pytest.mark.parametrize("direction", [TO_SERVER, TO_CLIENT])
def test_silence_can_begin_with_what_a_client_sends(proxy: TcpProxy, client: socket.socket, direction: str) -> None:
    """Only so can an answer be lost for certain, or what asks for it."""
    proxy.silence_at(b"COMMIT", direction)
    assert asks(client, b"SELECT") == b"SELECT"
    client.sendall(b"COMMIT")
    if direction == TO_CLIENT:
        wait_for(lambda: proxy.passed[TO_SERVER] == 17)
    wait_for(lambda: proxy.is_silent)
    assert hears_nothing(client)
    assert proxy.passed[TO_SERVER] == (17 if direction == TO_CLIENT else 11)
    proxy.restore()
    assert client.recv(10) == b"COMMIT"
    assert not proxy.is_silent


def test_half_close_ends_one_direction_and_not_the_other(proxy: TcpProxy, client: socket.socket) -> None:
    """The client is told that nothing more comes, and may still send; a new connection fares no better."""
    proxy.half_close(TO_CLIENT)
    assert client.recv(10) == b""
    client.sendall(b"heard?")
    wait_for(lambda: proxy.passed[TO_SERVER] == 11)
    with socket.create_connection((HOST, proxy.port), timeout=PATIENCE) as another:
        assert another.recv(10) == b""
    proxy.restore()
    with socket.create_connection((HOST, proxy.port), timeout=PATIENCE) as another:
        assert asks(another, b"again") == b"again"


def test_half_close_to_the_server_looks_to_it_like_the_end_of_its_client(proxy: TcpProxy, client: socket.socket, echo: Echo) -> None:
    """The server then ends its side as well."""
    proxy.half_close(TO_SERVER)
    assert client.recv(10) == b""
    assert echo.ended == [b""]
    wait_for(lambda: proxy.connections == 0)


def test_a_server_that_is_down_resets_the_client() -> None:
    """The proxy hides nothing: its client must not wait for a server that nobody reaches."""
    with TcpProxy(HOST, free_port()) as proxy:
        with pytest.raises(ConnectionResetError), socket.create_connection((HOST, proxy.port), timeout=PATIENCE) as client:
            client.recv(10)
        assert proxy.connections == 0


def test_reset_ends_every_connection_and_takes_new_ones(proxy: TcpProxy, client: socket.socket) -> None:
    """As a firewall that has been started again."""
    proxy.reset()
    with pytest.raises(ConnectionResetError):
        client.recv(10)
    with socket.create_connection((HOST, proxy.port), timeout=PATIENCE) as another:
        assert asks(another, b"again") == b"again"


def test_refuse_keeps_what_is_open(proxy: TcpProxy, client: socket.socket) -> None:
    """As a server that has no place for more."""
    proxy.refuse()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((HOST, proxy.port), timeout=PATIENCE)
    assert asks(client, b"still") == b"still"
    proxy.restore()
    with socket.create_connection((HOST, proxy.port), timeout=PATIENCE) as another:
        assert asks(another, b"again") == b"again"


def test_delay_lets_everything_arrive_later(proxy: TcpProxy, client: socket.socket) -> None:
    """Both ways: an answer takes twice as long."""
    proxy.delay(SOON)
    began = time.monotonic()
    assert asks(client, b"slow") == b"slow"
    assert time.monotonic() - began >= 2 * SOON
    proxy.delay(PATIENCE)
    client.sendall(b"never")
    proxy.restore()  # what is on its way stays late
    with socket.create_connection((HOST, proxy.port), timeout=PATIENCE) as another:
        assert asks(another, b"again") == b"again"


def test_only_those_that_began_with_certain_bytes_are_silenced(proxy: TcpProxy, client: socket.socket) -> None:
    """Also when more has been sent since, and also those that come later."""
    assert asks(client, b"SELECT") == b"SELECT"
    with (
        socket.create_connection((HOST, proxy.port), timeout=PATIENCE) as other,
        socket.create_connection((HOST, proxy.port), timeout=PATIENCE) as late,
    ):
        assert asks(other, b"other") == b"other"
        proxy.silence_those(b"hello")
        client.sendall(b"unheard")
        late.sendall(b"hello")
        assert asks(other, b"heard") == b"heard"
        assert hears_nothing(client)
        assert hears_nothing(late)
        assert proxy.hits == 2
        assert not proxy.is_silent
        proxy.restore()
        assert client.recv(10) == b"unheard"
        assert late.recv(10) == b"hello"


def test_a_stall_passes_some_bytes_and_the_rest_when_it_is_mended(proxy: TcpProxy, client: socket.socket) -> None:
    """The half of a frame; each connection has bytes of its own."""
    proxy.stall_after(4, TO_CLIENT)
    assert asks(client, b"abc") == b"abc"
    assert proxy.hits == 0
    client.sendall(b"defg")
    assert client.recv(10) == b"d"
    assert hears_nothing(client)
    with socket.create_connection((HOST, proxy.port), timeout=PATIENCE) as another:
        assert asks(another, b"abcde") == b"abcd"
    wait_for(lambda: proxy.hits == 2)
    proxy.restore()
    assert client.recv(10) == b"efg"
    assert asks(client, b"whole again") == b"whole again"


def test_a_cut_passes_some_bytes_and_resets(proxy: TcpProxy, client: socket.socket) -> None:
    proxy.cut_after(4, TO_SERVER)
    client.sendall(b"abcdef")

    def listen() -> None:
        while client.recv(10):
            continue

    with pytest.raises(ConnectionResetError):
        listen()
    wait_for(lambda: proxy.connections == 0)
    assert proxy.passed[TO_SERVER] == 9
    assert proxy.hits == 1
    proxy.restore()
    with socket.create_connection((HOST, proxy.port), timeout=PATIENCE) as another:
        assert asks(another, b"more than four") == b"more than four"


def test_new_connections_can_be_led_to_another_server(proxy: TcpProxy, client: socket.socket) -> None:
    """As an address that moves to the server that takes over."""
    with socket.create_server((HOST, 0)) as listener:
        proxy.lead_to(*listener.getsockname())
        with pytest.raises(ConnectionResetError):
            client.recv(10)
        with socket.create_connection((HOST, proxy.port), timeout=PATIENCE) as another:
            listener.settimeout(PATIENCE)
            taken, _ = listener.accept()
            with taken:
                taken.sendall(b"other")
                assert another.recv(10) == b"other"
