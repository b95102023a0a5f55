"""What leaves for Sentry: reports and nothing else, redacted, and not too many."""

import base64
import json
import subprocess
import sys
from typing import Any

import pytest
from sentry_sdk.envelope import Envelope
from sentry_sdk.transport import Transport

from shared.edges.sentry import MAX_GROUPS, PER_MINUTE, Sentry
from shared.errors import ConfigError
from shared.failures import ErrorReport, Fault, ReportCategory, Severity
from shared.secrets import Secret

DSN = "https://0123456789abcdef0123456789abcdef@sentry.invalid/42"
KEY = "sk-" + "sentry-canary-Zq7Yw2Vx9Km4"


class Sent(Transport):
    """Keeps envelopes."""

    def __init__(self) -> None:
        super().__init__({"dsn": DSN})
        self.events: list[dict[str, Any]] = []
        self.is_broken = False

    def capture_envelope(self, envelope: Envelope) -> None:
        if self.is_broken:
            raise RuntimeError("away")
        self.events += [
            json.loads(item.payload.get_bytes()) for item in envelope.items if item.type == "event"
        ]


class Stage:
    def __init__(self) -> None:
        self.sent = Sent()
        self.now_s = 1000.0
        self.sentry = Sentry(
            DSN, secrets=[Secret(KEY)], clock_s=lambda: self.now_s, transport=self.sent
        )


def report(message: str = "no", **more: Any) -> ErrorReport:
    return ErrorReport(
        id="r1",
        created_ms=1_700_000_000_000,
        severity=Severity.ERROR,
        category=ReportCategory.API_ERROR,
        error_type="invalid_key",
        stage="stream",
        fault=Fault.CONFIG,
        message=message,
        provider="openai",
        model="gpt",
        guild_id=123456789012345678,
        user_id=42,
        **more,
    )


def test_an_event_has_what_an_operator_needs():
    stage = Stage()
    assert stage.sentry.capture(report(turn_id="m1", attempt=2), ["auth", "openai"])
    (event,) = stage.sent.events
    assert event["fingerprint"] == ["auth", "openai"]
    assert event["tags"]["error_type"] == "invalid_key"
    assert event["contexts"]["turn"]["turn_id"] == "m1"
    assert "invalid_key: no" in json.dumps(event)


def test_no_key_no_person_and_nothing_of_the_machine_leaves():
    hidden = base64.b64encode(KEY.encode()).decode()
    stage = Stage()
    stage.sentry.capture(report(f"bad {KEY} {hidden} {DSN}", stack_trace=f"key={KEY[::-1]}"), ["a"])
    (event,) = stage.sent.events
    text = json.dumps(event)
    for secret in (KEY, hidden, KEY[::-1], "canary", DSN, "123456789012345678", "breadcrumbs"):
        assert secret not in text
    unwanted = {"request", "extra", "server_name", "modules", "user", "breadcrumbs", "threads"}
    assert unwanted.isdisjoint(event)


def test_a_group_sends_so_many_a_minute_and_then_says_how_many_it_kept_back():
    stage = Stage()
    results = [stage.sentry.capture(report(), ["a"]) for _ in range(PER_MINUTE + 5)]
    assert results == [True] * PER_MINUTE + [False] * 5
    assert stage.sentry.capture(report(), ["b"])
    stage.now_s += 60
    assert stage.sentry.capture(report(), ["a"])
    assert stage.sent.events[-1]["contexts"]["turn"]["skipped_before"] == 5


def test_the_memory_of_groups_is_bounded():
    stage = Stage()
    for number in range(MAX_GROUPS + 50):
        stage.sentry.capture(report(), [str(number)])
    assert len(stage.sentry._sent) == MAX_GROUPS


def test_a_transport_that_fails_is_no_failure_of_ours():
    stage = Stage()

    stage.sent.is_broken = True
    assert stage.sentry.capture(report(), ["a"]) is False
    stage.sentry.close()


def test_a_wrong_dsn_is_a_wrong_setting():
    with pytest.raises(ConfigError, match="TURNFLEET_SENTRY_DSN") as caught:
        Sentry("https://nonsense", clock_s=lambda: 0.0)
    assert "nonsense" not in str(caught.value)


def test_without_a_dsn_the_sdk_is_not_imported():
    code = (
        "import sys, shared.edges.sentry, ops.cli.recorder; assert 'sentry_sdk' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
