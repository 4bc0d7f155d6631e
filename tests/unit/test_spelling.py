from __future__ import annotations

from onward.spelling import did_you_mean, nearest


def test_the_nearest_known_word_is_named() -> None:
    """Most unknown words are a slip of one letter, or a dash for an underscore."""
    assert did_you_mean("priorty", ["queue", "priority"]) == ": did you mean 'priority'?"
    assert did_you_mean("send-mial", ["send_mial_all", "send-mail"]) == ": did you mean 'send-mail'?"
    assert did_you_mean("In-Progress", ["queued", "in_progress"]) == ": did you mean 'in_progress'?"


def test_of_two_near_words_the_one_with_the_same_beginning_is_meant() -> None:
    """``retires`` has more letters in common with ``expires``, in their order, than with ``retry``, which it is a slip of."""
    assert did_you_mean("retires", ["expires", "retry", "timeout"]) == ": did you mean 'retry'?"
    assert did_you_mean("expire", ["expires", "retry", "timeout"]) == ": did you mean 'expires'?"


def test_the_same_beginning_counts_however_many_other_words_are_near() -> None:
    """Of a long list, those that share the most letters are not yet the meant one."""
    assert did_you_mean("retires", ["xetires", "yetires", "zetires", "wetires", "retir"]) == ": did you mean 'retir'?"


def test_all_words_are_named_when_none_is_near() -> None:
    """A wrong guess is worse than the list."""
    assert did_you_mean("pending", ["queued", "completed"]) == "; known are queued, completed"
    assert did_you_mean("pending", []) == "; known are none"


def test_a_word_that_is_like_none_has_no_nearest() -> None:
    """A guess that is always made is noise."""
    assert nearest("ONWARD_CONCURENCY", ["ONWARD_URL", "ONWARD_CONCURRENCY"]) == "ONWARD_CONCURRENCY"
    assert nearest("ONWARD_HOME", ["ONWARD_URL", "ONWARD_CONCURRENCY"]) is None
