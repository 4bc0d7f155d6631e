"""What was acknowledged is there after a power loss at any moment, whatever of the rest the disk has kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.torture.injectors import MissingInjector, do_without, strace
from tests.torture.power_loss import run
from tests.torture.power_loss.choices import choose
from tests.torture.power_loss.cuts import PLANTS, find_planted
from tests.torture.power_loss.disk import files_of
from tests.torture.power_loss.record import record
from tests.torture.power_loss.recording import Playback

SEED = 1
FOUND = {
    "synchronous=NORMAL": (", and was said to be ",),  # the job is gone, or what it had become
    "file not synced": ("the file a is '', and was said to be ",),
    "directory not synced": (" is 'gone', and was said to be ", "a was written by create_file"),  # or what comes later does not find it
}


@pytest.fixture(autouse=True)
def injector() -> None:
    try:
        strace()
    except MissingInjector as reason:
        do_without(reason)


def test_a_sample_of_power_losses_loses_nothing() -> None:
    """The whole is run by ``make torture`` and ``make torture-release``."""
    report = run("smoke", SEED)
    report.print()
    assert report.has_passed, str(report)
    assert report.counts["states"] == sum(report.faults.values()) == 100
    assert len(report.faults) == 4


@pytest.mark.parametrize(("workload", "plant"), PLANTS, ids=FOUND)
def test_a_planted_fault_is_found(workload: str, plant: str, tmp_path: Path) -> None:
    """An acknowledged commit that was only in memory; a file renamed before its content, or its name, was durable."""
    report = find_planted(workload, plant, tmp_path / "recording", SEED)
    assert any(said in failure for said in FOUND[plant] for failure in report.failures), str(report)


@pytest.mark.parametrize(("workload", "steps"), [("store", 6), ("files", 3), ("crowd", 3)])
def test_the_model_of_the_disk_ends_with_what_is_really_there(workload: str, steps: int, tmp_path: Path) -> None:
    """A model that misses writes would find faults where there are none, or none where there are."""
    recording = record(workload, tmp_path / "recording", SEED, steps)
    playback = Playback(recording.trace, recording.home)
    assert len(list(playback.points())) == recording.points
    home = Path(recording.home)
    really = {str(path.relative_to(home)): path.read_bytes() if path.is_file() else None for path in home.rglob("*")}
    assert dict(files_of(playback.root, choose("all kept", ""))) == really
    assert playback.said.acknowledged > steps
