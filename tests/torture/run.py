"""One run: a fleet, faults one after the other while it works, then healing, draining, stopping, and the verdict."""

from __future__ import annotations

import random
import resource
import shutil
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec.structs import replace

from tests.torture import plans, planted
from tests.torture.application import CANARY
from tests.torture.checker import count, judge
from tests.torture.evidence import Run
from tests.torture.faults import FAULTS
from tests.torture.fleet import LOG, RECOVERY, Fleet, Stuck
from tests.torture.history import HistoryDamaged, read_histories
from tests.torture.injectors import MissingInjector
from tests.torture.leaks import find_leaks
from tests.torture.plans import AND, Plan
from tests.torture.report import Report
from tests.torture.sites import new_site
from tests.torture.store import read_rows
from tests.torture.written import disagreements

ENOUGH = 3
"""Failures after which a fleet is broken no further."""
SHOWN = 20
"""How many broken cases a report names."""


def torture(plan: Plan, base: Path | None = None) -> Report:
    """Run once, and judge. A failed run's files stay, and the report says where, and what replays it."""
    report = Report(name=f"{plan.part} on {plan.store}", tier=plan.tier, seed=plan.seed)
    folder = Path(tempfile.mkdtemp(prefix="onward-torture-", dir=base))
    began, spent = time.monotonic(), _processor_seconds()
    chance = random.Random(f"{plan.store} {plan.seed}")
    with new_site(plan.store, folder) as site:
        report.versions = site.versions()
        with Fleet(site, folder, chance, plan.bug, plan.size) as fleet:
            with suppress(Stuck):
                for name in plan.faults:
                    _round(fleet, name, plan, report)
                    if len(fleet.failures) >= ENOUGH:  # each may have been waited for, and the verdict is clear
                        raise Stuck
                fleet.wait_for(lambda: site.operations() >= plan.least_operations, f"{plan.least_operations} operations were done")
            fleet.drain()
            fleet.stop()
        report.failures += [f"fleet: {failure}" for failure in fleet.failures]
        _judge(report, folder, site.direct, plan)
    report.seconds = time.monotonic() - began
    report.count("processor seconds", round(_processor_seconds() - spent))
    if report.has_passed:
        shutil.rmtree(folder)
    else:
        again = f"python -m tests.torture --store {plan.store} --seed {plan.seed} {plan.again}"
        report.failures.append(f"the files are in {folder}; the same choices again: {again}")
        (folder / "report.txt").write_text(f"{report}\n")
    return report


def _processor_seconds() -> float:
    """What this process has taken, and all that it started and has seen the end of."""
    return sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


def plant(bug: str, seed: int, base: Path | None = None) -> Report:
    """Run once with a bug, which the verdict must find."""
    return torture(plans.only(planted.NEEDS.get(bug, "kill worker"), "sqlite", seed, "smoke", times=2, bug=bug), base)


def is_found(bug: str, report: Report) -> bool:
    """Say whether one of the invariants that are there for this bug was found broken."""
    return bool({failure.partition(":")[0] for failure in report.failures} & planted.CAUGHT_BY[bug])


def _round(fleet: Fleet, name: str, plan: Plan, report: Report) -> None:
    """Break something, mend it, and, unless kills shall follow kills, see that a job runs again."""
    first, _, second = name.partition(AND)
    try:
        inject(fleet, first, second)
    except MissingInjector as reason:
        report.lacks(first, reason)
        return
    except Stuck:
        raise
    except Exception as error:
        fleet.failures.append(f"the fault {name!r} could not be injected: {type(error).__name__}: {error}")
    fleet.mend()
    report.count("rounds")
    report.count("overlapping faults", bool(second))
    if plan.waits:
        seen = len(fleet.failures)
        fleet.wait_until_final(fleet.enqueue("plain"))
        report.count("rounds recovered", len(fleet.failures) == seen)


def inject(fleet: Fleet, first: str, second: str) -> None:
    """Inject a fault, and a second one while the first is on. Raises ``MissingInjector``."""
    if not second:
        FAULTS[first].inject(fleet)
        return
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(FAULTS[first].inject, fleet)
        fleet.wait_for(lambda: running.done() or fleet.history.is_on(first), f"the fault {first!r} was on")
        if not running.done():
            FAULTS[second].inject(fleet)
        running.result()


def _judge(report: Report, folder: Path, read_rows_of: str, plan: Plan) -> None:
    try:
        rows = read_rows(read_rows_of)
        rows = replace(rows, files=disagreements(folder / "files", read_rows_of), leaks=find_leaks(read_rows_of, folder / LOG, CANARY))
        run = Run(read_histories(folder / "history"), rows, recovery=RECOVERY, is_serial=plan.store == "sqlite")
    except HistoryDamaged as damage:
        report.failures.append(str(damage))
        return
    for event in run.of_kind("fault"):
        report.fired(event.what)
    counts = count(run)
    for name, number in counts.items():
        report.count(name, number)
    if counts["operations"] < plan.least_operations:
        report.failures.append(f"only {counts['operations']} operations were done, which shows less than {plan.least_operations} would")
    broken = judge(run)
    if broken:
        (folder / "rows.json").write_bytes(msgspec.json.encode(rows))  # a server goes with its run
    report.failures += broken[:SHOWN]
    if len(broken) > SHOWN:
        report.failures.append(f"... and {len(broken) - SHOWN} more")
