"""Which file system a file is on: SQLite's locks and shared memory do not work over a network."""

from __future__ import annotations

import os
import re
from pathlib import Path

NETWORK = frozenset(
    ["nfs", "nfs4", "cifs", "smbfs", "smb2", "smb3", "afs", "ncpfs", "9p", "ceph", "lustre", "glusterfs", "gpfs", "beegfs"]
) | {"vboxsf", "vmhgfs", "prl_fs", "ocfs2", "gfs2", "davfs"}
NETWORK_FUSE = re.compile(
    r"fuse\.(sshfs|gluster|ceph|s3fs|rclone|gcsfuse|goofys|vmhgfs|davfs|blobfuse|cifs|nfs|juicefs|lizardfs|moosefs)[\w.-]*"
)


def is_network(name: str) -> bool:
    """Say whether a file system of this name is shared over a network or with a virtual machine's host."""
    return name in NETWORK or NETWORK_FUSE.fullmatch(name) is not None


def file_system_of(path: Path) -> str:
    """Name the file system that ``path`` is on; empty where the system does not tell (only Linux does, in ``/proc``)."""
    try:
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""
    return find_mount(mounts, os.path.realpath(path))


def find_mount(mounts: str, path: str) -> str:
    """Read the text of ``mountinfo``: the file system of the deepest mount above ``path``. The last of two mounts on one place counts."""
    best, name = -1, ""
    for line in mounts.splitlines():
        left, _, right = line.partition(" - ")
        fields = left.split(" ")
        if len(fields) < 5 or not right:
            continue
        point = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), fields[4])
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= best:
            best, name = len(point), right.split(" ", 1)[0]
    return name
