"""What was probably meant by a word that is not known."""

from __future__ import annotations

from collections.abc import Iterable


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The end of an error about an unknown word: the nearest known one, or all of them."""
    known = list(known)
    close = nearest(word.lower().replace("-", "_"), known, likeness=0.6)
    return f": did you mean {close!r}?" if close else f"; known are {', '.join(known)}"


def nearest(word: str, known: Iterable[str], *, likeness: float = 0.85) -> str | None:
    """The known word that this one is most like, if it is at least so like it: 1 is equal."""
    from difflib import get_close_matches

    close = get_close_matches(word, list(known), n=1, cutoff=likeness)
    return close[0] if close else None
