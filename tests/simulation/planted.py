"""Bugs for a simulated fleet: statements of its store, changed as a careless hand would change them. Each must be found."""

from __future__ import annotations

from onward.drivers.sqlite.driver import SQLiteStore

Change = tuple[str, str, str]
"""The name of a statement, a part of its text, and what stands there instead."""
FENCE = "AND onward_jobs.fence = {rows}.fence AND onward_jobs.status = 'in_progress'"


def plant(store: SQLiteStore, bug: str) -> None:
    """Change the statements of an open store. Without a name nothing is done."""
    statements = store.statements
    assert isinstance(statements, dict)
    for name, old, new in PLANTED[bug] if bug else ():
        assert old in statements[name], f"{name} has no {old!r} to plant {bug!r} in: {statements[name]}"
        statements[name] = statements[name].replace(old, new)


PLANTED: dict[str, tuple[Change, ...]] = {
    "no fence when a run ends": tuple((name, FENCE.format(rows="ended"), "") for name in ("complete", "settle")),
    "a claim of what somebody else holds": (
        ("due", "status IN ('queued', 'retrying')", "status IN ('queued', 'retrying', 'in_progress')"),
        ("claim", "status IN ('queued', 'retrying')", "status IN ('queued', 'retrying', 'in_progress')"),
    ),
    "the fence does not rise": (("claim", "fence = fence + 1", "fence = max(fence, 1)"),),
    "a try is not counted": (("claim", "attempts = attempts + 1", "attempts = attempts"),),
    "a sweep that is too early": (
        ("run_out", "lease_until <= :now", "lease_until <= strftime('%Y-%m-%dT%H:%M:%f000Z', :now, '+3 seconds')"),
    ),
    "a job that is not due": (("due", "scheduled_at <= :now", "scheduled_at <= strftime('%Y-%m-%dT%H:%M:%f000Z', :now, '+3 seconds')"),),
    "a key that two jobs get": (("take_key", "WHERE onward_keys.expires_at <= :now", ""),),
    "a key that is never free again": (("free_keys", "AND expires_at IS NULL", "AND expires_at IS NOT NULL"),),
}
