"""The alarm over both databases: what is new, back, or too frequent; never what is muted."""

from datetime import UTC, datetime, timedelta

import pytest

from ops.store.causes import Verdict, decide
from ops.store.engine import Database
from ops.store.errors import write_reports
from ops.triage.alarm import Alarm
from shared.alerts import Alert, AlertKind
from shared.errors import StoreUnavailable
from tests.support.reports import a_report

NOW = datetime.now(UTC)


class Raised:
    """Raises each alert once, as Redis does, or not at all."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.is_away = False

    async def send(self, alert: Alert) -> bool:
        if self.is_away:
            raise StoreUnavailable
        is_new = alert.name not in self.names
        self.names.add(alert.name)
        return is_new


async def failures(database: Database, count: int, age: timedelta, **changes: object) -> None:
    at_ms = int((NOW - age).timestamp() * 1000)
    reports = [a_report(created_ms=at_ms + number, **changes) for number in range(count)]
    await write_reports(database, reports, NOW)


async def test_a_new_cause_is_said_once_with_its_reach(database: Database):
    raised = Raised()
    alarm = Alarm(database, raised.send)
    await failures(database, 2, timedelta(minutes=1), guild_id=1)
    await failures(database, 1, timedelta(minutes=1), guild_id=2)
    (alert,) = await alarm.look(NOW)
    assert (alert.kind, alert.cause, alert.count, alert.guilds) == (
        AlertKind.NEW_CAUSE,
        "invalid_key",
        3,
        2,
    )
    assert await alarm.look(NOW) == []


async def test_a_known_cause_is_a_spike_when_it_is_much_more_frequent(database: Database):
    alarm = Alarm(database, Raised().send)
    await failures(database, 10, timedelta(hours=5))
    await failures(database, 40, timedelta(minutes=1))
    (alert,) = await alarm.look(NOW)
    assert (alert.kind, alert.count) == (AlertKind.SPIKE, 40)


async def test_a_known_cause_at_its_usual_rate_is_no_news(database: Database):
    await failures(database, 3, timedelta(hours=5))
    await failures(database, 3, timedelta(minutes=1))
    assert await Alarm(database, Raised().send).look(NOW) == []


async def test_a_muted_cause_is_never_said(database: Database):
    raised = Raised()
    await failures(database, 60, timedelta(minutes=1))
    (alert,) = await Alarm(database, raised.send).look(NOW)
    await decide(database, alert.subject, Verdict(status="muted"), NOW)
    assert await Alarm(database, Raised().send).look(NOW) == []


async def test_while_redis_is_away_nothing_is_lost(database: Database):
    raised = Raised()
    alarm = Alarm(database, raised.send)
    await failures(database, 1, timedelta(minutes=1))
    raised.is_away = True
    assert await alarm.look(NOW) == []
    raised.is_away = False
    assert len(await alarm.look(NOW)) == 1


@pytest.mark.parametrize("minutes", [11, 600])
async def test_what_is_older_than_the_window_is_no_news(database: Database, minutes: int):
    await failures(database, 1, timedelta(minutes=minutes))
    assert await Alarm(database, Raised().send).look(NOW) == []
