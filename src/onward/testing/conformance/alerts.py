"""Alerts: one for each cause, listed, acknowledged, told once, and kept for a while after it is over."""

from __future__ import annotations

from datetime import timedelta

import pytest

from onward.alerts import Alert
from onward.clock import FakeClock
from onward.driver import Store
from onward.errors import AlertNotFound
from onward.ids import new_id
from onward.inspection import Retention

HOUR = timedelta(hours=1)


def opened(store: Store, *keys: str) -> list[Alert]:
    """Alerts that these breakers are open, oldest first."""
    for key in keys:
        store.open_breaker(key, HOUR)
    return [store.alert(one.alert_id or "") for one in store.breakers(keys)]


class TestAlerts:
    """What people should know of."""

    def test_open_ones_are_listed_newest_first(self, store: Store, clock: FakeClock) -> None:
        """And those that are over, where they are asked for."""
        assert store.alerts() == []
        first, second, third = opened(store, "a", "b", "c")
        store.reset_breaker("b")
        assert [one.id for one in store.alerts(is_open=True)] == [third.id, first.id]
        assert [(one.id, one.resolved_at) for one in store.alerts(is_open=False)] == [(second.id, clock.now())]
        assert [one.id for one in store.alerts()] == [third.id, second.id, first.id]
        assert [one.id for one in store.alerts(limit=1, before=third.id)] == [second.id]

    def test_one_says_what_it_is_about(self, store: Store, clock: FakeClock) -> None:
        """For people and for programs."""
        (alert,) = opened(store, "s3")
        assert (alert.category, alert.severity, alert.cause, alert.opened_at) == ("breaker_open", "warning", "breaker:s3", clock.now())
        assert "the breaker s3 was opened by hand" in alert.message
        assert (alert.acknowledged_at, alert.acknowledged_by, alert.resolved_at) == (None, None, None)

    def test_who_has_seen_it_first_stays(self, store: Store, clock: FakeClock) -> None:
        """Also when it is over."""
        (alert,) = opened(store, "s3")
        seen = store.acknowledge_alert(alert.id, actor="ada")
        assert (seen.acknowledged_at, seen.acknowledged_by) == (clock.now(), "ada")
        clock.advance(60)
        assert store.acknowledge_alert(alert.id, actor="bob") == seen == store.alert(alert.id)
        store.reset_breaker("s3")
        assert store.acknowledge_alert(alert.id, actor="bob").acknowledged_by == "ada"

    @pytest.mark.parametrize("alert_id", [new_id(), "", "a\0b", "\ud800"], ids=["unknown", "empty", "NUL", "half a character"])
    def test_one_that_never_was_is_not_found(self, store: Store, alert_id: str) -> None:
        """Whatever is asked for."""
        with pytest.raises(AlertNotFound):
            store.alert(alert_id)
        with pytest.raises(AlertNotFound):
            store.acknowledge_alert(alert_id)

    def test_each_opening_and_each_end_is_told_once(self, store: Store) -> None:
        """Whoever asks first hears of it, and tells others."""
        assert store.tell_alerts().opened == ()
        first, second = opened(store, "a", "b")
        told = store.tell_alerts()
        assert ([one.id for one in told.opened], told.resolved) == ([first.id, second.id], ())
        store.reset_breaker("a")
        (third,) = opened(store, "c")
        told = store.tell_alerts()
        assert ([one.id for one in told.opened], [one.id for one in told.resolved]) == ([third.id], [first.id])
        assert (store.tell_alerts().opened, store.tell_alerts().resolved) == ((), ())

    def test_one_that_was_over_before_anybody_was_told_is_told_whole(self, store: Store) -> None:
        """Its opening and its end."""
        (alert,) = opened(store, "a")
        store.reset_breaker("a")
        told = store.tell_alerts()
        assert ([one.id for one in told.opened], [one.id for one in told.resolved]) == ([alert.id], [alert.id])

    def test_those_that_are_over_are_pruned_after_their_retention(self, store: Store, clock: FakeClock) -> None:
        """Those that are open stay, however old."""
        stays, goes = opened(store, "a", "b")
        store.reset_breaker("b")
        clock.advance(HOUR.total_seconds())
        store.prune(Retention(alerts="2h"))
        assert len(store.alerts()) == 2
        clock.advance(HOUR.total_seconds())
        store.prune(Retention(alerts=None))
        assert len(store.alerts()) == 2
        store.prune(Retention(alerts="2h"))
        assert [one.id for one in store.alerts()] == [stays.id]
        with pytest.raises(AlertNotFound, match=goes.id):
            store.alert(goes.id)
