"""What was probably meant by a word that is not known, and how a name or a value stands in a sentence."""

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


def with_article(noun: str) -> str:
    """The noun behind ``a`` or ``an``. A u counts as in ``use``: it begins ``UUID`` and ``User``."""
    return f"{'an' if noun[:1].lower() in ('a', 'e', 'i', 'o') else 'a'} {noun}"


def shown(value: object) -> str:
    """What was given, for an error's text: it may be long, and an integer of thousands of digits cannot even be written."""
    try:
        text = repr(value)
    except ValueError:
        return "a number of thousands of digits"
    return text if len(text) <= 100 else f"{text[:60]}…{text[-20:]}"
