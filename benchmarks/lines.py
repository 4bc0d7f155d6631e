"""What is compared with what, and how the ratio is to be: a table of measurements."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from msgspec import Struct

from benchmarks import bulk_cancel, depth, endurance, measures, pruning
from benchmarks.measures import Measure

STORES = ("sqlite", "postgres")
BATCH = {"sqlite": 100, "postgres": 500}
"""At these the raw loop is quickest; Onward's workers get as many slots."""


class Side(Struct, frozen=True):
    """One subject's measurement."""

    subject: str
    measure: Measure


class Line(Struct, frozen=True, kw_only=True):
    """Two measurements, and what of them is compared. ``least`` and ``most`` are what their ratio is to be.

    ``limits`` says of figures of Onward's own what they are to be at most; where that is 0, in every run.
    """

    name: str
    store: str
    onward: Side
    against: Side | None = None
    figure: str = "rate"
    least: float | None = None
    most: float | None = None
    limits: dict[str, float] = {}
    is_long: bool = False
    """Measured once, however many runs are asked for."""


def lines(store: str, scale: float = 1.0) -> Iterator[Line]:
    """Every measurement on this store. ``scale`` makes each smaller, to try whether they work."""
    seconds = 2.0 * scale
    yield from _enqueues(store, seconds, scale)
    yield from _drains(store, scale)
    yield from _waits(store, seconds, scale)
    yield from _bulk_cancels(store, scale)
    yield from _prunes(store, scale)
    yield from _logs(store, scale)
    yield from _depths(store, seconds, scale)
    yield from _others(store, scale)
    yield from _endures(store, seconds, scale)


def _both(measure: Measure) -> dict[str, Side]:
    return {"onward": Side("onward", measure), "against": Side("raw", measure)}


def _enqueues(store: str, seconds: float, scale: float) -> Iterator[Line]:
    single = partial(measures.one, seconds=seconds)
    yield Line(name="enqueue one by one", store=store, **_both(single), least=0.85)
    alone = Side("onward", single)
    for callers, least in ((8, None), (32, 2.0), (64, None)):
        side = Side("onward", partial(measures.threads, callers=callers, seconds=seconds))
        yield Line(name=f"enqueue, {callers} threads", store=store, onward=side, against=alone, least=least if store == "sqlite" else None)
    for callers, least in ((64, 3.0), (256, 4.5)):
        side = Side("onward", partial(measures.awaiting, callers=callers, seconds=seconds))
        yield Line(name=f"enqueue, {callers} awaiting", store=store, onward=side, against=alone, least=least if store == "sqlite" else None)
    count = int(10_000 * scale)
    yield Line(
        name="enqueue in bulk, with keys",
        store=store,
        onward=Side("onward", partial(measures.bulk, count=count, keyed=True)),
        against=Side("onward", partial(measures.same_tables, count=count)),
        least=0.4 if store == "sqlite" else 0.5,
    )
    yield Line(name="enqueue in bulk", store=store, **_both(partial(measures.bulk, count=count)))


def _drains(store: str, scale: float) -> Iterator[Line]:
    least = {"async": (0.5, 0.5), "sync": (0.3, None)} if store == "sqlite" else {"async": (0.6, 0.6), "sync": (0.4, None)}
    for processes in (1, 2):
        raw = Side("raw", partial(measures.drain, count=int(20_000 * scale * processes), processes=processes, batch=BATCH[store]))
        for kind in ("async", "sync"):
            count = int(20_000 * scale * processes)
            own = partial(measures.drain, count=count, job=f"{kind}-0", processes=processes, batch=BATCH[store])
            yield Line(
                name=f"drain, {kind}, {processes} process{'es' * (processes > 1)}",
                store=store,
                onward=Side("onward", own),
                against=raw,
                least=least[kind][processes - 1],
            )
    yield Line(
        name="drain, isolated, 1 process",
        store=store,
        onward=Side("onward", partial(measures.drain, count=int(2_000 * scale), job="isolated-0", batch=2)),
    )
    for milliseconds in (1, 10):
        measure = partial(measures.drain, count=int(10_000 * scale), job=f"async-{milliseconds}", batch=BATCH[store])
        yield Line(name=f"drain, async, {milliseconds} ms of waiting", store=store, **_both(measure))


def _waits(store: str, seconds: float, scale: float) -> Iterator[Line]:
    measure = partial(measures.pickup, count=int(200 * scale))
    yield Line(name="pickup", store=store, **_both(measure), figure="p50_ms", most=1.25 if store == "postgres" else None)
    # Beside Onward alone: SQLite keeps the yardstick from its lock until it gives up, as soon as another process writes without a pause.
    count = int(150_000 * scale)
    yield Line(
        name="enqueue beside a drain",
        store=store,
        onward=Side("onward", partial(measures.beside_a_drain, count=count, seconds=seconds, batch=BATCH[store])),
        against=Side("onward", partial(measures.drained_alone, count=count, batch=BATCH[store])),
        figure="drained",
        least=0.4,
        limits={"p50_us": 1_000.0, "p99_us": 5_000.0} if store == "sqlite" else {},
    )
    count = int(20_000 * scale)
    yield Line(
        name="drain beside enqueues",
        store=store,
        onward=Side("onward", partial(measures.drain_beside_requests, count=count, batch=BATCH[store])),
        against=Side("onward", partial(measures.drain, count=count, batch=BATCH[store])),
        least=0.25,
    )


