"""What was probably meant by a word that is not known."""

from __future__ import annotations

from collections.abc import Iterable


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The end of an error about an unknown word: the nearest known one, or all of them."""
    from difflib import get_close_matches

    known = list(known)
    close = get_close_matches(word.lower().replace("-", "_"), known, n=1)
    return f": did you mean {close[0]!r}?" if close else f"; known are {', '.join(known)}"
