"""Why a surviving mutant is none that a test should kill: read from ``explanations.toml``."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

FILE = Path(__file__).with_name("explanations.toml")


def read_explanations(text: str) -> dict[str, str]:
    """Each mutant's name with its reason. Raises ``ValueError`` where there is none."""
    explanations: dict[str, str] = {}
    for one in tomllib.loads(text).get("because", []):
        reason = str(one["reason"]).strip()
        if not reason or not one["mutants"]:
            raise ValueError(f"an explanation without a reason, or for no mutant: {one}")
        for name in one["mutants"]:
            if name in explanations:
                raise ValueError(f"explained twice: {name}")
            explanations[name] = reason
    return explanations


def without_mutant(explanations: Mapping[str, str], names: Iterable[str]) -> list[str]:
    """The explained mutants that do not exist: the code has changed, and the reason may not hold any more."""
    existing = set(names)
    return [name for name in explanations if name not in existing]
