"""No path, and nobody who swaps links meanwhile, leads a file job out of its base directory."""

from __future__ import annotations

import ctypes
import itertools
import os
import resource
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Self, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onward.errors import OnwardError, PermanentJobError
from onward.files.create import create_file
from onward.files.delete import delete_file
from onward.files.safe_path import read_file, walk_below
from tests.files.runs import loose_context

ROOT = Path(__file__).parents[2]
Act: TypeAlias = Callable[[], object]
SWAPS = 10_000
MOST_DEEDS = 20_000
FEWEST_OF_EACH = 100
parts = st.one_of(
    st.sampled_from(["..", ".", "", "a", "way", "~", "-rf", "...", ".. ", "..\\", "%2e%2e", "．．", "\0", ".onward-x", "con", "a" * 256]),
    st.text(max_size=5),
)
paths = st.lists(parts, min_size=1, max_size=5).map("/".join)


def snapshot(folder: Path) -> dict[str, str]:
    """Everything in a directory, links not followed."""
    return {str(path.relative_to(folder)): path.read_text() if path.is_file() else "" for path in sorted(folder.rglob("*"))}


@settings(max_examples=200, deadline=None)
@given(path=paths)
def test_whatever_a_path_says_it_stays_below_the_base(path: str) -> None:
    """A link that leads outside waits in the base; the file is made below it, or nothing happens anywhere."""
    with tempfile.TemporaryDirectory() as made:
        folder, outside = Path(made), Path(made) / "outside"
        (folder / "base").mkdir()
        outside.mkdir()
        (outside / "x").write_text("precious")
        (folder / "base/way").symlink_to(outside)
        acts: tuple[Act, ...] = (
            lambda: create_file(folder / "base", path, "new", loose_context(), overwrite=True),
            lambda: read_file(folder / "base", path),
            lambda: delete_file(folder / "base", path, loose_context()),
        )
        for act in acts:
            with suppress(OnwardError):
                act()
        assert snapshot(outside) == {"x": "precious"}
        assert {entry.name for entry in folder.iterdir()} == {"base", "outside"}


class Swapper(threading.Thread):
    """Makes the directory on the way a link to the outside and a directory again, each in one step, in a ``with`` block."""

    def __init__(self, base: Path, outside: Path) -> None:
        super().__init__(daemon=True)
        self._way, self._link = os.fsencode(base / "way"), os.fsencode(base.parent / "link")
        (base.parent / "link").symlink_to(outside)
        self.swaps = 0
        self._enough = threading.Event()

    def run(self) -> None:
        while not self._enough.is_set() or self.swaps % 2:
            exchange(self._way, self._link)
            self.swaps += 1

    def __enter__(self) -> Self:
        self._before = sys.getswitchinterval()
        sys.setswitchinterval(1e-5)  # so that it comes in between at any moment
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._enough.set()
        self.join(60)
        sys.setswitchinterval(self._before)


def exchange(one: bytes, other: bytes) -> None:
    """Two names for two things change places, with no moment in which one of them is missing."""
    library = ctypes.CDLL(None, use_errno=True)
    at = -100  # the current directory, as Linux has it
    done = library.renamex_np(one, other, 2) if sys.platform == "darwin" else library.renameat2(at, one, at, other, 2)
    if done != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


@pytest.mark.timeout(300)
def test_ten_thousand_swaps_of_a_link_lead_nowhere(tmp_path: Path) -> None:
    """Between a look and the deed somebody else puts a link in the way: what is outside is as it was, and nothing new is there."""
    base, outside = tmp_path / "base", tmp_path / "outside"
    (base / "way").mkdir(parents=True)
    outside.mkdir()
    (outside / "x").write_text("precious")
    acts: tuple[Act, ...] = (
        lambda: create_file(base, "way/x", "new", loose_context(), overwrite=True),
        lambda: create_file(base, "way/y/z", "new", loose_context()),
        lambda: read_file(base, "way/x"),
        lambda: delete_file(base, "way/x", loose_context()),
        lambda: delete_file(base, "way/y/z", loose_context()),
    )
    done = refused = 0
    with Swapper(base, outside) as swapper:
        for act in itertools.islice(itertools.cycle(acts), MOST_DEEDS):
            if swapper.swaps >= SWAPS and min(done, refused) >= FEWEST_OF_EACH:
                break
            try:
                assert act() != b"precious"
                done += 1
            except PermanentJobError:
                refused += 1
    assert swapper.swaps >= SWAPS
    assert min(done, refused) >= FEWEST_OF_EACH
    assert snapshot(outside) == {"x": "precious"}


@pytest.mark.timeout(300)
def test_a_way_that_follows_links_would_be_caught(tmp_path: Path) -> None:
    """The same race, lost by code that looks first and opens by the whole path."""
    base, outside = tmp_path / "base", tmp_path / "outside"
    (base / "way").mkdir(parents=True)
    outside.mkdir()
    with Swapper(base, outside):
        for _ in range(100 * MOST_DEEDS):
            if not (base / "way").is_symlink():
                os.sched_yield()
                (base / "way/x").write_text("new")
            if (outside / "x").exists():
                break
    assert (outside / "x").exists()


def test_a_pipe_in_the_place_of_a_file_holds_nobody(tmp_path: Path) -> None:
    """Opening a pipe waits for whoever writes into it, which may be never; meanwhile the store's write lock is held."""
    os.mkfifo(tmp_path / "x")
    acts: tuple[Act, ...] = (
        lambda: create_file(tmp_path, "x", "new", loose_context(), overwrite=True),
        lambda: delete_file(tmp_path, "x", loose_context()),
        lambda: read_file(tmp_path, "x"),
    )
    for act in acts:
        with pytest.raises(PermanentJobError):
            act()


def test_a_pipe_that_is_swapped_in_after_the_look_holds_nobody(tmp_path: Path) -> None:
    """As above, at the one place that opens the file again. The writer of the pipe is there, so that this test itself does not wait."""
    (tmp_path / "x").write_text("new")
    flags: list[int] = []
    opened = os.open

    def watched(path: object, given: int, *arguments: object, **options: object) -> int:
        if path == "x":
            flags.append(given)
        return opened(path, given, *arguments, **options)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "open", watched)
        create_file(tmp_path, "x", "new", loose_context())
    assert len(flags) >= 2
    assert all(given & os.O_NONBLOCK for given in flags)


DEEP = """
import resource, sys
from pathlib import Path
from onward.files.create import create_file
from onward.files.safe_path import UnsafePath, walk_below
from tests.files.runs import loose_context

base = Path(sys.argv[1])
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
try:
    create_file(base, "a/" * 500 + "x", "deep", loose_context())
except UnsafePath:  # it is not allowed
    create_file(base, "a/" * 60 + "x", "deep", loose_context())
create_file(base, "b", "beside it", loose_context())
print(sorted(path.rpartition("/")[2] for path, _, _ in walk_below(base)))
"""


def test_the_deepest_path_that_is_allowed_stops_no_walk(tmp_path: Path) -> None:
    """Whoever may name a path must not keep every worker from looking after its base directory, also where few files may be open."""
    done = subprocess.run(
        [sys.executable, "-c", DEEP, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
        capture_output=True,
        timeout=60,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == "['b', 'x']", done.stderr[-500:]


def test_a_walk_of_the_usual_depth_is_no_trouble(tmp_path: Path) -> None:
    """So that the test above is about depth."""
    create_file(tmp_path, "a/" * 60 + "x", "deep", loose_context())
    assert [path[-1] for path, _, _ in walk_below(tmp_path)] == ["x"]
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= 128
