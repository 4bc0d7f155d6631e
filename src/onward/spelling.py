"""What was probably meant by a word that is not known, and how a name or a value stands in a sentence."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from itertools import takewhile
from types import FunctionType


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The end of an error about an unknown word: the nearest known one, or all of them."""
    known = list(known)
    close = nearest(word, known, likeness=0.6) or nearest(word.lower().replace("-", "_"), known, likeness=0.6)
    return f": did you mean {close!r}?" if close else f"; known are {', '.join(known) or 'none'}"


def nearest(word: str, known: Iterable[str], *, likeness: float = 0.85) -> str | None:
    """The known word that this one is most like, if it is at least so like it: 1 is equal.

    Of several that are, the same beginning counts for more, as Winkler has it: a slip comes late in a word.
    """
    from difflib import SequenceMatcher, get_close_matches

    def boosted(one: str) -> float:
        ratio = SequenceMatcher(None, one, word).ratio()
        beginning = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one[:4], word[:4], strict=False)))
        return ratio + 0.1 * beginning * (1 - ratio)

    return max(get_close_matches(word, list(known), n=9, cutoff=likeness), key=boosted, default=None)


def with_article(noun: str) -> str:
    """The noun behind ``a`` or ``an``. A u counts as in ``use``: it begins ``UUID`` and ``User``."""
    return f"{'an' if noun[:1].lower() in ('a', 'e', 'i', 'o') else 'a'} {noun}"


def shown(value: object) -> str:
    """What was given, for an error's text. It may be long, and an integer of thousands of digits cannot even be written.

    Of what may hold a payload or a secret, such as an object of the application's, only the type is said.
    """
    if isinstance(value, type | FunctionType):
        return f"the {'class' if isinstance(value, type) else 'function'} {value.__name__}"
    if not isinstance(value, str | int | float | datetime | timedelta | None):
        return with_article(type(value).__name__)
    try:
        text = repr(value)
    except ValueError:
        return "a number of thousands of digits"
    return text if len(text) <= 100 else f"{text[:60]}…{text[-20:]}"
