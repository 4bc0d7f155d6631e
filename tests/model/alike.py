"""States that differ only in which process is which are one state: half of the search, with three processes five sixths."""

from __future__ import annotations

from tests.model.state import IN_PROGRESS, Claim, Look, Row, State


def as_one(state: State) -> State:
    """Give the state that stands for all that are alike but for the names of processes."""
    order = order_of(state)
    processes = tuple(tuple(sorted(state.processes[place], key=_rank)) for place in order)
    if order == tuple(range(len(order))):
        return state if processes == state.processes else state._replace(processes=processes)
    places = {old: new for new, old in enumerate(order)}
    rows = tuple(_renamed(row, places) for row in state.rows)
    look = state.look and Look(state.look.why, state.look.job, _named(state.look.row, places))
    return state._replace(rows=rows, look=look, processes=processes)


def order_of(state: State) -> tuple[int, ...]:
    """Say in which order the processes stand in the state that stands for this one."""
    ranks = [sorted(map(_rank, claims)) for claims in state.processes]
    return tuple(sorted(range(len(ranks)), key=ranks.__getitem__))


def _rank(claim: Claim) -> tuple[int, int, str, str]:
    return claim.job, claim.row.fence, claim.phase, claim.ending or ""


def _renamed(row: Row | None, places: dict[int, int]) -> Row | None:
    return None if row is None else _named(row, places)


def _named(row: Row, places: dict[int, int]) -> Row:
    return row._replace(owner=places.get(row.owner, row.owner)) if row.status == IN_PROGRESS else row
