"""What the machine has found, each as a test of its own."""

from __future__ import annotations

from datetime import timedelta

from onward.driver import Store
from onward.testing.conformance.steps import demand
from onward.testing.factories import make_new_job
from onward.turn import Claim
from tests.state_machine.lockstep import Lockstep
from tests.state_machine.stores import Place, SharedClock


def test_a_confirmed_claim_has_touched_its_row(everywhere: list[Place], clock: SharedClock) -> None:
    """Databases write the row to hold it; memory left ``updated_at`` as it was."""
    together = Lockstep(everywhere, clock)
    asked = make_new_job()
    together.each("enqueue", lambda store: store.enqueue([asked]))
    (taken,) = together.each("turn", lambda store: store.turn(demand=demand())).claims
    clock.fake.advance(timedelta(seconds=1))

    def confirm(store: Store, claim: Claim = taken) -> None:
        with store.transaction() as connection:
            store.within(connection).confirm(claim)

    together.each("confirm", confirm)
    together.look()
    assert together.jobs[asked.id].updated_at == clock.now()
