from __future__ import annotations

import itertools
import multiprocessing
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from random import Random

import pytest

from onward.ids import ALPHABET, IdGenerator, encode, is_id, new_id
from onward.testing.conformance.steps import until_it_waits

LARGEST = (1 << 128) - 1


def test_ids_rise_across_threads_while_the_clock_steps_back_and_forth() -> None:
    """Per thread and over all, no id is made twice and none is below an earlier one, whatever the clock does."""
    chance = Random(1)
    make = IdGenerator(milliseconds=lambda: 1_700_000_000_000 + chance.randint(-3_600_000, 3_600_000))
    made: list[list[str]] = [[] for _ in range(8)]

    def run(ids: list[str]) -> None:
        ids.extend(make() for _ in range(25_000))

    threads = [threading.Thread(target=run, args=(ids,)) for ids in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(ids == sorted(ids) for ids in made)
    everything = [one for ids in made for one in ids]
    assert len(everything) == 200_000
    assert len(set(everything)) == 200_000


class Interrupted(int):
    """A time by which another thread gets its turn in the moment between being compared with the last id and becoming it."""

    meanwhile: Callable[[], None]

    def _like(self, number: int) -> Interrupted:
        other = Interrupted(number)
        other.meanwhile = self.meanwhile
        return other

    def __lshift__(self, bits: int) -> Interrupted:
        return self._like(int(self) << bits)

    def __or__(self, number: int) -> Interrupted:
        return self._like(int(self) | number)

    def __le__(self, other: int) -> bool:
        answer = int(self) <= other
        self.meanwhile()
        return answer


def test_ids_rise_whichever_thread_is_let_in_between() -> None:
    """The one that was interrupted must not set the last id back to its own, below which the next would be made."""
    others: list[str] = []
    other = threading.Thread(target=lambda: others.append(make()), daemon=True)

    def let_the_other_in() -> None:
        other.start()
        until_it_waits(other)

    first = Interrupted(5)
    first.meanwhile = let_the_other_in
    times = iter([first, 9, 5])
    make = IdGenerator(milliseconds=lambda: next(times))
    mine = make()
    other.join(30)
    assert make() > max(mine, *others)


def test_ids_rise_when_the_clock_steps_back_an_hour() -> None:
    """An hour back, as after a wrong time zone was mended, must not sort new jobs before old ones."""
    now = 1_700_000_000_000
    make = IdGenerator(milliseconds=lambda: now)
    before = make()
    now -= 3_600_000
    assert before < make()


def test_a_carry_out_of_the_random_part_moves_the_time_part_on() -> None:
    """The random part may be all ones; the next id must still be higher."""
    answers = iter([b"\xff" * 10, b"\x00" * 10, b"\x00" * 4])
    make = IdGenerator(milliseconds=lambda: 5, random_bytes=lambda _: next(answers))
    assert make() == encode((6 << 80) - 1)
    assert make() == encode(6 << 80)


def test_an_id_can_not_be_guessed_from_its_neighbour() -> None:
    """Within a millisecond the step is random."""
    make = IdGenerator(milliseconds=lambda: 5)
    numbers = [int("".join(f"{ALPHABET.index(one):05b}" for one in make()), 2) for _ in range(100)]
    assert len({after - before for before, after in itertools.pairwise(numbers)}) > 90


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0" * 26), (1, "0" * 25 + "1"), (31, "0" * 25 + "Z"), (32, "0" * 24 + "10"), (LARGEST, "7" + "Z" * 25)],
)
def test_numbers_are_written_as_the_specification_says(number: int, text: str) -> None:
    """Other tools read ULIDs too."""
    assert encode(number) == text
    assert is_id(text)


def test_the_time_part_is_the_milliseconds() -> None:
    """The example of the specification: its first ten characters are the time."""
    make = IdGenerator(milliseconds=lambda: 1_469_918_176_385)
    assert make()[:10] == "01ARYZ6S41"


def test_the_first_id_is_what_the_clock_and_chance_say() -> None:
    """Also after a fork: nothing is added to them, so that whoever hands both in knows the ids."""
    make = IdGenerator(milliseconds=lambda: 0, random_bytes=bytes)
    assert make() == encode(0)
    make.reseed()
    assert make() == encode(0)


@pytest.mark.parametrize("text", ["", "0" * 25, "0" * 27, "8" + "0" * 25, "0" * 25 + "U", "0" * 25 + "a", "0" * 25 + "\n", "0" * 25 + "٣"])
def test_what_is_no_id_is_told(text: str) -> None:
    """A mistyped id must be refused before a store is asked."""
    assert not is_id(text)


def test_the_shared_generator_makes_ids() -> None:
    """What the library itself uses."""
    ids = [new_id() for _ in range(100)]
    assert ids == sorted(set(ids))
    assert all(is_id(one) for one in ids)


def _send_ids(pipe: Connection) -> None:
    pipe.send([new_id() for _ in range(1000)])
    pipe.close()


def test_a_fork_makes_other_ids_and_never_hangs_on_the_parent_s_lock() -> None:
    """A thread may hold the lock at the fork; the child has no such thread to free it."""
    code = """
import os, threading, time
tell, held, free = time.time_ns, threading.Event(), threading.Event()
def time_ns():
    if threading.current_thread().name == "holder":  # asked while it holds the lock
        held.set()
        free.wait()
    return tell()
time.time_ns = time_ns
from onward.ids import new_id
holder = threading.Thread(target=new_id, name="holder")
holder.start()
held.wait()
read, write = os.pipe()
child = os.fork()
if child == 0:
    os.write(write, "\\n".join(new_id() for _ in range(100)).encode())
    os._exit(0)
free.set()
holder.join()
os.waitpid(child, 0)
theirs = os.read(read, 65536).decode().split()
ours = [new_id() for _ in range(100)]
assert len(set(theirs) | set(ours)) == 200, (theirs[:2], ours[:2])
print("ok")
"""
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env={**os.environ})
    assert answer.stdout == "ok\n", answer.stderr


def test_spawned_processes_make_other_ids() -> None:
    """Many workers enqueue at the same millisecond."""
    context = multiprocessing.get_context("spawn")
    pipes = []
    for _ in range(2):
        ours, theirs = context.Pipe()
        process = context.Process(target=_send_ids, args=(theirs,))
        process.start()
        pipes.append((ours, process))
    made = [ours.recv() for ours, _ in pipes]
    for _, process in pipes:
        process.join()
    assert len(set(made[0]) | set(made[1])) == 2000
