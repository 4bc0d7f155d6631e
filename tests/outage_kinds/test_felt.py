"""A fault that nobody felt is found, or a run would pass that has broken nothing."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.torture.faults.felt import felt


@pytest.fixture
def fleet(tmp_path: Path) -> Any:
    (tmp_path / "processes.log").write_text("before: the disk is full\n")
    return SimpleNamespace(histories=tmp_path / "history", failures=[])


@pytest.mark.parametrize(("line", "failures"), [("producer failed: it is full", 0), ("all is well", 1), ("", 1)])
def test_somebody_must_have_complained_meanwhile(fleet: Any, line: str, failures: int) -> None:
    """What was written before the fault does not count."""
    with felt(fleet, "full disk", "is full", "no room"), fleet.histories.with_name("processes.log").open("a") as log:
        log.write(line)
    assert len(fleet.failures) == failures
