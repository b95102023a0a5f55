"""The reporter: every report leaves a line, and reaches the stream or the disk, whatever fails."""

import asyncio
import json
import logging
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from shared.edges.reporter import (
    ENTRY_BYTES,
    STACK_CHARS,
    Reporter,
    new_report_id,
    tidied,
)
from shared.edges.spool import Spool, lines_of
from shared.failures import SNIPPET_CHARS, ErrorReport, Fault, ReportCategory, Severity
from shared.secrets import Secret
from shared.wire import decode_report, encode_json


def a_report(**changes: object) -> ErrorReport:
    report = ErrorReport(
        id=new_report_id(),
        created_ms=1,
        severity=Severity.ERROR,
        category=ReportCategory.API_ERROR,
        error_type="invalid_key",
        stage="stream",
        fault=Fault.CONFIG,
        message="no",
    )
    return msgspec.structs.replace(report, **changes)


class Stream:
    """A stream that can be away, or slow."""

    def __init__(self) -> None:
        self.payloads: list[bytes] = []
        self.is_away = False
        self.hold: asyncio.Event | None = None
        self.begun = asyncio.Event()

    async def send(self, payload: bytes) -> None:
        self.begun.set()
        if self.is_away:
            raise ConnectionError("away")
        if self.hold is not None:
            await self.hold.wait()
        self.payloads.append(payload)

    @property
    def ids(self) -> list[str]:
        return [decode_report(payload).id for payload in self.payloads]


@pytest.fixture
def stream() -> Stream:
    return Stream()


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    spool = Spool(tmp_path / "spool", "p")
    yield spool
    spool.close()


@pytest.fixture
def reporter(stream: Stream, spool: Spool) -> Reporter:
    return Reporter(stream.send, spool, secrets=[Secret("process-secret-1")])


def spooled(spool: Spool) -> list[ErrorReport]:
    return [decode_report(line) for path in spool.take() for line in lines_of(path)]


async def test_a_report_is_logged_and_sent(
    reporter: Reporter, stream: Stream, caplog: pytest.LogCaptureFixture
):
    report = a_report(turn_id="m1")
    await reporter.report(report)
    assert decode_report(stream.payloads[0]) == report
    (record,) = caplog.records
    assert (record.name, record.levelno, record.message) == (
        "turnfleet.errors",
        logging.ERROR,
        "failure.reported",
    )
    assert record.__dict__["fields"]["turn_id"] == "m1"
    assert "guild_id" not in record.__dict__["fields"]


async def test_an_expected_failure_is_a_warning_of_the_diagnostics(
    reporter: Reporter, stream: Stream, caplog: pytest.LogCaptureFixture
):
    await reporter.report(a_report(severity=Severity.WARNING))
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("turnfleet.diagnostics", logging.WARNING)
    assert len(stream.payloads) == 1


async def test_a_stream_that_is_away_spools_and_is_caught_up(
    reporter: Reporter, stream: Stream, spool: Spool
):
    stream.is_away = True
    reports = [a_report() for _ in range(3)]
    for report in reports:
        await reporter.report(report)
    assert spooled(spool) == reports
    with pytest.raises(ConnectionError):
        await reporter.resend()
    stream.is_away = False
    assert await reporter.resend() == 3
    assert stream.ids == [report.id for report in reports]
    assert await reporter.resend() == 0
    assert reporter.lost == 0


async def test_a_slow_stream_holds_a_turn_no_longer_than_the_limit(stream: Stream, spool: Spool):
    stream.hold = asyncio.Event()
    reporter = Reporter(stream.send, spool, send_limit_s=0.01)
    async with asyncio.timeout(5):
        await reporter.report(a_report())
    assert len(spooled(spool)) == 1


@pytest.mark.parametrize("is_being_sent", [False, True], ids=["while_redacted", "while_sent"])
async def test_a_cancelled_report_is_in_the_spool(
    is_being_sent: bool, reporter: Reporter, stream: Stream, spool: Spool
):
    stream.hold = asyncio.Event()
    task = asyncio.create_task(reporter.report(a_report(id="r")), name="report")
    await asyncio.sleep(0)
    if is_being_sent:
        await stream.begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [report.id for report in spooled(spool)] == ["r"]


async def test_the_background_sends_what_dead_processes_left(
    reporter: Reporter, stream: Stream, tmp_path: Path
):
    (tmp_path / "spool").mkdir()
    (tmp_path / "spool" / "dead.000001.ndjson").write_bytes(encode_json(a_report(id="d")) + b"\n")
    task = asyncio.create_task(reporter.run(), name="run")
    async with asyncio.timeout(5):
        while not stream.payloads:
            await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert stream.ids == ["d"]


