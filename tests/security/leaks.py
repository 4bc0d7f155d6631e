"""Looks for canaries: secrets that stand for all others, each of which may be seen only where the design says so."""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Iterable, Mapping
from urllib.parse import quote

LENGTH = 20
PIECE = 12
"""Characters of a canary that give it away; what a cut may leave is shorter, and of no use."""

AsGiven = Mapping[str, Mapping[str, str]]
"""Of a canary: the sources in which it may be seen, each with the reason."""


def make_canaries(names: Iterable[str]) -> dict[str, str]:
    """A secret a name. They look like nothing that could be told by its form alone."""
    return {name: "Vogel" + "".join(secrets.choice("abcdefghkmnpqrstuvwxyz") for _ in range(LENGTH - 5)) for name in names}


def is_in(canary: str, text: str) -> bool:
    """Say whether a text has a canary in it: whole, a long piece of it, backwards, or as another encoding writes it."""
    pieces = {canary[at : at + PIECE] for at in range(len(canary) - PIECE + 1)}
    forms = pieces | {canary[::-1], quote(canary, safe=""), canary.encode().hex(), json.dumps(canary)}
    # Base 64 writes three bytes as four characters, wherever the secret begins in what was encoded.
    for shift in range(3):
        encoded = base64.b64encode(b"\0" * shift + canary.encode()).decode()
        forms.add(encoded[4 if shift else 0 : -4])
    return any(form in text for form in forms)


def find_leaks(canaries: Mapping[str, str], sources: Mapping[str, str], as_given: AsGiven) -> list[str]:
    """Say which canary is in which source although it may not be there."""
    return [
        f"the secret {name!r} is in {source}"
        for name, canary in canaries.items()
        for source, text in sources.items()
        if source not in as_given.get(name, {}) and is_in(canary, text)
    ]


def find_needless(canaries: Mapping[str, str], sources: Mapping[str, str], as_given: AsGiven) -> list[str]:
    """Say which exceptions of ``as_given`` are not needed, or not any more: each would hide a leak of its own one day."""
    return [
        f"the secret {name!r} is not in {source}: the exception for it can go"
        for name, excepted in as_given.items()
        for source in excepted
        if not is_in(canaries[name], sources[source])
    ]