def _bulk_cancels(store: str, scale: float) -> Iterator[Line]:
    for keyed in (False, True):
        count = int(100_000 * scale)
        yield Line(
            name=f"pickup beside a bulk cancel{', keyed' * keyed}",
            store=store,
            onward=Side("onward", partial(bulk_cancel.beside_a_bulk_cancel, count=count, keyed=keyed)),
            against=Side("onward", partial(bulk_cancel.without_it, count=count, pings=int(1_000 * scale), keyed=keyed)),
            figure="p95_ms",
            most=1.5,
        )


def _prunes(store: str, scale: float) -> Iterator[Line]:
    rows, claims = int(1_000_000 * scale), max(int(1_000 * scale), 20)
    yield Line(
        name=f"claims beside a prune of {rows:,}",
        store=store,
        onward=Side("onward", partial(pruning.claims_beside_a_prune, rows=rows, claims=claims)),
        against=Side("onward", partial(pruning.claims_without_it, rows=rows, claims=claims)),
        figure="p95_us",
        most=1.5,
        limits={"log_mb": 64.0} if store == "sqlite" else {},
    )
    yield Line(
        name=f"whole prune of {rows:,}",
        store=store,
        onward=Side("onward", partial(pruning.whole_prune, rows=rows)),
        limits={"left": 0.0} | ({"log_mb": 64.0} if store == "sqlite" else {}),
    )


def _logs(store: str, scale: float) -> Iterator[Line]:
    measure = partial(measures.logged_drain, count=int(20_000 * scale), batch=100)
    yield Line(name="log of a drain", store=store, **_both(measure), figure="log_bytes", most=1.3)


def _depths(store: str, seconds: float, scale: float) -> Iterator[Line]:
    drain = partial(measures.drain, count=int(20_000 * scale), batch=BATCH[store])
    enqueue = partial(measures.one, seconds=seconds)
    for kinds, rows, least in (
        (("future",), 1_000_000, 0.9),
        (("finished",), 1_000_000, 0.9),
        (("future", "finished"), 1_000_000, 0.9),
        (("unknown",), 1_000_000, 0.9),
        (("finished",), 10_000_000, 0.8),
    ):
        rows = int(rows * scale)
        for what, measure in (("drain", drain), ("enqueue", enqueue)):
            yield Line(
                name=f"depth, {what} behind {rows:,} {' and '.join(kinds)}",
                store=store,
                onward=Side("onward", depth.behind(kinds, rows, measure)),
                against=Side("onward", depth.behind((), 0, measure)),
                least=least,
            )
    yield Line(
        name="depth, claims among many",
        store=store,
        onward=Side("onward", partial(depth.claims, ready=int(1_000_000 * scale))),
        against=Side("onward", partial(depth.claims, ready=1_000)),
        figure="p95_us",
        most=1.5,
    )


def _others(store: str, scale: float) -> Iterator[Line]:
    """Beside jobs that wait for others, and for those who only look."""
    blocked, least = int(200_000 * scale), partial(depth.claims, ready=1_000)
    yield Line(
        name=f"claims beside {blocked:,} that wait for a limit",
        store=store,
        onward=Side("onward", depth.behind(("limited",), blocked, least)),
        against=Side("onward", least),
        figure="p95_us",
        most=1.2,
    )
    yield Line(
        name=f"sweep of {blocked:,} that wait for a limit",
        store=store,
        onward=Side("onward", depth.behind(("limited",), blocked, depth.sweeps)),
        figure="sweep_p50_ms",
    )
    finished, waiting = int(1_000_000 * scale), int(100_000 * scale)
    seeded = depth.behind(("finished",), finished, depth.behind(("waiting",), waiting, depth.looks))
    yield Line(
        name=f"look at metrics over {finished:,} finished and {waiting:,} waiting",
        store=store,
        onward=Side("onward", seeded),
        figure="flows_p50_ms",
        limits={"backlog_p50_ms": 50.0, "flows_p50_ms": 50.0, "totals_p50_ms": 50.0},
    )


def _endures(store: str, seconds: float, scale: float) -> Iterator[Line]:
    memory = partial(endurance.memory, few=int(10_000 * scale), many=int(1_000_000 * scale), batch=BATCH[store])
    yield Line(
        name="memory after many", store=store, onward=Side("onward", memory), figure="grown_mb", limits={"grown_mb": 5.0}, is_long=True
    )
    if store == "postgres":
        measure = partial(endurance.long_transaction, jobs=int(500_000 * scale), batch=BATCH[store])
        limits = {"end_ratio": endurance.SLOWER_MEANWHILE, "normal_after_s": endurance.NORMAL_WITHIN}
        yield Line(name="a long transaction", store=store, onward=Side("onward", measure), figure="end_ratio", limits=limits, is_long=True)
        return
    yield Line(
        name="four processes, both",
        store=store,
        onward=Side("onward", partial(endurance.four_processes, seconds=600.0 * scale, batch=BATCH[store])),
        limits={"errors": 0.0, "failed_turns": 0.0},
        is_long=True,
    )
    yield Line(
        name="enqueue, 32 threads, slow disk",
        store=store,
        onward=Side("onward", partial(endurance.on_a_slow_disk, role="threads", callers=32, seconds=seconds)),
        against=Side("onward", partial(endurance.on_a_slow_disk, role="one", seconds=seconds)),
        least=15.0,
    )
