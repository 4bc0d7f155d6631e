"""A group takes whole trees of processes, and gives them back."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.torture import cgroups
from tests.torture.cgroups import Cgroup
from tests.torture.injectors import MissingInjector, do_without


def group_of(pid: int) -> str:
    (line,) = [one for one in Path(f"/proc/{pid}/cgroup").read_text().splitlines() if one.split(":")[1] == "freezer"]
    return line


def test_processes_are_taken_with_their_children_and_given_back() -> None:
    with subprocess.Popen(["sh", "-c", "sleep 30 & echo $!; wait"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        before = group_of(child)
        try:
            with Cgroup("freezer") as group:
                group.take(process.pid)
                assert set(group.read("cgroup.procs").split()) == {str(process.pid), str(child)}
                with pytest.raises(MissingInjector, match="this kernel has no freezer"):
                    group.set("freezer.speed", 1)
            assert group_of(child) == before
        except MissingInjector as reason:
            do_without(reason)
        finally:
            subprocess.run(["kill", str(child)], check=True)


def test_a_missing_controller_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(MissingInjector, match="no control groups of version 1 with 'speed' here"):
        Cgroup("speed")
    monkeypatch.setattr(cgroups, "MOUNTED", tmp_path)
    with pytest.raises(MissingInjector, match="no control groups of version 1 with 'freezer' here"):
        Cgroup("freezer")
