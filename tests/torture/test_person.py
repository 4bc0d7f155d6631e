"""Somebody who acts on many jobs, beside a fleet whose workers are killed. The bugs that are there for it are planted before a release."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from tests.torture import plans
from tests.torture.fleet import Size
from tests.torture.run import torture


def test_a_pause_is_a_pause_and_the_record_adds_up_while_workers_are_killed(tmp_path: Path) -> None:
    plan = replace(plans.only("kill worker", "sqlite", 7, "smoke", times=5), size=Size(persons=1))
    report = torture(plan, tmp_path)
    assert report.has_passed, str(report)
    assert report.counts["pauses"] > 0
    assert report.counts["changed by persons"] > 20
