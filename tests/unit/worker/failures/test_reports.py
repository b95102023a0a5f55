"""One report per failed attempt: the same record whether its notice is shown, and no secret."""

import msgspec
import pytest

from shared.causes import Cause
from shared.failures import STACK_CHARS, Fault, ReportCategory, Severity
from shared.turns import CredentialSource
from shared.wire import encode_json
from worker.failures.classify import error_of
from worker.failures.reports import AttemptIdentity, details_of, report_of

KEY = "corp-internal-77-k3y-zzTop"
IDENTITY = AttemptIdentity(
    turn_id="m1", attempt=2, channel_id=3, user_id=4, guild_id=5, provider="custom", model="m",
    endpoint_host="llm.test", key_id="k1", worker_id="w", elapsed_ms=6, chunks=7, segments_sent=0,
)  # fmt: skip


def report(cause: Cause = Cause.INVALID_KEY, source: str = "server", **kwargs: object):
    identity = msgspec.structs.replace(IDENTITY, credential_source=CredentialSource(source))
    failed = error_of(cause, message=f"bad {KEY}", code=KEY)
    return report_of(
        failed, identity, report_id="r", created_ms=8, secrets=[KEY], **kwargs  # type: ignore[arg-type]  # options vary
    )  # fmt: skip


def test_the_record_is_whole():
    made = report()
    assert (made.turn_id, made.attempt, made.guild_id, made.channel_id) == ("m1", 2, 5, 3)
    assert (made.category, made.error_type) == (ReportCategory.API_ERROR, "invalid_key")
    assert (made.fault, made.message) == (Fault.CONFIG, "bad [redacted:key]")
    assert made.endpoint_host == "llm.test"


def test_shown_or_suppressed_is_one_record():
    assert msgspec.structs.replace(report(shown=True), shown=False) == report(shown=False)


@pytest.mark.parametrize(
    ("cause", "source", "severity"),
    [
        (Cause.INVALID_KEY, "server", Severity.ERROR),
        (Cause.INVALID_KEY, "personal", Severity.WARNING),
        (Cause.RATE_LIMITED, "server", Severity.WARNING),
        (Cause.INTERNAL_ERROR, "server", Severity.ERROR),
    ],
)
def test_severity_says_whether_the_operator_is_needed(cause, source, severity):
    assert report(cause, source).severity is severity


def test_nothing_of_the_key_is_left_anywhere():
    made = report(stack_trace=f"File x: {KEY}\0", metadata={KEY: [KEY, {"api_key": "y"}]})
    assert KEY.encode() not in encode_json(made)
    assert made.metadata == {"[redacted:key]": ["[redacted:key]", {"api_key": "[redacted:field]"}]}
    assert made.stack_trace == "File x: [redacted:key]"


def test_a_runaway_stack_is_cut():
    made = report(stack_trace="line\n" * STACK_CHARS)
    assert made.stack_trace is not None
    assert len(made.stack_trace) <= STACK_CHARS


def test_the_host_of_the_error_fills_in_for_an_unknown_one():
    failed = msgspec.structs.replace(error_of(Cause.OVERLOADED), serving_provider="InvHost")
    made = report_of(failed, IDENTITY, report_id="r", created_ms=8)
    assert (made.serving_provider, made.provider_code) == ("InvHost", None)
    known = msgspec.structs.replace(IDENTITY, serving_provider="Other")
    assert report_of(failed, known, report_id="r", created_ms=8).serving_provider == "Other"


def test_the_modal_gets_the_snippet_and_whose_key_it_was():
    details = details_of(report(source="personal"))
    assert details.snippet == "bad [redacted:key]"
    assert (details.user_id, details.credential_source) == (4, CredentialSource.PERSONAL)
    bare = msgspec.structs.replace(report(), credential_source=None)
    assert details_of(bare).credential_source is CredentialSource.SERVER
