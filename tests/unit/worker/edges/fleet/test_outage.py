import logging

import pytest

from worker.edges.fleet.outage import Outage


def test_an_outage_is_two_lines_however_long_it_lasts(caplog: pytest.LogCaptureFixture):
    outage = Outage()
    with caplog.at_level(logging.INFO):
        outage.ended()
        for _ in range(100):
            outage.began(TimeoutError())
        assert outage.is_on
        for _ in range(100):
            outage.ended()
    assert [record.message for record in caplog.records] == ["redis.away", "redis.back"]
    assert not outage.is_on
