"""Work in forked processes: each of them is heard, and none of them stays."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.mutation.processes import Say, in_process, run_forked


def test_the_last_word_of_each_is_handed_over() -> None:
    def work(task: int, say: Say) -> None:
        say({"patience": 30})
        say({"answer": task * 2})

    assert {ended.task: ended.said["answer"] for ended in run_forked([1, 2, 3], work, jobs=2)} == {1: 2, 2: 4, 3: 6}


def test_one_that_is_silent_for_too_long_is_ended_with_all_that_it_started() -> None:
    """A mutant may loop for ever, and so may a process that it started."""
    ours, theirs = os.pipe()

    def work(task: int, say: Say) -> None:
        if os.fork() == 0:
            signal.pause()
        say({"patience": 0.05})
        signal.pause()

    (ended,) = run_forked([1], work, jobs=1)
    os.close(theirs)
    assert ended.has_hung
    assert os.read(ours, 1) == b"", "nobody is left who could write"
    os.close(ours)


def test_one_that_dies_has_said_nothing_more_and_one_that_fails_says_how() -> None:
    def work(task: str, say: Say) -> None:
        say({"patience": 30})
        if task == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        raise ValueError("what went wrong")

    said = {ended.task: ended.said for ended in run_forked(["dies", "fails"], work, jobs=1)}
    assert said["dies"] == {"patience": 30}
    assert "what went wrong" in said["fails"]["error"]


def test_each_has_a_folder_of_its_own_which_is_gone_afterwards() -> None:
    def work(task: int, say: Say) -> None:
        folder = Path(os.environ["PYTEST_DEBUG_TEMPROOT"])
        (folder / "left").mkdir()
        say({"folder": str(folder)})

    folders = {ended.said["folder"] for ended in run_forked([1, 2], work, jobs=1)}
    assert len(folders) == 2
    assert not any(Path(folder).exists() for folder in folders)


def test_what_one_process_sends_comes_in_its_order_and_its_failure_is_raised() -> None:
    def count(send: Callable[[int], None]) -> None:
        for number in range(3):
            send(number)

    assert list(in_process(count)) == [0, 1, 2]
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        list(in_process(lambda send: send(1 // 0)))
