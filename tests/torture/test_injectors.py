"""Where a fault cannot be injected, the test that needs it says so, and never passes."""

from __future__ import annotations

import pytest

from tests.torture import injectors
from tests.torture.injectors import MissingInjector, do_without


def test_a_missing_injector_skips_on_a_laptop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ONWARD_INJECTORS", raising=False)
    with pytest.raises(pytest.skip.Exception, match="strace is not installed"):
        do_without(MissingInjector("strace is not installed"))


def test_a_missing_injector_fails_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    """A skip there would say that crashes were tested when they were not."""
    monkeypatch.setenv("ONWARD_INJECTORS", "needed")
    with pytest.raises(pytest.fail.Exception, match="strace is not installed"):
        do_without(MissingInjector("strace is not installed"))


def test_it_is_named_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    injectors.strace.cache_clear()
    with pytest.raises(MissingInjector, match="strace is not installed, and it injects this fault: apt-get install strace"):
        injectors.strace()
    with pytest.raises(MissingInjector, match="needs root and mount"):
        injectors.mount_tool()
    injectors.strace.cache_clear()
