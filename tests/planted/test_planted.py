"""Every planted bug still fits the code, and a catcher that finds nothing is told."""

from __future__ import annotations

import subprocess

import pytest
from msgspec.structs import replace

from tests.planted.bugs import BUGS, PATCHES, Bug
from tests.planted.plant import ROOT, apply, catch


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.patch)
def test_a_patch_fits(bug: Bug) -> None:
    """Code that has moved on needs its bug written anew. That each is caught is seen by ``make torture``."""
    try:
        apply(bug, ROOT, only_check=True)
    except subprocess.CalledProcessError as refused:
        pytest.fail(f"{bug.file.name}: {refused.stderr}", pytrace=False)


def test_every_patch_has_a_catcher() -> None:
    """One that nobody plants proves nothing."""
    assert {bug.file for bug in BUGS} == set(PATCHES.glob("*.patch"))


def test_a_catcher_that_passes_has_caught_nothing() -> None:
    """Neither has one that fails for another reason."""
    (bug,) = (one for one in BUGS if one.patch == "release-without-a-cap")
    assert catch(bug).is_caught
    assert not catch(replace(bug, says="another reason")).is_caught
    assert not catch(replace(bug, catcher=("pytest", "-q", "-p", "no:cacheprovider", "tests/unit/test_durations.py"))).is_caught
