"""Cut the power after a call of a recording, open what is left, and say what does not hold."""

from __future__ import annotations

import hashlib
import random
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from tests.torture.aftermath import look_at
from tests.torture.pool import AT_ONCE
from tests.torture.power_loss.choices import KINDS, choose
from tests.torture.power_loss.disk import files_of
from tests.torture.power_loss.recording import Playback
from tests.torture.report import Report

MOST_PASSES = 400
MEMORY = Path("/dev/shm")


class Recording(Struct, frozen=True):
    """A program that ran once under strace."""

    workload: str
    room: str
    """The directory that it is kept in."""
    home: str
    """Where the workload ran."""
    points: int
    """How many calls mattered."""

    @property
    def trace(self) -> Path:
        """What strace wrote."""
        return Path(self.room) / "trace"


class Share(Struct, frozen=True):
    """The part of a recording's states that one process looks at: points by their remainder, until there were so many states."""

    recording: Recording
    remainder: int
    of: int
    states: int
    works_on_every: int
    """One state in so many is also swept, run empty and looked at again."""
    only: tuple[tuple[int, int], ...] = ()
    """Point and pass of single cases."""
    stops_at_first: bool = False
    """Look for one failure, not for all."""

    def is_done(self, states: int, failures: int) -> bool:
        """Whether there were enough of them."""
        return states >= self.states or (self.stops_at_first and failures > 0)


def look_at_states(share: Share, seed: int, report: Report) -> Report:
    """Build states and open each, until there were enough different ones or nothing new comes."""
    seen: set[bytes] = set()
    with _directory() as home:
        for number in sorted({number for _, number in share.only}) if share.only else range(MOST_PASSES):
            before = len(seen)
            _pass(share, number, seed, home, seen, report)
            # After the first passes, which give each point each kind of choice, a pass without a new state means that there are none.
            if share.is_done(len(seen), len(report.failures)) or (number >= len(KINDS) and len(seen) == before):
                break
    report.count("states", len(seen))
    return report


def _pass(share: Share, number: int, seed: int, home: Path, seen: set[bytes], report: Report) -> None:
    """Go through the recording once, and stop at some or all of the share's points."""
    recording = share.recording
    playback = Playback(recording.trace, recording.home)
    wanted = _points(share, number, seed, share.states - len(seen))
    for point in playback.points():
        if point not in wanted:
            continue
        kind = KINDS[(point // AT_ONCE + number) % len(KINDS)]
        found = list(files_of(playback.root, choose(kind, f"{seed}:{recording.workload}:{point}:{number}")))
        if not _is_new(found, playback.said.acknowledged, seen):
            continue
        _write(home, found)
        report.fired(f"power lost, {kind}")
        report.counts["acknowledged"] = max(report.counts.get("acknowledged", 0), playback.said.acknowledged)
        works_on = bool(share.only) or len(seen) % share.works_on_every == 0
        report.count("worked on", int(works_on))
        if broken := look_at(home, playback.said, works_on=works_on):
            report.failures.append(_failure(share, point, number, kind, seed, broken))
        if share.is_done(len(seen), len(report.failures)):
            return


def _failure(share: Share, point: int, number: int, kind: str, seed: int, broken: Sequence[str]) -> str:
    more = f" and {len(broken) - 1} more" if len(broken) > 1 else ""
    case = f"{share.recording.room}:{point}:{number}"
    what = f"{share.recording.workload}, power lost after call {point}, {kind}: {broken[0]}{more}"
    return f"{what}; again: python -m tests.torture.power_loss --seed {seed} --only {case}"


def _points(share: Share, number: int, seed: int, missing: int) -> set[int]:
    if share.only:
        return {point for point, one in share.only if one == number}
    mine = range(share.remainder + 1, share.recording.points + 1, share.of)
    if missing >= len(mine):
        return set(mine)
    return set(random.Random(f"{seed}:{share.remainder}:{number}").sample(mine, missing))


def _is_new(found: Sequence[tuple[str, bytes | None]], acknowledged: int, seen: set[bytes]) -> bool:
    digest = hashlib.blake2b(str(acknowledged).encode(), digest_size=16)
    for path, content in found:
        digest.update(path.encode() + b"\0")
        digest.update(b"directory" if content is None else content)
    if digest.digest() in seen:
        return False
    seen.add(digest.digest())
    return True


def _write(home: Path, found: Sequence[tuple[str, bytes | None]]) -> None:
    shutil.rmtree(home)
    home.mkdir()
    for path, content in found:
        if content is None:
            (home / path).mkdir()
        else:
            (home / path).write_bytes(content)


@contextmanager
def _directory() -> Iterator[Path]:
    """In memory where there is such a place: what is looked at here is never to survive anything."""
    room = Path(tempfile.mkdtemp(prefix="onward-power-", dir=MEMORY if MEMORY.is_dir() else None))
    try:
        (room / "home").mkdir()
        yield room / "home"
    finally:
        shutil.rmtree(room, ignore_errors=True)
