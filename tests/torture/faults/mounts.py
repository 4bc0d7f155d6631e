"""File systems that a fault puts beneath a store while its fleet works, or rests. All raise ``MissingInjector`` where nobody may mount."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.torture.fleet import PATIENCE, Fleet
from tests.torture.injectors import mount_tool
from tests.torture.store import path_of

MEBIBYTE = 1 << 20
PAGE = 4096


def mount(*arguments: str | Path) -> None:
    subprocess.run([mount_tool(), *map(str, arguments)], check=True)


def unmount(place: Path) -> None:
    """Also while somebody has a file of it open."""
    subprocess.run([shutil.which("umount") or "umount", "--lazy", str(place)], check=True)


@contextmanager
def at_rest(fleet: Fleet) -> Iterator[None]:
    """Every process is told to stop, and new ones are started behind the block."""
    fleet.mend()  # another fault may have ended some meanwhile
    for sender in fleet.senders:
        sender.terminate()
    for sender in fleet.senders:
        fleet.ended.add(sender.pid)
        sender.wait(PATIENCE)
    fleet.stop()
    fleet.app.close()
    try:
        yield
    finally:
        fleet.mend()
    everybody = fleet.size.supervisors * fleet.size.processes
    fleet.wait_for(lambda: len(fleet.workers()) == everybody, "every worker process had run a job again")


@contextmanager
def small_disk(fleet: Fleet, room: int) -> Iterator[Path]:
    """Move a SQLite store to a disk of its own with ``room`` bytes left, and back. What lies beside it stays where it is."""
    mount_tool()
    folder = Path(path_of(fleet.site.direct)).parent
    aside = folder.with_name(f"{folder.name}-aside")
    beside = [place.name for place in folder.iterdir() if place not in _store_in(folder) and not place.is_symlink()]
    links = {place.name: place.readlink() for place in folder.iterdir() if place.is_symlink()}
    with at_rest(fleet):
        aside.mkdir()
        _bind(beside, folder, aside)
        size = room + _copy_store(folder, aside)
        mount("-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder)
        _bind(beside, aside, folder)
        for name, where in links.items():
            (folder / name).symlink_to(where)
        _copy_store(aside, folder)
    try:
        yield folder
    finally:
        with at_rest(fleet):
            _remove_store(aside)
            _copy_store(folder, aside)
            unmount(folder)
            _remove_store(folder)
            _copy_store(aside, folder)
            for name in beside:
                unmount(aside / name)
            shutil.rmtree(aside)


@contextmanager
def small_server_disk(fleet: Fleet, room: int) -> Iterator[Path]:
    """Move the files of the Postgres server to a disk of its own with ``room`` bytes left. The fleet sees it stop and start, twice."""
    mount_tool()
    server = fleet.site.postgres
    aside = server.data.with_name("aside")
    server.stop()
    server.data.rename(aside)
    owner = aside.stat()
    server.data.mkdir()
    size = sum(file.stat().st_blocks * 512 for file in aside.rglob("*"))
    options = f"size={size + room},mode=0700,uid={owner.st_uid},gid={owner.st_gid}"
    mount("-t", "tmpfs", "-o", options, "tmpfs", server.data)
    _copy_tree(aside, server.data)
    shutil.rmtree(aside)
    server.start()
    try:
        yield server.data
    finally:
        if server.is_up():
            server.stop()
        aside.mkdir(mode=0o700)
        os.chown(aside, owner.st_uid, owner.st_gid)
        _copy_tree(server.data, aside)
        unmount(server.data)
        server.data.rmdir()
        aside.rename(server.data)
        server.start()


def fill(folder: Path, free: int) -> Path:
    """Write a file that takes all room but ``free`` bytes, and give its path."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file:
        with suppress(OSError):
            while file.write(bytes(16 * PAGE)):
                pass
        with suppress(OSError):
            while file.write(bytes(PAGE)):
                pass
        file.truncate(max(file.tell() - free, 0))
    return filler


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Whoever opens a file of the folder in this block cannot write it. Files that are open stay as they are, and so do other folders."""
    mount_tool()
    aside = folder.with_name(f"{folder.name}-aside")
    aside.mkdir()
    try:
        mount("--bind", folder, aside)
        try:
            mount("-o", "remount,bind,ro", aside)  # not in its place, where somebody may have opened a file already
            for place in folder.iterdir():
                if place.is_dir() and not place.is_symlink():  # over a link the folder that it names would be mounted
                    mount("--bind", place, aside / place.name)
            mount("--rbind", aside, folder)
        finally:
            unmount(aside)
        try:
            yield
        finally:
            unmount(folder)
    finally:
        aside.rmdir()


def _bind(names: Iterable[str], source: Path, target: Path) -> None:
    for name in names:
        (target / name).mkdir() if (source / name).is_dir() else (target / name).touch()
        mount("--bind", source / name, target / name)


def _store_in(folder: Path) -> list[Path]:
    return [file for file in folder.iterdir() if file.name.startswith("jobs.db")]


def _copy_store(source: Path, target: Path) -> int:
    """Copy the database and what belongs to it; gives the bytes."""
    for file in _store_in(source):
        shutil.copy2(file, target / file.name)
    return sum(file.stat().st_size for file in _store_in(target))


def _remove_store(folder: Path) -> None:
    for file in _store_in(folder):
        file.unlink()


def _copy_tree(source: Path, target: Path) -> None:
    """With owners and modes, which Postgres insists on."""
    subprocess.run(["cp", "-a", f"{source}/.", str(target)], check=True)
