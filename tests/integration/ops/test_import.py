"""`errors import`: spools, overflows and logs back into the database, each line once."""

import io
import json
import logging
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ops.cli.exits import Exit
from ops.store.lines import record_of
from ops.store.overflow import Overflow
from shared.config import Settings
from shared.edges.reporter import write_line
from shared.errors import WireError
from shared.failures import ErrorReport, Severity
from shared.logs import start_logs
from shared.summaries import TurnSummary
from shared.turns import TurnState
from shared.wire import encode_json
from tests.support.cli import Command
from tests.support.reports import a_report

HOSTILE = "\x1b[31m =cmd() \u202e \ud800 " + "x" * 1_500


@pytest.fixture
def turnfleet(empty_url: str, tmp_path: Path) -> Command:
    return Command(tmp_path, {"database_url": empty_url})


def logged(*reports: ErrorReport) -> bytes:
    """The lines that a process writes for these reports, and one about something else."""
    stream = io.BytesIO()
    logs = start_logs("worker", Settings(), stream=stream)
    for report in reports:
        write_line(report)
    logging.getLogger("x").warning("worker.started")
    logs.close()
    return stream.getvalue()


def summary() -> TurnSummary:
    return TurnSummary(
        turn_id="m1",
        attempt=1,
        ended_ms=time.time_ns() // 1_000_000,
        state=TurnState.DONE,
        user_id=1,
        channel_id=2,
        provider="openai",
        model="gpt-5",
    )


def test_each_kind_of_line_is_imported_once(turnfleet: Command, tmp_path: Path):
    reports = [a_report(), a_report(severity=Severity.WARNING), a_report(message=HOSTILE)]
    log = tmp_path / "worker.log"
    log.write_bytes(logged(*reports) + b"\n")
    spool = tmp_path / "p.000001.ndjson"
    spool.write_bytes(b"".join(encode_json(one) + b"\n" for one in [reports[0], a_report()]))
    overflow = Overflow(tmp_path / "o").keep([encode_json(summary()), encode_json(a_report())])
    files = (str(log), str(spool), str(overflow))
    for new in (4, 0):
        result = turnfleet("errors", "import", *files, "-o", "json")
        assert result.exit_code == 0, result.stderr
        told = {"records": 7, "new": new, "bad": 0, "others": 1, "old": 0}
        assert json.loads(result.stdout) == told
    rows = json.loads(turnfleet("errors", "list", "-o", "json").stdout)
    assert {row["id"] for row in rows} >= {reports[0].id, reports[2].id}
    (cost,) = json.loads(turnfleet("usage", "-o", "json").stdout)
    assert cost["turns"] == 1


def test_lines_that_are_none_are_counted_and_the_others_stored(turnfleet: Command):
    bad = [b"no json", b"[]", b'{"id":1}', encode_json(a_report(guild_id=2**63)), b"\xff\xfe"]
    lines = b"\n".join([*bad, encode_json(a_report()), b'{"id":"cut'])
    result = turnfleet("errors", "import", "-o", "json", stdin=lines.decode("latin-1"))
    assert result.exit_code == Exit.FAILED
    assert json.loads(result.stdout)["new"] == 1
    assert json.loads(result.stdout)["bad"] == 6


def test_what_is_days_old_keeps_its_time(turnfleet: Command, tmp_path: Path):
    then = datetime.now(UTC) - timedelta(days=5)
    path = tmp_path / "old.ndjson"
    path.write_bytes(encode_json(a_report(created_ms=int(then.timestamp() * 1000))))
    assert turnfleet("errors", "import", str(path)).exit_code == 0
    (row,) = json.loads(turnfleet("errors", "list", "--since", "7d", "-o", "json").stdout)
    assert row["created_at"][:16] == then.isoformat()[:16]


def test_a_collected_log_raises_no_alarm(turnfleet: Command, tmp_path: Path):
    """A dozen at once would be a spike, if they were of now."""
    now_ms = time.time_ns() // 1_000_000
    reports = [
        a_report(created_ms=now_ms - days * 86_400_000) for days in (35, 85, 401) for _ in range(12)
    ]
    path = tmp_path / "old.ndjson"
    path.write_bytes(b"\n".join(encode_json(one) for one in reports))
    result = turnfleet("errors", "import", str(path), "-o", "json")
    assert (result.exit_code, "older than 400 days" in result.stderr) == (Exit.FAILED, True)
    told = {"records": 24, "new": 24, "bad": 0, "others": 0, "old": 12}
    assert json.loads(result.stdout) == told
    assert turnfleet("errors", "spikes").exit_code == 0
    assert json.loads(turnfleet("errors", "list", "-o", "json").stdout) == []


def test_a_file_that_is_not_there_is_said(turnfleet: Command):
    assert turnfleet("errors", "import", "/nowhere.ndjson").exit_code == Exit.BAD_INPUT


DEEP = b"[" * 5_000 + b"]" * 5_000


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{",
        b"{}",
        b'"x"',
        b'{"msg":1}',
        pytest.param(b'{"new":' + DEEP + b"}", id="too_deep"),
        pytest.param(b'{"msg":"failure.reported","metadata":{"x":' + DEEP + b"}}", id="deep_log"),
    ],
)
def test_no_line_raises_anything_else(line: bytes):
    with pytest.raises(WireError):
        record_of(line)
