"""Runs a target under atheris, which sees the code that an input reaches, and so finds its way into it.

It ends its own process, so each target gets one: ``python -m tests.fuzz.guided TARGET FOLDER ...`` is started by ``run``.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.fuzz import corpus
from tests.fuzz.generated import Result
from tests.fuzz.target import LONGEST_INPUT, Examiner, Finding, Target

SLACK = 60
"""Seconds beyond its time in which a process must have ended: it loads and instruments the code first."""
HUNG_AFTER = 10
"""Seconds of one input after which it is one that never ends."""
MOST_MEMORY = 1024
"""MB of a process."""
_EXECUTIONS = re.compile(r"stat::number_of_executed_units: +(\d+)")
_KNOWN = re.compile(r"^known fault: (.*)$", re.MULTILINE)


def is_there() -> bool:
    """Say whether atheris is installed; there is none for every Python and every system."""
    return importlib.util.find_spec("atheris") is not None


def run(target: Target, seconds: float, chosen_seed: int, *, keeps: bool = False) -> Result:
    """Run a target in a process of its own. What it finds is checked again here, so that the error is at hand."""
    result = Result(target.name, "atheris")
    with tempfile.TemporaryDirectory(prefix="onward-fuzz-") as made:
        folder = Path(made)
        kept, found = folder / "kept", folder / "found"
        for one in (kept, found):
            one.mkdir()
        for number, data in enumerate(corpus.read(target.name)):
            (kept / str(number)).write_bytes(data)
        said = _run(target, folder, seconds, chosen_seed)
        result.executions = int(match[1]) if (match := _EXECUTIONS.search(said)) else 0
        result.known = frozenset(_KNOWN.findall(said))
        culprits = [one for kind in ("crash", "timeout", "oom") for one in sorted(folder.glob(f"culprit-{kind}-*"))]
        if culprits:
            result.finding = _finding(target, culprits[0].read_bytes(), culprits[0].name, said)
        elif not result.executions:
            result.finding = Finding(target.name, b"", RuntimeError(f"atheris did not run: {said[-1500:]}"))
        if keeps:
            corpus.keep(target.name, (one.read_bytes() for one in found.iterdir()))
    return result


def _run(target: Target, folder: Path, seconds: float, chosen_seed: int) -> str:
    (folder / "words").write_text("".join(f'"{_escaped(word)}"\n' for word in target.words))
    options = [
        f"-max_total_time={max(1, round(seconds))}",
        f"-seed={chosen_seed % (2**32 - 1) + 1}",
        f"-max_len={LONGEST_INPUT}",
        f"-timeout={HUNG_AFTER}",
        f"-rss_limit_mb={MOST_MEMORY}",
        f"-artifact_prefix={folder}/culprit-",
        "-print_final_stats=1",
        "-verbosity=1",
        *([f"-dict={folder}/words"] if target.words else []),
    ]
    with open(folder / "said", "w+b") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", __name__, target.name, *options, str(folder / "found"), str(folder / "kept")],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            start_new_session=True,
        )
        try:
            process.wait(seconds + SLACK)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        said.seek(0)
        return said.read().decode(errors="replace")


def _escaped(word: str) -> str:
    return "".join(chr(one) if 32 <= one < 127 and one not in b'"\\' else f"\\x{one:02X}" for one in word.encode("utf-8", "surrogatepass"))


def _finding(target: Target, data: bytes, name: str, said: str) -> Finding:
    if "timeout" in name:
        return Finding(target.name, data, TimeoutError(f"it did not end within {HUNG_AFTER} s"))
    if "oom" in name:
        return Finding(target.name, data, MemoryError(f"it took more than {MOST_MEMORY} MB"))
    try:
        Examiner(target)(data)
    except Finding as finding:
        return finding
    return Finding(target.name, data, RuntimeError(f"it broke there and not here: {said[-1500:]}"))


def main() -> None:
    """What the process does: load the code so that it can be watched, and hand it inputs until the time is over."""
    import atheris  # type: ignore[import-untyped,import-not-found,unused-ignore]  # not for every Python

    with atheris.instrument_imports(include=["onward", "tests.fuzz.planted"]):
        from tests.fuzz.known import recognise
        from tests.fuzz.planted import PLANTED
        from tests.fuzz.targets import TARGETS
    name, *options = sys.argv[1:]
    examine, told = Examiner({**TARGETS, **PLANTED}[name]), set[str]()

    def one(data: bytes) -> None:
        try:
            examine(data)
        except Finding as finding:
            fault = recognise(finding)
            if fault is None:
                raise
            if fault.fault not in told:
                told.add(fault.fault)
                os.write(1, f"known fault: {fault.fault}\n".encode())

    atheris.Setup([sys.argv[0], *options], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
