"""Which bugs are planted, and what is to find each."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

PATCHES = Path(__file__).parent / "patches"
CONFORMANCE = "tests/drivers/test_conformance.py"


class Bug(Struct, frozen=True, kw_only=True):
    """``catcher`` is what is run in the patched copy: arguments of Python's ``-m``. It must fail, and say ``says``."""

    patch: str
    """The name of a file in ``patches``; its words say what is wrong."""
    catcher: tuple[str, ...]
    says: str
    """A regular expression for its output: what fails for another reason has caught nothing."""
    needs_injector: bool = False
    """It is found by strace only."""

    @property
    def file(self) -> Path:
        return PATCHES / f"{self.patch}.patch"


def _tests(where: str, *names: str) -> tuple[str, ...]:
    """These tests; with names, those of ``where`` that have one of them."""
    return ("pytest", "-q", "-x", "-p", "no:cacheprovider", where, *(("-k", " or ".join(names)) if names else ()))


SIMULATION = ("tests.simulation", "--histories", "60", "--seed", "1", "--jobs", "1")
POWER_LOSS = _tests("tests/torture/power_loss/test_power_loss.py", "sample")
BUGS = (
    Bug(patch="no-fence-when-a-run-ends", catcher=SIMULATION, says=r"failed: history \d+: I[567]"),
    Bug(patch="no-fence-in-the-sweep", catcher=_tests(CONFORMANCE, "(one_winner and postgres-wheel)"), says="FAILED .*one_winner"),
    Bug(patch="a-fence-that-is-the-attempt", catcher=SIMULATION, says=r"failed: history \d+: I5: .* went from fence"),
    Bug(patch="select-then-update", catcher=_tests(CONFORMANCE, "(claim_at_once and postgres-wheel)"), says="FAILED .*share_the_jobs"),
    Bug(patch="synchronous-normal", catcher=POWER_LOSS, says="is gone, and was said to be", needs_injector=True),
    Bug(
        patch="commit-before-the-business-row",
        catcher=_tests("tests/drivers/borrowed/test_together.py", "what_rolls_back"),
        says="FAILED .*what_rolls_back_was_never_there",
    ),
    Bug(patch="an-attempt-counts-when-it-failed", catcher=SIMULATION, says=r"failed: history \d+: I8"),
    Bug(patch="release-without-a-cap", catcher=_tests("tests/unit/test_outcome.py"), says="FAILED .*release"),
    Bug(
        patch="key-by-check-then-insert",
        catcher=_tests("tests/drivers/borrowed/test_others_transactions.py", "two_callers_of_one_key"),
        says="FAILED .*two_callers_of_one_key",
    ),
    Bug(patch="a-child-before-its-parent", catcher=_tests(CONFORMANCE, "no_other_ending"), says="FAILED .*no_other_ending"),
    Bug(patch="lease-from-the-workers-clock", catcher=_tests("tests/drivers/test_postgres.py", "clock"), says="FAILED .*clock"),
    Bug(
        patch="a-sweep-that-skips-unknown-types",
        catcher=_tests(CONFORMANCE, "(whatever_types and sqlite)"),
        says="FAILED .*whatever_types_its_worker_knows",
    ),
    Bug(
        patch="a-duplicate-swallowed-after-a-rollback",
        catcher=_tests("tests/drivers/borrowed/test_others_transactions.py", "gets_the_key_when_the_winner"),
        says="FAILED .*gets_the_key_when_the_winner_rolls_back",
    ),
    Bug(patch="rename-without-fsync", catcher=POWER_LOSS, says="the file a is 'gone', and was said to be", needs_injector=True),
    Bug(
        patch="a-limit-that-counts-nobody",
        catcher=_tests(CONFORMANCE, "(no_more_run_than_is_said and sqlite)"),
        says="FAILED .*no_more_run_than_is_said",
    ),
    Bug(
        patch="a-retry-that-loses-its-place",
        catcher=_tests(CONFORMANCE, "(that_has_not_ended_keeps and sqlite)"),
        says="FAILED .*that_has_not_ended_keeps_its_place",
    ),
    Bug(patch="a-second-probe", catcher=_tests(CONFORMANCE, "(one_probe_runs and sqlite)"), says="FAILED .*one_probe_runs_whoever_asks"),
    Bug(patch="an-error-stored-unredacted", catcher=_tests("tests/unit/test_error_text.py"), says="FAILED"),
)
