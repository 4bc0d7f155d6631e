"""The whole machine once, small: a good fleet passes, and each planted bug is found by the invariant that is there for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.torture import plans, planted
from tests.torture.faults import FAULTS
from tests.torture.run import is_found, plant, torture
from tests.torture.sites import STORES


def test_a_fleet_whose_workers_and_senders_are_killed_keeps_every_promise(tmp_path: Path) -> None:
    report = torture(plans.only("kill worker", "sqlite", 7, "smoke", times=5), tmp_path)
    assert report.has_passed, str(report)
    assert report.faults == {"kill worker": 5}
    assert report.counts["accepted"] > 20
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("bug", planted.IN_EVERY_TEST_RUN)
def test_a_planted_bug_is_found(bug: str, tmp_path: Path) -> None:
    report = plant(bug, seed=7, base=tmp_path)
    assert not report.has_passed
    assert is_found(bug, report), str(report)
    assert "the same choices again: python -m tests.torture" in report.failures[-1]
    assert list(tmp_path.glob("*/history/*.jsonl")), "the files of a failed run are kept"


@pytest.mark.parametrize("store", STORES)
def test_every_store_has_faults_of_its_own(store: str) -> None:
    assert [fault.name for fault in FAULTS.values() if fault.stores == (store,)]
