"""Faults planted into the protocol, each of which the search must find. The first line of each says what is wrong, or what it costs."""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from onward.outcome import Ending, Outcome, Released, Retried, Snoozed
from onward.status import Status
from tests.model.rules import FAILED, PERMANENT, RELEASED, RETURNED, SNOOZED, Rules
from tests.model.state import CLAIMABLE, IN_PROGRESS, RETRYING, Claim, Row, Scope


class NoFenceInSettle(Rules):
    """Whoever settles a running job is believed: two runs, and the slower one wins."""

    def may_settle(self, row: Row | None, claim: Claim) -> bool:
        return row is not None and row.status == IN_PROGRESS


class SettlesWhatDoesNotRun(Rules):
    """The fence is looked at and the status is not: a job that was given back ends by its former worker."""

    def may_settle(self, row: Row | None, claim: Claim) -> bool:
        return row is not None and row.fence == claim.row.fence


class NoFenceInExtend(Rules):
    """A stale worker keeps the lease of a dead one alive, and the job is not run."""

    def may_extend(self, row: Row | None, claim: Claim) -> bool:
        return row is not None and row.status == IN_PROGRESS


class NoFenceInBeginAlone(Rules):
    """A stale worker says that a run is alone which is not, and it is blamed for what a neighbour did."""

    def may_begin_alone(self, row: Row | None, claim: Claim) -> bool:
        return row is not None and row.status == IN_PROGRESS


class NoFenceInSweep(Rules):
    """A sweep takes back what has been claimed anew since it looked."""

    def may_lose(self, row: Row | None, seen: Row) -> bool:
        return row is not None and row.status == IN_PROGRESS


class SweepsWhatWasRenewed(Rules):
    """A sweep takes back a claim whose lease was renewed since it looked, and forgets that it began alone."""

    def may_lose(self, row: Row | None, seen: Row) -> bool:
        return row is not None and row.status == IN_PROGRESS and row.fence == seen.fence


class LosesWithoutLocking(Rules):
    """A recovery reads its rows without a lock, and a person who asks for the end in between is not heard."""

    def may_lose(self, row: Row | None, seen: Row) -> bool:
        return row is not None and row.status == IN_PROGRESS and (row.fence, row.lease) == (seen.fence, seen.lease)


class SweepResetsFence(Rules):
    """A claim is known by owner and attempt alone, and a loss gives the attempt back: two claims have the same name."""

    def fence_after_loss(self, row: Row) -> int:
        return row.fence - 1


class ReleasesWithoutEnd(Rules):
    """A job that takes longer than the grace of every worker is given back for ever."""

    def outcome(self, claim: Claim, ending: str) -> Outcome:
        return Released() if ending == RELEASED else super().outcome(claim, ending)


class SnoozesWithoutEnd(Rules):
    """A job that always asks for later never ends."""

    def outcome(self, claim: Claim, ending: str) -> Outcome:
        return Snoozed(super().outcome(_fresh(claim), SNOOZED).delay) if ending == SNOOZED else super().outcome(claim, ending)  # type: ignore[union-attr]


class CountsOnFailureOnly(Rules):
    """A try counts when it has failed: a handler that kills its process runs for ever."""

    def claimed(self, row: Row, process: int, past_due: int) -> Row:
        return super().claimed(row, process, past_due)._replace(attempts=row.attempts)

    def settled(self, row: Row, claim: Claim, outcome: Outcome) -> Ending:
        written = super().settled(row, claim, outcome)
        return replace(written, attempts=written.attempts + isinstance(outcome, Retried))


class GivesEveryLossBack(Rules):
    """A loss never counts, not even where the handler ran alone."""

    def lost(self, seen: Row, why: str) -> Ending:
        return super().lost(seen._replace(ran_isolated=False, lost=0), why)


class ChargesNeighbours(Rules):
    """Every loss counts: a job dies for what its neighbour did."""

    def lost(self, seen: Row, why: str) -> Ending:
        return super().lost(seen._replace(ran_isolated=True), why)


class BlamesTheIsolated(Rules):
    """A loss counts for every isolated job, also for one that was still waiting for its process."""

    def lost(self, seen: Row, why: str) -> Ending:
        return super().lost(seen._replace(ran_isolated=seen.isolated), why)


class RemembersThatItRanAlone(Rules):
    """A claim does not clear what the one before has said."""

    def claimed(self, row: Row, process: int, past_due: int) -> Row:
        return super().claimed(row, process, past_due)._replace(ran_isolated=row.ran_isolated)


class ClaimsTheExpired(Rules):
    """A job runs after it has expired."""

    def may_claim(self, row: Row) -> bool:
        return row.status in CLAIMABLE and row.due <= 0


class ClaimsEarly(Rules):
    """A job that waits for its back-off runs at once."""

    def may_claim(self, row: Row) -> bool:
        return row.status in CLAIMABLE and not self.has_expired(row)


class ClaimsTheCancelled(Rules):
    """A job that a person cancelled runs."""

    def may_claim(self, row: Row) -> bool:
        return (row.status in CLAIMABLE or row.status == Status.CANCELLED) and row.due <= 0 and not self.has_expired(row)


class ForgetsToCancel(Rules):
    """A job that a person asked to stop is tried again."""

    def settled(self, row: Row, claim: Claim, outcome: Outcome) -> Ending:
        return super().settled(row._replace(cancel=False), claim, outcome)


