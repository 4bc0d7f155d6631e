"""Draw ``docs/reference/states.md`` from the table of statuses. ``--check`` only says whether the page is current."""

from __future__ import annotations

import sys
from pathlib import Path

from onward.status import NOTES, TRANSITIONS, Status

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "states.md"

MEANINGS = {
    Status.QUEUED: "accepted, waits until it is due",
    Status.IN_PROGRESS: "claimed by a worker, whose lease is running",
    Status.RETRYING: "failed, will run again when its back-off is over",
    Status.COMPLETED: "done",
    Status.DEAD_LETTER: "will not run again by itself: a person has to look",
    Status.CANCELLED: "nobody wants it any more",
}

OPENING = """\
# Statuses

<!-- Drawn by scripts/draw_states.py from src/onward/status.py. Change the table there, then run the script. -->

The words are the same in Python, SQL, JSON, the command line and logs. A final job is touched by no worker; a person may start it again.
"""


def main() -> int:
    """Write the page, or compare it. 1 when it is out of date."""
    drawn = page()
    if "--check" in sys.argv[1:]:
        if PAGE.exists() and PAGE.read_text(encoding="utf-8") == drawn:
            return 0
        print(f"{PAGE} is out of date: run python scripts/{Path(__file__).name}", file=sys.stderr)
        return 1
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(drawn, encoding="utf-8")
    return 0


def page() -> str:
    """The whole page."""
    return f"{OPENING}\n{statuses()}\n## The arrows\n\n{diagram()}\n{arrows()}"


def statuses() -> str:
    """The table of statuses."""
    rows = [f"| `{one}` | {MEANINGS[one]} | {'yes' if one.is_claimable else ''} | {'yes' if one.is_final else ''} |" for one in Status]
    return "\n".join(["| status | meaning | a worker may claim it | final |", "|---|---|---|---|", *rows, ""])


def diagram() -> str:
    """The arrows as a Mermaid state diagram."""
    lines = [f"    {start} --> {end}: {verb}" for (start, verb), ends in TRANSITIONS.items() for end in ends]
    finals = [f"    {one} --> [*]" for one in Status if one.is_final]
    return "\n".join(["```mermaid", "stateDiagram-v2", f"    [*] --> {Status.QUEUED}: enqueue", *lines, *finals, "```", ""])


def arrows() -> str:
    """The arrows as a table with their notes."""
    rows = [
        f"| `{start}` | {verb} | {' or '.join(f'`{end}`' for end in ends)} | {NOTES[start, verb]} |"
        for (start, verb), ends in TRANSITIONS.items()
    ]
    return "\n".join(["| from | what happens | to | when, and what changes |", "|---|---|---|---|", *rows, ""])


if __name__ == "__main__":
    sys.exit(main())
