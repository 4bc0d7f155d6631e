"""Two workers of one application in one process: each is woken for its own queues, and neither takes the other's wake."""

from __future__ import annotations

from contextlib import closing

import pytest

from onward import Onward, define_job

PATIENCE = 20.0
mail = define_job("mail", lambda: None, queue="mail")
slow = define_job("slow", lambda: None, queue="slow")


@pytest.mark.parametrize("rounds", [10])
def test_each_is_woken_for_its_own_queue(database_url: str, rounds: int) -> None:
    """By another process, while both would sleep for an hour by themselves."""
    with closing(Onward(database_url, jobs=[mail, slow])) as app, closing(Onward(database_url, jobs=[mail, slow])) as other:
        app.store.migrate()
        workers = [app.worker(queues=[queue], poll="1h") for queue in ("mail", "slow")]
        for worker in workers:
            worker.start()
        try:
            assert all(worker.wait_until_idle(PATIENCE) for worker in workers)
            for _ in range(rounds):
                for definition in (mail, slow):
                    other.enqueue(definition).wait(timeout=PATIENCE)
        finally:
            for worker in workers:
                worker.ask_to_stop(grace=0)
            for worker in workers:
                worker.stop()
