"""Invariants of what is there when a run is over: in the store, on the disk, and in the logs."""

from __future__ import annotations

from tests.torture.evidence import Broken, Run


def the_store_is_sound(run: Run) -> Broken:
    """I17: the database finds nothing wrong with itself, and every stored job has its whole story in the audit."""
    yield from run.rows.damage
    for job in run.rows.jobs:
        if not run.audit.get(job.id):
            yield f"job {job.id} is stored, and its insert was not seen"
    for id_ in sorted(set(run.audit) - set(run.jobs)):
        yield f"job {id_} was stored once, and is gone"


def files_agree(run: Run) -> Broken:
    """I18: each file is as the last completed job on it left it, and no temporary file is left."""
    yield from run.rows.files


def secrets_are_kept(run: Run) -> Broken:
    """I20: what a handler let slip is stored nowhere but in a payload, and is in no log."""
    yield from run.rows.leaks
