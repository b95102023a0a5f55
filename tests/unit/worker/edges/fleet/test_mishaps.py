from shared.causes import Cause
from shared.edges.queue import TurnFacts
from shared.edges.records import TurnRecord
from shared.failures import ReportCategory, Severity
from shared.turns import CredentialSource, Front, Route, TurnState
from worker.edges.fleet.mishaps import Mishap, report_of

MISHAP = Mishap(
    cause=Cause.WORKER_LOST, turn_id="l1", reason="its worker went silent", became="queued"
)
RECORD = TurnRecord(
    turn_id="l1",
    state=TurnState.QUEUED,
    attempt=2,
    claim="0badcafe",
    seq=3,
    crashes=1,
    worker_id="w0",
    is_stopping=False,
    enqueued_ms=1,
    claimed_ms=2,
    finished_ms=None,
    route=Route(front=Front.LOCAL, channel_id=1, user_id=2, guild_id=3),
    facts=TurnFacts(provider="p", model="m", credential_source=CredentialSource.PERSONAL),
)


def test_a_report_has_what_is_known_of_the_turn():
    report = report_of(MISHAP, RECORD, report_id="r1", now_ms=9, worker_id="w1")
    assert (report.error_type, report.severity) == ("worker_lost", Severity.ERROR)
    assert report.retryable
    assert (report.turn_id, report.attempt, report.segments_sent) == ("l1", 2, 3)
    assert (report.guild_id, report.channel_id, report.user_id) == (3, 1, 2)
    assert (report.provider, report.model) == ("p", "m")
    assert report.credential_source is CredentialSource.PERSONAL
    assert report.metadata == {"became": "queued", "crashes": 1, "held_by": "w0"}


def test_a_report_is_written_without_a_record_too():
    report = report_of(MISHAP, None, report_id="r1", now_ms=9, worker_id="w1")
    assert (report.turn_id, report.worker_id, report.attempt) == ("l1", "w1", None)
    assert report.metadata == {"became": "queued"}


def test_a_turn_that_nobody_took_is_the_queues_failure():
    mishap = Mishap(cause=Cause.REQUEST_TIMEOUT, turn_id="l1", reason="...", became="expired")
    report = report_of(mishap, RECORD, report_id="r1", now_ms=9, worker_id="w1")
    assert (report.category, report.severity) == (ReportCategory.QUEUE, Severity.ERROR)
    assert report.retryable
