"""Error reports for tests."""

import time

import msgspec

from shared.edges.reporter import new_report_id
from shared.failures import ErrorReport, Fault, ReportCategory, Severity


def a_report(**changes: object) -> ErrorReport:
    """A report of now that needs an operator, with a few facts, and the given changes."""
    report = ErrorReport(
        id=new_report_id(),
        created_ms=time.time_ns() // 1_000_000,
        severity=Severity.ERROR,
        category=ReportCategory.API_ERROR,
        error_type="invalid_key",
        stage="stream",
        fault=Fault.CONFIG,
        message="the key was refused",
        turn_id="m1001",
        attempt=1,
        guild_id=1101,
        channel_id=1201,
        user_id=1301,
        provider="openai",
        model="gpt-5",
        http_status=401,
        key_id="a1b2c3d4e5f6",
        worker_id="worker-1",
        worker_version="0.1.0",
        metadata={"roles": ["user"], "chunks": None},
    )
    return msgspec.structs.replace(report, **changes)