class BelievesTheStatus(Rules):
    """A repeated settlement counts as stored where the row has the status that it asks for, whoever wrote that."""

    def is_stored(self, row: Row | None, claim: Claim, outcome: Outcome) -> bool:
        return row is not None and row.status == outcome.status


class ChildrenFirst(Rules):
    """Children are enqueued before their parent has completed."""

    children_come_first = True


class FreesKeyAtRetry(Rules):
    """A job that waits for its next try does not hold its key."""

    def frees_key(self, status: str) -> bool:
        return status == RETRYING or super().frees_key(status)


class KeepsKeyForEver(Rules):
    """A job that has ended still holds its key."""

    def frees_key(self, status: str) -> bool:
        return False


class RetriesBesideItsHolder(Rules):
    """A person retries a job whose key another one holds by now."""

    def takes_key_again(self) -> bool:
        return False


class LooksBeforeItTakesTheKey(Rules):
    """A key is looked up, and taken in another transaction."""

    key_is_looked_up_first = True


class SweepsOnlyOnce(Rules):
    """A job whose claims were lost once is not taken back again: it stays in progress for ever."""

    def may_sweep(self, row: Row) -> bool:
        return super().may_sweep(row) and row.lost == 0


def _fresh(claim: Claim) -> Claim:
    return claim._replace(row=claim.row._replace(snoozes=0))


CRASH, CANCEL, TWO_STEPS = frozenset({"crash"}), frozenset({"cancel"}), frozenset({"two steps"})


class Planted(NamedTuple):
    rules: type[Rules]
    scope: Scope
    found: str
    """A piece of the sentence that the search must say."""


PLANTED = (
    Planted(NoFenceInSettle, Scope("one job"), "stale claim 1 of job 1 was accepted (complete)"),
    Planted(SettlesWhatDoesNotRun, Scope("one job"), "claim 1 of job 1 had ended (lost), and was accepted again (complete)"),
    Planted(NoFenceInExtend, Scope("one job"), "stale claim 1 of job 1 was accepted (extend)"),
    Planted(NoFenceInBeginAlone, Scope("one job", is_isolated=True), "stale claim 1 of job 1 was accepted (begin alone)"),
    Planted(NoFenceInSweep, Scope("two steps", acts=TWO_STEPS), "stale claim 1 of job 1 was accepted (lose)"),
    Planted(LosesWithoutLocking, Scope("two steps", acts=CRASH | CANCEL | TWO_STEPS), "asked job 1 to stop, and it went to queued"),
    Planted(SweepsWhatWasRenewed, Scope("two steps", is_isolated=True, acts=TWO_STEPS), "claimed 2 times: 1 tries, 0 given back"),
    Planted(SweepResetsFence, Scope("one job"), "the fence of job 1 changed from 1 to 0 by 'lose'"),
    Planted(ReleasesWithoutEnd, Scope("one job"), "job 1 was released 2 times with its try"),
    Planted(SnoozesWithoutEnd, Scope("one job", endings=(SNOOZED,)), "job 1 was snoozed 2 times"),
    Planted(CountsOnFailureOnly, Scope("one job", acts=CRASH, endings=(FAILED,)), "job 1 was claimed 2 times: 1 tries, 0 given back"),
    Planted(GivesEveryLossBack, Scope("one job", acts=CRASH), "claimed 3 times: 1 tries, 1 given back"),
    Planted(ChargesNeighbours, Scope("two jobs", jobs=2, processes=1, slots=2, has_key=False, acts=CRASH), "dead-lettered for a loss"),
    Planted(BlamesTheIsolated, Scope("one job", acts=CRASH, max_attempts=1), "dead-lettered for a loss"),
    Planted(RemembersThatItRanAlone, Scope("one job", max_attempts=2, is_isolated=True, acts=CRASH), "dead-lettered for a loss"),
    Planted(ClaimsTheExpired, Scope("expiry", expiry=1), "expiring in 0"),
    Planted(ClaimsEarly, Scope("two tries", max_attempts=2, endings=(FAILED,)), "due in 1"),
    Planted(ClaimsTheCancelled, Scope("cancel", acts=CANCEL), "no arrow leads from cancelled by 'claim'"),
    Planted(ForgetsToCancel, Scope("cancel", max_attempts=2, endings=(FAILED,), acts=CANCEL), "and it went to retrying"),
    Planted(BelievesTheStatus, Scope("one job", endings=(RETURNED,)), "told that claim 1 of job 1 is stored as completed: it ended as"),
    Planted(ChildrenFirst, Scope("child", has_child=True, has_key=False), "job 2 is there, and its parent has not completed"),
    Planted(FreesKeyAtRetry, Scope("one key", jobs=2, max_attempts=2, endings=(FAILED,)), "job 1 is live and does not hold its key"),
    Planted(KeepsKeyForEver, Scope("one key", endings=(RETURNED,)), "job 1 holds the key, and is not live"),
    Planted(RetriesBesideItsHolder, Scope("one key", jobs=2, retries=1, endings=(PERMANENT,)), "two live jobs have the same key"),
    Planted(LooksBeforeItTakesTheKey, Scope("one key", jobs=2), "two live jobs have the same key"),
    Planted(SweepsOnlyOnce, Scope("one job", acts=CRASH), "some job can never come to its end"),
)  # fmt: skip
