"""Failures as values: raw facts, the classified error, and the record that operators query.

Comes in: facts from edges and rooms. Goes out: values for classification, reports, notices.
Pure; anyone may import it.
"""

import re
from enum import StrEnum

import msgspec

from shared.turns import CredentialSource

SNIPPET_CHARS = 2000
"""What a report keeps of upstream text, after redaction: enough for any provider's error body."""

STACK_CHARS = 64 * 1024
"""What a report keeps of a stack trace or an attached error: the whole of any but a runaway one."""
UNKNOWN_CODE = "unknown"
"""What is shown for a code that might be something else: a key, a mention, a sentence."""

_SHOWN_CODE = re.compile(
    r"[1-5]\d\d(?:_[a-z]{1,20}(?:_[a-z]{1,20}){0,3})?|[a-z]+(?:_[a-z]+)*|[A-Z]+(?:_[A-Z0-9]+)*"
)
_SHOWN_CODE_CHARS = 40


class FailureCategory(StrEnum):
    """The seven categories of a provider's failure (six of the seed, and our own)."""

    API_ERROR = "api_error"
    RATE_LIMIT = "rate_limit"
    CONTENT_BLOCKED = "content_blocked"
    TIMEOUT = "timeout"
    PROVIDER_OVERLOADED = "provider_overloaded"
    MODEL_ERROR = "model_error"
    INTERNAL = "internal"


class ReportCategory(StrEnum):
    """What an `ErrorReport` may be about: a provider's failure, or one of our own stages."""

    API_ERROR = "api_error"
    RATE_LIMIT = "rate_limit"
    CONTENT_BLOCKED = "content_blocked"
    TIMEOUT = "timeout"
    PROVIDER_OVERLOADED = "provider_overloaded"
    MODEL_ERROR = "model_error"
    INTERNAL = "internal"
    DELIVERY = "delivery"
    QUEUE = "queue"
    DECODE = "decode"
    CANCELLED = "cancelled"


class Fault(StrEnum):
    """Whose fault a failure is; the footer of a notice says so."""

    PROVIDER = "provider"
    TURNFLEET = "turnfleet"
    CONFIG = "config"
    USER = "user"
    DISCORD = "discord"
    REDIS = "redis"


class ProviderFault(msgspec.Struct, frozen=True, kw_only=True):
    """Raw facts of a failed request or stream, before anyone judged them.

    `status` 0 means that there was no response; `exception` then names the transport's error.
    `body` is upstream text: untrusted, never shown, redacted before it leaves the process.
    """

    provider: str
    model: str = ""
    status: int = 0
    headers: tuple[tuple[str, str], ...] = ()
    body: str = ""
    code: str | None = None
    message: str | None = None
    exception: str | None = None
    custom_endpoint: bool = False
    now_s: float = 0.0

    def __repr__(self) -> str:
        """Shows nothing that upstream said: exceptions carry faults, and tracebacks print both."""
        facts = f"provider={self.provider!r}, model={self.model!r}, status={self.status}"
        return f"ProviderFault({facts}, code={display_code(self.code)!r})"


class ProviderError(msgspec.Struct, frozen=True, kw_only=True):
    """A classified failure. `cause` is a word of the closed list `shared.causes.Cause`.

    `message` is upstream text, redacted and capped: for logs and the modal, never for a channel.
    `parameter` is the request's field that the provider refused, `serving_provider` the host that
    a router named.
    """

    category: FailureCategory
    cause: str
    retryable: bool
    status: int | None = None
    code: str | None = None
    message: str = ""
    retry_after_s: float | None = None
    affordable_tokens: int | None = None
    parameter: str | None = None
    serving_provider: str | None = None


def display_code(code: str | int | None) -> str:
    """The code as a notice may show it: an HTTP status or an enum word of one case, else `unknown`.

    Anything else could be a part of a key, a mention or markup that an endpoint sent as its code.
    """
    word = "" if code is None else str(code)
    if len(word) > _SHOWN_CODE_CHARS or _SHOWN_CODE.fullmatch(word) is None:
        return UNKNOWN_CODE
    return word


class FaultDetails(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What lies under the fault key for the modal: the redacted snippet, and whose key failed."""

    snippet: str
    credential_source: CredentialSource = CredentialSource.SERVER
    user_id: int | None = None
    guild_id: int | None = None


class Severity(StrEnum):
    """How loud: an `error` needs the operator and makes a row, a `warning` is expected."""

    WARNING = "warning"
    ERROR = "error"


class ErrorReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One failed attempt (or failed stage), redacted: a JSON log line, and perhaps a row.

    `error_type` is the cause. `created_ms` is milliseconds since the epoch. `metadata` holds
    bounded diagnostics (counts, roles), never prompt text.
    """

    id: str
    created_ms: int
    severity: Severity
    category: ReportCategory
    error_type: str
    stage: str
    fault: Fault
    message: str = ""
    stack_trace: str | None = None
    http_status: int | None = None
    provider_code: str | None = None
    retryable: bool = False
    turn_id: str | None = None
    attempt: int | None = None
    guild_id: int | None = None
    channel_id: int | None = None
    user_id: int | None = None
    provider: str | None = None
    model: str | None = None
    serving_provider: str | None = None
    endpoint_host: str | None = None
    credential_source: CredentialSource | None = None
    key_id: str | None = None
    worker_id: str | None = None
    worker_version: str | None = None
    elapsed_ms: int | None = None
    chunks: int | None = None
    segments_sent: int | None = None
    shown: bool = False
    metadata: dict[str, object] = msgspec.field(default_factory=dict)
    schema_version: int = 1
