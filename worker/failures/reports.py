"""The record of a failed attempt, and what the modal may show of it.

Comes in: a classified error and whose attempt it was. Goes out: an `ErrorReport`, and the
`FaultDetails` for "Show full error". Pure; the driver imports it. Shape and severity do not depend
on whether a notice is shown.
"""

from collections.abc import Iterable, Mapping

import msgspec

from shared.causes import fault_of, needs_operator
from shared.failures import (
    SNIPPET_CHARS,
    STACK_CHARS,
    ErrorReport,
    FaultDetails,
    ProviderError,
    ReportCategory,
    Severity,
)
from shared.redaction import clean, clip, redact, redact_value, snippet
from shared.secrets import Secret
from shared.turns import CredentialSource


class AttemptIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """Whose attempt failed, where, and how far it had come; names as in `ErrorReport`."""

    turn_id: str
    attempt: int
    channel_id: int | None = None
    user_id: int | None = None
    guild_id: int | None = None
    provider: str | None = None
    model: str | None = None
    serving_provider: str | None = None
    endpoint_host: str | None = None
    credential_source: CredentialSource = CredentialSource.SERVER
    key_id: str | None = None
    worker_id: str | None = None
    worker_version: str | None = None
    elapsed_ms: int | None = None
    chunks: int | None = None
    segments_sent: int | None = None


def report_of(
    error: ProviderError,
    identity: AttemptIdentity,
    *,
    report_id: str,
    created_ms: int,
    stage: str = "stream",
    shown: bool = False,
    stack_trace: str | None = None,
    metadata: Mapping[str, object] | None = None,
    secrets: Iterable[Secret | str] = (),
) -> ErrorReport:
    """The one report of a failed attempt, redacted. An `error` severity makes a row.

    Args:
        error: the classified failure.
        identity: whose attempt it was.
        report_id: a UUID, the recorder's key of idempotency.
        created_ms: milliseconds since the epoch.
        stage: which stage failed: `request`, `stream`, `tools`, `delivery`.
        shown: a notice is shown for it; changes nothing else.
        stack_trace: of an internal error.
        metadata: bounded diagnostics, counts and roles.
        secrets: what this attempt sent.
    """
    known = tuple(secrets)
    source = identity.credential_source
    is_row = needs_operator(error.cause, source)
    facts: dict[str, object] = msgspec.structs.asdict(identity)
    facts["serving_provider"] = identity.serving_provider or error.serving_provider
    cleaned = redact_value(dict(metadata or {}), known)
    stack = None if stack_trace is None else clip(redact(clean(stack_trace), known), STACK_CHARS)
    base = ErrorReport(
        id=report_id,
        created_ms=created_ms,
        severity=Severity.ERROR if is_row else Severity.WARNING,
        category=ReportCategory(error.category.value),
        error_type=error.cause,
        stage=stage,
        fault=fault_of(error.cause, source),
        message=snippet(clean(error.message), known, SNIPPET_CHARS),
        stack_trace=stack,
        http_status=error.status,
        provider_code=None if error.code is None else redact(clean(error.code), known),
        retryable=error.retryable,
        shown=shown,
        metadata=cleaned if isinstance(cleaned, dict) else {},
    )
    return msgspec.structs.replace(base, **facts)


def details_of(report: ErrorReport) -> FaultDetails:
    """What "Show full error" opens: the redacted snippet, and who may read it."""
    return FaultDetails(
        snippet=report.message,
        credential_source=report.credential_source or CredentialSource.SERVER,
        user_id=report.user_id,
        guild_id=report.guild_id,
    )
