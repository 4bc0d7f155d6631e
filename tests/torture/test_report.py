"""A report that has shown nothing, or found anything, does not pass."""

from __future__ import annotations

import io

from tests.torture.report import Report


def make_report(**fields: object) -> Report:
    return Report("part", "quick", 7, **fields)  # type: ignore[arg-type]


def test_a_run_in_which_no_fault_fired_fails() -> None:
    """Silence must not be taken for a passed check."""
    assert make_report(faults={"SIGKILL": 0}).verdict == "FAILED: no fault fired, so nothing was shown"
    assert not make_report().has_passed
    assert make_report(faults={"SIGKILL": 1}).verdict == "passed"


def test_one_failure_fails_the_run() -> None:
    report = make_report(faults={"SIGKILL": 100}, failures=["a job is lost"])
    assert report.verdict == "FAILED: 1 of what must hold did not"
    assert not report.has_passed


def test_parts_of_a_run_add_up() -> None:
    report = make_report(counts={"kills": 2}, faults={"SIGKILL": 2})
    report.add(make_report(counts={"kills": 3, "unknown": 1}, faults={"SIGKILL": 3}, failures=["a job is lost"]))
    assert report.counts == {"kills": 5, "unknown": 1}
    assert report.faults == {"SIGKILL": 5}
    assert report.failures == ["a job is lost"]


def test_a_printed_report_names_the_seed_what_it_ran_on_and_what_failed() -> None:
    """Without these nobody can run it again."""
    out = io.StringIO()
    make_report(versions={"SQLite": "3.40.1"}, counts={"kills": 1200}, faults={"SIGKILL": 2}, failures=["lost"], seconds=1.25).print(out)
    assert out.getvalue().splitlines() == [
        "part, tier quick, seed 7: FAILED: 1 of what must hold did not (1.2 s)",
        "  on: SQLite 3.40.1",
        "  counted: kills 1,200",
        "  faults: SIGKILL 2",
        "  failed: lost",
    ]
