"""``Worker``: the parts of a worker put together, started, and stopped within its grace."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from random import Random
from typing import Any

from onward.alert_rules import AlertRules
from onward.clock import Clock
from onward.definition import Duration
from onward.driver import Store
from onward.durations import format_duration, parse_duration
from onward.errors import InvalidDefinition, StoreError
from onward.events import Events
from onward.inspection import Retention
from onward.limit import Limit
from onward.periodic import Periodic
from onward.presence import Presence
from onward.pruning import Keeping, strange_queues
from onward.reconciler import Reconciler
from onward.registry import Registry
from onward.sight_verbs import JobsFor, no_jobs
from onward.worker.deadlines import Deadlines
from onward.worker.executor import Executor
from onward.worker.heartbeat import Heartbeat
from onward.worker.isolated_processes import IsolatedProcesses
from onward.worker.isolation import Isolation, warn_of_isolated_here
from onward.worker.lease_owner import make_lease_owner
from onward.worker.lookout import LOOKS_EVERY, Lookout
from onward.worker.loop import Loop
from onward.worker.outbox import Outbox
from onward.worker.producer import Producer
from onward.worker.pruner import Pruner
from onward.worker.pulse import Pulse
from onward.worker.reports import Reports
from onward.worker.scheduler import Scheduler
from onward.worker.slots import Slots
from onward.worker.started import StartedJobs
from onward.worker.stopping import Stopping
from onward.worker.sweeper import Sweeper
from onward.worker.transactions import StoreTransactions

logger = logging.getLogger("onward.worker")

EXIT_OK = 0
EXIT_STUCK = 75
"""Half of the slots are held by handlers that do not end: only a new process helps."""
LONGEST_LAST_SWEEP = 0.5
"""Seconds for which a worker that has stopped waits for a sweep that has begun: what it changed is to be said."""


class Worker:
    """Claims jobs and runs them.

    ``queues`` empty serves all. ``concurrency`` is how many handlers run at once, of all kinds together. ``poll`` is how long an idle
    worker waits before it looks again. ``grace`` is how long a stop waits for running jobs; None waits for ever. ``timeout_grace`` is
    what a handler gets beyond its time limit, or once it is told that its job is cancelled, before it is given up. ``max_jobs`` ends the
    worker after that many jobs, ``drain`` when nothing is due any more. ``application`` (``module:attribute``) is what the processes of
    isolated jobs load; without it such jobs run here, with nothing beside them. ``lease_owner``, ``started`` and ``supervised`` are for
    the process that the supervisor starts. Installs no signal handlers.
    """

    def __init__(
        self,
        store: Store,
        definitions: Registry,
        *,
        events: Events | None = None,
        services: Any = None,
        periodic: Iterable[Periodic] = (),
        queue_limits: Mapping[str, Limit] | None = None,
        retention: Retention | None = None,
        alert_rules: AlertRules | None = None,
        jobs_for_alerts: JobsFor | None = None,
        reconcilers: Iterable[Reconciler] = (),
        queues: Iterable[str] = (),
        concurrency: int = 16,
        poll: Duration = "1s",
        sweep_every: Duration = "30s",
        prune_every: Duration = "10m",
        grace: Duration | None = "30s",
        timeout_grace: Duration = "5s",
        name: str | None = None,
        max_jobs: int | None = None,
        drain: bool = False,
        lease_owner: str | None = None,
        started: StartedJobs | None = None,
        supervised: bool = False,
        application: str | None = None,
        clock: Clock | None = None,
        chance: Random | None = None,
    ) -> None:
        _check_count("concurrency", concurrency)
        _check_count("max_jobs", 1 if max_jobs is None else max_jobs)
        clock, chance = clock or store.clock, chance or Random()
        self.lease_owner = lease_owner or make_lease_owner()
        self.name = name or self.lease_owner
        self.exit_code = EXIT_OK
        self.was_clean = True
        """False when handlers had to be given up at the end."""
        self.ran_out = False
        """True when ``drain`` or ``max_jobs`` ended the worker."""
        self.finished = threading.Event()
        """Set when the worker has stopped and given everything back."""
        self._store = store
        self._definitions = definitions
        self._reconcilers = tuple(reconcilers)
        self._queue_limits = dict(queue_limits or {})
        self._must_end_when_stuck = supervised or drain
        self._concurrency = concurrency
        self._queues = tuple(dict.fromkeys(queues))
        self._thread: threading.Thread | None = None
        leases = [lease.total_seconds() for lease in definitions.leases().values()] or [60.0]
        limits = [one.timeout.total_seconds() for one in definitions if one.timeout is not None]
        reports = Reports(events or Events(), self.lease_owner, store)
        executor = Executor(
            definitions,
            services,
            clock=clock,
            chance=chance,
            transactions=StoreTransactions(store, definitions),
            worker_id=self.lease_owner,
        )
        pulse = Pulse(clock, min(leases) / 3)
        processes = None
        self._lacks_application = application is None and store.capabilities.survives_process
        if application is not None and store.capabilities.survives_process:
            processes = IsolatedProcesses(application, executor, lease_owner=self.lease_owner)
        self.slots = Slots(concurrency, executor, self._ring, Isolation(store, clock), started=started, processes=processes)
        outbox = Outbox(store, self.slots, reports, clock=clock, lease_owner=self.lease_owner)
        poll_seconds = max(parse_duration(poll).total_seconds(), 0.01)
        self.producer = Producer(
            store,
            definitions,
            self.slots,
            executor,
            outbox,
            clock=clock,
            reports=reports,
            lease_owner=self.lease_owner,
            queues=self._queues,
            poll=poll_seconds,
            drain=drain,
            max_jobs=max_jobs,
            on_drained=self._run_out,
            on_set_aside=self._look_at_unknown,
        )
        self.heartbeat = Heartbeat(
            store,
            self.slots,
            pulse,
            clock=clock,
            lease_owner=self.lease_owner,
            reports=reports,
            poll=poll_seconds,
            on_cancel=lambda: self._watching_deadlines.wake(),
        )
        self.deadlines = Deadlines(
            self.slots,
            clock=clock,
            reports=reports,
            shortest=min(leases + limits),
            grace=parse_duration(timeout_grace).total_seconds(),
            on_stuck=self._give_up,
        )
        self.sweeper = Sweeper(store, definitions, pulse, reports=reports, interval=parse_duration(sweep_every).total_seconds())
        self.lookout = Lookout(
            store,
            alert_rules,
            # Who only works off what is there is gone before anybody could see it.
            presence=None if drain else self._presence,
            jobs_for=jobs_for_alerts or no_jobs,
        )
        if alert_rules is not None:
            alert_rules.check_types(definitions.names())
        keeping = Keeping(retention or Retention(), definitions.names())
        self.pruner = Pruner(store, keeping, interval=parse_duration(prune_every).total_seconds())
        self._strange_queues = strange_queues(keeping.retention, (one.queue for one in definitions))
        self.scheduler = Scheduler(store, definitions, periodic, limits=self._queue_limits, clock=clock, chance=chance)
        self._stopping = Stopping(self.slots, self.producer, grace=None if grace is None else parse_duration(grace).total_seconds())

        def loop(duty: Any, **options: Any) -> Loop:
            return Loop(duty, chance=chance, on_error=lambda error: pulse.fail(), **options)

        self._producing = loop(self.producer, rest=self.producer.rest)
        self._drains = drain
        self._sweeping = loop(self.sweeper, jitter=0.1)
        self._scheduling = loop(self.scheduler)
        # Not with everything else: a worker that starts needs enough connections as it is. A drain looks before it begins.
        self._looking_out = loop(self.lookout, jitter=0.1, first_pause=LOOKS_EVERY.total_seconds() if drain else chance.uniform(0.5, 2.0))
        self._pruning = loop(self.pruner, jitter=0.1, first_pause=chance.uniform(0.5, 5.0))
        # A heartbeat that backed off for longer than its interval would lose every lease for one short failure.
        self._watching_deadlines = loop(self.deadlines, longest_back_off=1.0)
        self.watching = [loop(self.heartbeat, longest_back_off=pulse.interval), self._watching_deadlines]

    # -- start -----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Work in background threads and return at once."""
        self._thread = threading.Thread(target=self.run, name="onward-producer", daemon=True)
        self._thread.start()

    def run(self) -> int:
        """Work in this thread until stopped. Gives the exit code: 0, or 75 when only a new process can help.

        In the main thread Ctrl-C asks to stop; a second one quits at once, gives the jobs back, and raises ``KeyboardInterrupt``.
        """
        queues = ", ".join(self._queues) or "every queue"
        logger.info("worker %s serves %s of %s with %d slots", self.name, queues, self._store.url, self._concurrency)
        for line in self._strange_queues:
            logger.warning("%s", line)
        if self._lacks_application:
            warn_of_isolated_here(self._definitions, self._queues)
        try:
            self._serve()
        except KeyboardInterrupt:
            # Raised again once all is given back: whoever called must hear of it.
            with _deaf_to_ctrl_c():
                logger.warning("second Ctrl-C: quitting at once, running jobs are given back")
                self.producer.doubt()
                self.ask_to_stop(grace=0)
                self._wind_down()
            raise KeyboardInterrupt from None
        return self.exit_code

    # -- stop ------------------------------------------------------------------------------------------------------

    @property
    def is_stopping(self) -> bool:
        return self._stopping.was_asked

    def ask_to_stop(self, grace: Duration | None = None) -> None:
        """Claim no more, and end within the grace; a second call can only shorten it. Returns at once."""
        self._stopping.ask(None if grace is None else parse_duration(grace).total_seconds())
        self._producing.stop()
        self.producer.ask_to_stop()
        self.slots.ask_to_stop()

    def stop(self, grace: Duration | None = None) -> int:
        """Ask to stop and wait for the end. Gives the exit code."""
        self.ask_to_stop(grace)
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        return self.exit_code

    def wait_until_idle(self, seconds: float = 30.0) -> bool:
        """Wait until everything that was due when this was called has been worked off. Says whether that happened in time."""
        return self.producer.wait_until_idle(seconds)

    def _serve(self) -> None:
        """Work, and wind down whatever ends that. Raises ``KeyboardInterrupt`` for the second Ctrl-C, wherever it falls."""
        try:
            for loop in (*self.watching, self._pruning, self._looking_out):
                loop.start()
            if self._reconcilers:
                threading.Thread(target=self._reconcile, name="onward-reconcile", daemon=True).start()
            if self._drains:
                # What a dead worker held is due only once it is taken back, and a drain may be over before another thread has done that.
                self._sweeping.step()
                self._looking_out.step()
            if self._drains or self._queue_limits:
                # The first claim of all must know the limits of its queues.
                self._scheduling.step()
            self._sweeping.start()
            self._scheduling.start()
            self._producing.run()
        except KeyboardInterrupt:
            logger.info("Ctrl-C: no new jobs, running ones may end within the grace; press it again to quit at once")
            self.producer.doubt()
        except BaseException:
            self._wind_down()
            raise
        self._wind_down()

    def _wind_down(self) -> None:
        began = time.monotonic()
        for loop in (self._sweeping, self._pruning, self._scheduling, self._looking_out):
            loop.stop()
        self.ask_to_stop()
        # It takes no more jobs from here on. Beside the rest and within the grace: a store that does not answer must not hold up the end.
        leaving = threading.Thread(target=self.lookout.leave, name="onward-leave", daemon=True)
        leaving.start()
        self.was_clean = self._stopping.run()
        leaving.join(min(self._stopping.left, LONGEST_LAST_SWEEP))
        self._sweeping.join(min(self._stopping.left, LONGEST_LAST_SWEEP))
        if self.ran_out:
            self._look_at_last()
        for loop in self.watching:
            loop.stop()
        self.slots.close()
        took = format_duration(timedelta(seconds=round(time.monotonic() - began, 1)))
        logger.info(
            "worker %s stopped, which took %s%s", self.name, took, "" if self.was_clean else "; handlers that did not end were given up"
        )
        self.finished.set()

    # -- called by the parts -----------------------------------------------------------------------------------------

    def _ring(self) -> None:
        self.producer.ring()
        self._stopping.ring()

    def _run_out(self) -> None:
        self.ran_out = True
        self.ask_to_stop()

    def _presence(self) -> Presence:
        types = tuple(sorted(self._definitions.leases()))
        return Presence(lease_owner=self.lease_owner, name=self.name, queues=self._queues, types=types, concurrency=self._concurrency)

    def _look_at_unknown(self) -> None:
        if self.sweeper.note_set_aside():
            self._sweeping.wake()

    def _look_at_last(self) -> None:
        try:
            self.sweeper.look_at_last()
        except StoreError as error:
            logger.warning("which jobs are left behind was not found out: %s", error)

    def _give_up(self) -> None:
        if self._must_end_when_stuck:
            self.exit_code = EXIT_STUCK
            self.ask_to_stop()
        else:
            logger.critical("this worker has no supervisor that could replace its process: restart the program")
            # It takes no more jobs, so nobody should count on it.
            threading.Thread(target=self.lookout.leave, name="onward-leave", daemon=True).start()

    def _reconcile(self) -> None:
        for reconciler in self._reconcilers:
            try:
                swept = reconciler.sweep(self._store)
                found = reconciler.reconcile(self._store)
            except Exception:
                logger.exception("reconciling %s failed", reconciler.name)
                continue
            for leftover in swept:
                logger.info("reconcile %s: removed the leftover %s", reconciler.name, leftover)
            for line in found.discrepancies:
                logger.warning("reconcile %s: %s", reconciler.name, line)


@contextmanager
def _deaf_to_ctrl_c() -> Iterator[None]:
    """For the last second of a program that its user has told to end, twice. Only the main thread ever hears it."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _check_count(what: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidDefinition(f"{what} must be a whole number from 1, not {value!r}")
