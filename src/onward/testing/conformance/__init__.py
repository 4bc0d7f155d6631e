"""The suite that says what a store is. A backend is right when this passes over it.

In the tests of a driver, two fixtures and one import::

    import pytest
    from onward.testing import FakeClock
    from onward.testing.conformance import *  # noqa: F403

    @pytest.fixture
    def clock():
        return FakeClock()

    @pytest.fixture
    def store(clock):
        store = MyStore(..., clock=clock)      # empty, and seen by no other test
        yield store
        store.close()

Two more fixtures are asked for where they make sense:

- ``reopen``: a function that gives another store object over the same data, as another process would have it. Needed when
  ``capabilities.survives_process``.
- ``raw``: a function ``raw(job_id, column, value)`` that writes into a stored row behind the store's back, for the tests of damaged
  rows. Left out, those are skipped.

Time is the fake clock's, so the store must read ``clock`` for every instant (or take its offset); nothing here sleeps. Where stores may
differ, the tests ask ``store.capabilities``, never a name.
"""

import pytest

_PARTS = (
    "actions alerts arrows asked attempts blocked breakers breakers_by_hand cancel claim damage edges ending enqueue failures "
    "inspect lease limits lookout many many_keys metrics neighbours paused periodic prune queue_limits retried_key rollups "
    "serial sweep transaction unique written"
)
pytest.register_assert_rewrite(*(f"{__name__}.{part}" for part in _PARTS.split()))

from onward.testing.conformance.actions import TestActions, TestActionsOnQueues  # noqa: E402
from onward.testing.conformance.alerts import TestAlerts  # noqa: E402
from onward.testing.conformance.arrows import TestArrows, TestArrowsOfAPerson, TestEndingTwice  # noqa: E402
from onward.testing.conformance.asked import TestAskedToCancel, TestEndingInFull, TestTooLate  # noqa: E402
from onward.testing.conformance.attempts import TestAttempts  # noqa: E402
from onward.testing.conformance.blocked import TestUnknownTypes  # noqa: E402
from onward.testing.conformance.breakers import TestBreakerOpens, TestBreakerTries  # noqa: E402
from onward.testing.conformance.breakers_by_hand import TestBreakerByHand, TestIdleKeys  # noqa: E402
from onward.testing.conformance.cancel import TestCancel, TestDelete, TestOwner, TestRetry, TestRunNow  # noqa: E402
from onward.testing.conformance.claim import TestClaim, TestDue, TestExpiry, TestOrder  # noqa: E402
from onward.testing.conformance.damage import TestBadRows, TestClose, TestUnknownCommit, TestUnstorable, TestWake, damage  # noqa: E402
from onward.testing.conformance.edges import TestMoments, TestOrders, TestSetAside  # noqa: E402
from onward.testing.conformance.ending import TestChildren, TestEnding, TestHistory  # noqa: E402
from onward.testing.conformance.enqueue import TestEnqueue, TestEnqueueAgain, TestForeignId, TestRequests  # noqa: E402
from onward.testing.conformance.failures import TestDeadLetters, TestFailureGroups  # noqa: E402
from onward.testing.conformance.inspect import TestFind, TestQuestions  # noqa: E402
from onward.testing.conformance.lease import TestLease, TestLostLease, TestManyLost  # noqa: E402
from onward.testing.conformance.limits import TestConcurrencyOfAKey, TestRateOfAKey  # noqa: E402
from onward.testing.conformance.lookout import TestJudge, TestLookOut, TestTakeLook, TestTellByJob, TestWorkers  # noqa: E402
from onward.testing.conformance.many import TestAct, TestActAsAlone  # noqa: E402
from onward.testing.conformance.many_keys import TestManyKeys  # noqa: E402
from onward.testing.conformance.metrics import TestBacklog, TestDueBefore, TestStarved, TestTotals  # noqa: E402
from onward.testing.conformance.neighbours import TestEnded, TestNeighbours  # noqa: E402
from onward.testing.conformance.paused import TestPause, TestQueues  # noqa: E402
from onward.testing.conformance.periodic import TestMomentsFired, TestPeriodic  # noqa: E402
from onward.testing.conformance.prune import TestPrune  # noqa: E402
from onward.testing.conformance.queue_limits import TestLimitOfAQueue  # noqa: E402
from onward.testing.conformance.retried_key import TestKeyOfARetry  # noqa: E402
from onward.testing.conformance.rollups import TestMergedRollups, TestRollups  # noqa: E402
from onward.testing.conformance.serial import TestSerialOrder, TestWhoIsAhead  # noqa: E402
from onward.testing.conformance.sweep import TestRecover, TestSweep  # noqa: E402
from onward.testing.conformance.transaction import TestEffectOnce, TestTransaction, TestTransactionOpen, TestTransactionTooLong  # noqa: E402
from onward.testing.conformance.unique import TestDuplicates, TestHolder, TestScopeActive, TestScopeInTime  # noqa: E402
from onward.testing.conformance.written import TestWritten  # noqa: E402

__all__ = [
    "TestAct",
    "TestActAsAlone",
    "TestActions",
    "TestActionsOnQueues",
    "TestAlerts",
    "TestArrows",
    "TestArrowsOfAPerson",
    "TestAskedToCancel",
    "TestAttempts",
    "TestBacklog",
    "TestBadRows",
    "TestBreakerByHand",
    "TestBreakerOpens",
    "TestBreakerTries",
    "TestCancel",
    "TestChildren",
    "TestClaim",
    "TestClose",
    "TestConcurrencyOfAKey",
    "TestDeadLetters",
    "TestDelete",
    "TestDue",
    "TestDueBefore",
    "TestDuplicates",
    "TestEffectOnce",
    "TestEnded",
    "TestEnding",
    "TestEndingInFull",
    "TestEndingTwice",
    "TestEnqueue",
    "TestEnqueueAgain",
    "TestExpiry",
    "TestFailureGroups",
    "TestFind",
    "TestForeignId",
    "TestHistory",
    "TestHolder",
    "TestIdleKeys",
    "TestJudge",
    "TestKeyOfARetry",
    "TestLease",
    "TestLimitOfAQueue",
    "TestLookOut",
    "TestLostLease",
    "TestManyKeys",
    "TestManyLost",
    "TestMergedRollups",
    "TestMoments",
    "TestMomentsFired",
    "TestNeighbours",
    "TestOrder",
    "TestOrders",
    "TestOwner",
    "TestPause",
    "TestPeriodic",
    "TestPrune",
    "TestQuestions",
    "TestQueues",
    "TestRateOfAKey",
    "TestRecover",
    "TestRequests",
    "TestRetry",
    "TestRollups",
    "TestRunNow",
    "TestScopeActive",
    "TestScopeInTime",
    "TestSerialOrder",
    "TestSetAside",
    "TestStarved",
    "TestSweep",
    "TestTakeLook",
    "TestTellByJob",
    "TestTooLate",
    "TestTotals",
    "TestTransaction",
    "TestTransactionOpen",
    "TestTransactionTooLong",
    "TestUnknownCommit",
    "TestUnknownTypes",
    "TestUnstorable",
    "TestWake",
    "TestWhoIsAhead",
    "TestWorkers",
    "TestWritten",
    "damage",
]
