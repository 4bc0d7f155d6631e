"""How the host of a supervisor reaches the server: the link is down, or the name of the server is not found. Both need root."""

from __future__ import annotations

import os
import random
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit, urlunsplit

from tests.loopback import HOST
from tests.tcp_proxy import TcpProxy
from tests.torture.application import LEASE
from tests.torture.faults.felt import felt
from tests.torture.faults.kinds import POSTGRES, Fault, last, work_and_stop
from tests.torture.fleet import Fleet
from tests.torture.injectors import MissingInjector, mount_tool

NAME = "store.onward.test"
NETWORK = "192.0.2"
"""Of the documents' own, so that no host has it."""
LONG = 12.0
"""Seconds after which the connections' own time-out has ended them."""
OTHER_FILES = """
mount --bind "$0/hosts" /etc/hosts && mount --bind "$0/resolv.conf" /etc/resolv.conf && exec "$@"
"""


# -- the link ------------------------------------------------------------------------------------------------------------


@cache
def ip() -> str:
    """Where ``ip`` is, for somebody who may make networks. Raises ``MissingInjector``."""
    found = shutil.which("ip")
    if found is None or os.geteuid() != 0:
        raise MissingInjector("making a network of one's own needs root and ip, which is in the package iproute2")
    name = f"onward-probe-{os.getpid()}"
    done = subprocess.run([found, "netns", "add", name], capture_output=True, text=True, check=False)
    if done.returncode == 0:
        made = [found, "link", "add", "onward-probe", "type", "veth", "peer", "name", "onward-peer", "netns", name]
        done = subprocess.run(made, capture_output=True, text=True, check=False)
        subprocess.run([found, "netns", "delete", name], check=True)
    if done.returncode:
        raise MissingInjector(f"making a network of one's own is not allowed here ({done.stderr.strip()})")
    return found


class Island:
    """A host of its own for one supervisor, on the far end of a cable. Use in a ``with`` block. Raises ``MissingInjector``."""

    def __init__(self) -> None:
        ip()
        self.name = f"onward-{os.getpid()}"
        self._cable = f"onward{os.getpid() % 1_000_000}"
        self._number = 4 * random.randrange(1, 62)
        self.here = f"{NETWORK}.{self._number + 1}"
        """The address at which this host is reached from there."""
        self.command = (ip(), "netns", "exec", self.name)
        """What stands before a command that is to run there."""

    def __enter__(self) -> Self:
        _ip("netns", "add", self.name)
        try:
            _ip("link", "add", self._cable, "type", "veth", "peer", "name", "shore", "netns", self.name)
            _ip("address", "add", f"{self.here}/30", "dev", self._cable)
            _ip("-n", self.name, "address", "add", f"{NETWORK}.{self._number + 2}/30", "dev", "shore")
            _ip("-n", self.name, "link", "set", "lo", "up")
            _ip("-n", self.name, "link", "set", "shore", "up")
            self.link("up")
        except BaseException:
            self.__exit__()
            raise
        return self

    def link(self, state: str) -> None:
        """``up`` or ``down``."""
        _ip("link", "set", self._cable, state)

    def __exit__(self, *_: object) -> None:
        _ip("netns", "delete", self.name)  # and the cable with it


def _ip(*arguments: str) -> None:
    subprocess.run([ip(), *arguments], check=True, capture_output=True)


def partition(fleet: Fleet) -> None:
    """The link between a supervisor's host and the server goes down: nobody is told, packets are just lost. Then it is there again."""
    with Island() as island, TcpProxy(HOST, fleet.site.postgres.port, address=island.here) as bridge:
        supervisor = fleet.start_supervisor(before=island.command, environment={"ONWARD_URL": bridge.through(fleet.site.direct)})

        def meanwhile() -> None:
            with felt(fleet, "partition", "did not answer", "timed out", "timeout", "connection failed"):
                for seconds in (2 * LEASE, LONG):
                    island.link("down")
                    last(seconds)
                    island.link("up")
                    _see_it_work(fleet, supervisor)

        work_and_stop(fleet, "partition", supervisor, meanwhile)


# -- the name ------------------------------------------------------------------------------------------------------------


class Names:
    """A folder with ``hosts`` and ``resolv.conf`` of a supervisor's own: the server's name is found in the first, or nowhere."""

    def __init__(self, folder: Path) -> None:
        mount_tool()
        self._hosts = folder / "hosts"
        self.address = f"127.53.{random.randrange(1, 255)}.{random.randrange(1, 255)}"
        (folder / "resolv.conf").write_text(f"nameserver {self.address}\noptions timeout:1 attempts:3\n")
        self.is_known(True)
        self.command = ("unshare", "--mount", "sh", "-c", OTHER_FILES, str(folder))
        """What stands before a command that is to look into these."""

    def is_known(self, known: bool) -> None:
        """Write into the file that is mounted already."""
        self._hosts.write_text(f"127.0.0.1 localhost {NAME if known else ''}\n")

    @contextmanager
    def unanswered(self) -> Iterator[None]:
        """Whoever asks for a name in this block waits; outside of it, he is refused at once."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
            silent.bind((self.address, 53))
            yield


def unknown_name(fleet: Fleet) -> None:
    """The name of the server is not found any more, and then nobody even says so; its connections are reset, so that it is needed."""
    with tempfile.TemporaryDirectory() as folder:
        names = Names(Path(folder))
        parts = urlsplit(fleet.site.url)
        url = urlunsplit(parts._replace(netloc=f"postgres@{NAME}:{parts.port}"))
        supervisor = fleet.start_supervisor(before=names.command, environment={"ONWARD_URL": url})

        def meanwhile() -> None:
            names.is_known(False)
            with felt(fleet, "unknown name", "failed to resolve host"):
                fleet.site.network.reset()
                last(LEASE)
                with names.unanswered():
                    last(2 * LEASE)
            names.is_known(True)
            _see_it_work(fleet, supervisor)

        work_and_stop(fleet, "unknown name", supervisor, meanwhile)


def _see_it_work(fleet: Fleet, supervisor: subprocess.Popen[bytes]) -> None:
    """Wait until a worker of this supervisor has written more of what it does."""
    before = _written(fleet, supervisor)
    fleet.wait_for(lambda: _written(fleet, supervisor) > before, "a worker that reaches its server again runs jobs")


def _written(fleet: Fleet, supervisor: subprocess.Popen[bytes]) -> int:
    return sum((fleet.histories / f"worker-{worker}.jsonl").stat().st_size for worker in fleet.workers(supervisor))


FAULTS = (
    Fault("partition", 38, partition, POSTGRES, quick=0),
    Fault("unknown name", 39, unknown_name, POSTGRES, quick=0),
)
