"""Ends a Postgres server of the tests, and deletes its folder, once nobody uses it: also when the run is killed. A process of its own.

Arguments: the folder, the path of ``pg_ctl``, and the ids of the user and group that the server runs as, or nothing.
Whoever uses the server holds a shared lock on ``users.lock`` in its folder, which the system releases when a process ends, however it
ends. The keeper waits for the lock alone, so it needs no list of users and no look at the clock.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path


def main(folder: Path, pg_ctl: str, *ids: str) -> None:
    if os.fork():  # nobody's child, so nobody has to wait for it
        os._exit(0)
    os.setsid()  # an interrupt from the keyboard goes to the run, and not to what tidies up behind it
    with open(folder / "users.lock") as users:
        fcntl.flock(users, fcntl.LOCK_EX)
        command = [pg_ctl, "-D", str(folder / "data"), "-m", "immediate", "-w", "stop"]
        options: dict[str, object] = {"user": int(ids[0]), "group": int(ids[1]), "extra_groups": []} if ids else {}
        subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False, **options)  # type: ignore[call-overload]
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
