"""What is stored of a run, whichever way it is stored: in a worker's turn, or in the handler's own transaction."""

from __future__ import annotations

import logging
from typing import Any

from onward.breaker import Breaker, Failure, RunEnding
from onward.context import JobContext
from onward.definition import JobDefinition
from onward.error_text import name_of
from onward.outcome import Completed, DeadLettered, Outcome
from onward.turn import Claim, Settlement

logger = logging.getLogger("onward.worker")


def settlement_of(
    claim: Claim,
    definition: JobDefinition[Any],
    context: JobContext,
    outcome: Outcome,
    seconds: float | None = None,
    failure: Failure | None = None,
) -> Settlement:
    """Put together an outcome and what the handler left in its context; children only go with a completion.

    ``failure`` is how the run failed, for its breaker.
    """
    breaker = definition.constraints.breaker
    return Settlement(
        claim=claim,
        outcome=outcome,
        children=tuple(context.children) if isinstance(outcome, Completed) else (),
        progress=context.reported,
        processed=context.processed,
        failed=context.failed,
        seconds=seconds,
        keeps_history=definition.keeps_history,
        breaker=None if breaker is None else breaker.policy,
        run_ending="other" if breaker is None else _run_ending(breaker, outcome, failure),
    )


def _run_ending(breaker: Breaker[Any], outcome: Outcome, failure: Failure | None) -> RunEnding:
    if isinstance(outcome, Completed):
        return "success"
    return "failure" if failure in breaker.counts else "other"


def unconcluded(claim: Claim, error: BaseException) -> Settlement:
    """Give an end to a run of which nothing else can be said."""
    logger.error("the run of job %s could not be concluded: %s", claim.id, name_of(error))
    return Settlement(claim=claim, outcome=DeadLettered("the run could not be concluded"))