async def test_the_background_waits_while_the_stream_is_away_and_then_sends(
    stream: Stream, spool: Spool, caplog: pytest.LogCaptureFixture
):
    stream.is_away = True
    reporter = Reporter(stream.send, spool, resend_every_s=0.01)
    task = asyncio.create_task(reporter.run(), name="run")
    await reporter.report(a_report(id="late"))
    await asyncio.sleep(0.05)
    stream.is_away = False
    async with asyncio.timeout(5):
        while not stream.payloads:
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert stream.ids == ["late"]
    assert "reporter.resent" in caplog.messages


async def test_without_stream_and_disk_the_loss_is_counted_and_said_once(
    stream: Stream, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    stream.is_away = True
    reporter = Reporter(stream.send, Spool(tmp_path / "file", "p"))
    for _ in range(5):
        await reporter.report(a_report())
    assert reporter.lost == 5
    assert capsys.readouterr().err.count("could not be kept") == 1


async def test_a_report_that_cannot_be_encoded_harms_nobody(reporter: Reporter, stream: Stream):
    await reporter.report(a_report(created_ms=object()))
    assert stream.payloads == []
    assert reporter.lost == 1


def test_a_crash_is_kept_on_the_disk(reporter: Reporter, spool: Spool):
    try:
        raise RuntimeError("process-secret-1 broke")
    except RuntimeError as exc:
        reporter.crashed(exc, "main")
    (report,) = spooled(spool)
    assert report.category is ReportCategory.INTERNAL
    assert report.message == "RuntimeError: [redacted:key] broke"
    assert "raise RuntimeError" in str(report.stack_trace)


@pytest.mark.parametrize(
    "secret_in",
    [
        pytest.param(lambda text: a_report(message=text), id="message"),
        pytest.param(lambda text: a_report(stack_trace=text), id="stack"),
        pytest.param(lambda text: a_report(provider_code=text), id="code"),
        pytest.param(lambda text: a_report(metadata={"a": [{"b": text}]}), id="metadata_value"),
        pytest.param(lambda text: a_report(metadata={text: 1}), id="metadata_key"),
    ],
)
async def test_secrets_of_attempt_and_process_leave_nowhere(
    secret_in: Callable[[str], ErrorReport],
    reporter: Reporter,
    stream: Stream,
    caplog: pytest.LogCaptureFixture,
):
    await reporter.report(
        secret_in("x attempt-secret-2 y process-secret-1 z"), ["attempt-secret-2"]
    )
    seen = stream.payloads[0].decode() + json.dumps(
        [record.__dict__["fields"] for record in caplog.records], default=str
    )
    assert "secret-" not in seen
    assert "[redacted:key]" in seen


def test_redaction_comes_before_the_cut_and_is_counted():
    key = "sk-ant-api03-" + "A1b2" * 20
    text = "x" * (SNIPPET_CHARS - 10) + " " + key
    tidy = tidied(a_report(message=text), [])
    assert len(tidy.message) <= SNIPPET_CHARS
    assert "sk-ant" not in tidy.message
    assert tidy.metadata["redactions"] == {"provider-key": 1}


def test_the_end_of_a_long_stack_is_kept():
    tidy = tidied(a_report(stack_trace="frame\n" * 200_000 + "ValueError: here"), [])
    assert tidy.stack_trace is not None
    assert tidy.stack_trace.endswith("ValueError: here")
    assert len(tidy.stack_trace) <= STACK_CHARS


@pytest.mark.parametrize(
    "report",
    [
        pytest.param(a_report(metadata={"k": "m" * 60_000}), id="metadata"),
        pytest.param(a_report(stack_trace="語" * 60_000), id="wide_stack"),
        pytest.param(a_report(stack_trace="語" * 60_000, metadata={"k": "m" * 60_000}), id="both"),
        pytest.param(a_report(message="\0" * 5_000, model="m" * 90_000), id="words"),
    ],
)
def test_an_entry_is_bounded(report: ErrorReport):
    payload = encode_json(tidied(report, []))
    assert len(payload) <= ENTRY_BYTES
    assert decode_report(payload).id == report.id


def test_what_no_store_takes_is_cleaned():
    tidy = tidied(a_report(message="a\0b\ud800", metadata={"k\0": "\udfff"}), [])
    assert "\0" not in encode_json(tidy).decode()


def test_ids_sort_by_time_and_are_version_7():
    ids = [new_report_id() for _ in range(100)]
    assert len(set(ids)) == 100
    assert {uuid.UUID(one).version for one in ids} == {7}
    assert {uuid.UUID(one).variant for one in ids} == {uuid.RFC_4122}
    assert sorted(one[:13] for one in ids) == [one[:13] for one in ids]
