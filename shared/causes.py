"""The closed list of causes: what each one means for category, retry, fault, family and texts.

Comes in: nothing. Goes out: one table, read by the classifier and the retry policy (worker), by
notices (gateway) and by grouping (ops). Pure; anyone may import it. A cause is added here, with
its texts in the catalog; tests refuse a table that is not whole.
"""

from enum import StrEnum

import msgspec

from shared.failures import FailureCategory, Fault
from shared.turns import CredentialSource


class Family(StrEnum):
    """Causes that call for the same deed; part of a group's fingerprint."""

    AUTH = "auth"
    BILLING = "billing"
    ACCESS = "access"
    ENDPOINT = "endpoint"
    MODEL = "model"
    CONTEXT = "context"
    REQUEST = "request"
    GENERATION = "generation"
    RATE = "rate"
    CONTENT = "content"
    TIMEOUT = "timeout"
    OVERLOAD = "overload"
    UPSTREAM = "upstream"
    INTERNAL = "internal"


class Cause(StrEnum):
    """Why an attempt failed, as `ProviderError.cause` and `error_logs.error_type` spell it."""

    INVALID_KEY = "invalid_key"
    PERMISSION_DENIED = "permission_denied"
    PLAN_ACCESS_DENIED = "plan_access_denied"
    INSUFFICIENT_BALANCE = "insufficient_balance"
    ENDPOINT_NOT_FOUND = "endpoint_not_found"
    CONNECTION_REFUSED = "connection_refused"
    ENDPOINT_NOT_ALLOWED = "endpoint_not_allowed"
    REGION_NOT_SUPPORTED = "region_not_supported"
    AFFORDABLE_WITH_SMALLER_MAX_TOKENS = "affordable_with_smaller_max_tokens"
    CONTEXT_OVERFLOW = "context_overflow"
    REQUEST_TOO_LARGE = "request_too_large"
    INVALID_REQUEST = "invalid_request"
    DATA_POLICY = "data_policy"
    MALFORMED_FUNCTION_CALL = "malformed_function_call"
    TOOL_GENERATION_FAILED = "tool_generation_failed"
    EMPTY_STREAM = "empty_stream"
    MALFORMED_EVENT = "malformed_event"
    MESSAGE_SEQUENCE = "message_sequence"
    UPSTREAM_ERROR = "upstream_error"
    RATE_LIMITED = "rate_limited"
    DAILY_QUOTA_EXHAUSTED = "daily_quota_exhausted"
    CONTENT_FILTER = "content_filter"
    MODERATION = "moderation"
    PROMPT_BLOCKED = "prompt_blocked"
    NETWORK_TIMEOUT = "network_timeout"
    REQUEST_TIMEOUT = "request_timeout"
    GATEWAY_TIMEOUT = "gateway_timeout"
    CONNECTION_LOST = "connection_lost"
    STREAM_TRUNCATED = "stream_truncated"
    OVERLOADED = "overloaded"
    SERVER_ERROR = "server_error"
    BAD_GATEWAY = "bad_gateway"
    INSUFFICIENT_SYSTEM_RESOURCE = "insufficient_system_resource"
    MODEL_NOT_FOUND = "model_not_found"
    QUOTA_EXHAUSTED = "quota_exhausted"
    SUBSCRIPTION_REQUIRED = "subscription_required"
    INTERNAL_ERROR = "internal_error"
    WORKER_LOST = "worker_lost"
    LIMIT_EXCEEDED = "limit_exceeded"


class Tip(StrEnum):
    """What a reader of a notice may do; the texts are `tip.<word>` in the catalog."""

    WAIT = "wait"
    ROTATE_KEYS = "rotate_keys"
    ADD_FALLBACK = "add_fallback"
    CHECK_KEY = "check_key"
    CHECK_PERSONAL_KEY = "check_personal_key"
    DISABLE_OVERRIDE = "disable_override"
    TOP_UP = "top_up"
    TOP_UP_PERSONAL = "top_up_personal"
    LOWER_OUTPUT = "lower_output"
    SHORTEN = "shorten"
    SWITCH_MODEL = "switch_model"
    SWITCH_PERSONAL_MODEL = "switch_personal_model"
    CHECK_ENDPOINT = "check_endpoint"
    CHECK_PERSONAL_ENDPOINT = "check_personal_endpoint"
    PRIVACY_SETTINGS = "privacy_settings"
    REPHRASE = "rephrase"
    TRY_AGAIN = "try_again"


_SERVER_ONLY = frozenset({Tip.ROTATE_KEYS, Tip.ADD_FALLBACK})
"""A member with a personal key cannot manage the server's pool or chain."""
_PERSONAL_FORM = {
    Tip.CHECK_KEY: Tip.CHECK_PERSONAL_KEY,
    Tip.TOP_UP: Tip.TOP_UP_PERSONAL,
    Tip.SWITCH_MODEL: Tip.SWITCH_PERSONAL_MODEL,
    Tip.CHECK_ENDPOINT: Tip.CHECK_PERSONAL_ENDPOINT,
}
BILLING_CAUSES = frozenset({Cause.QUOTA_EXHAUSTED, Cause.SUBSCRIPTION_REQUIRED})
"""Denials of our own billing: their headline is the recovery copy, tips would mislead."""


class CauseFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the table.

    `needs_operator` makes an `error_logs` row, on a server credential only: whoever brought
    another key is the one to act. `is_retryable` describes the cause (the same request may work
    later), not what the policy does about it.
    """

    category: FailureCategory
    family: Family
    fault: Fault
    is_retryable: bool = False
    needs_operator: bool = False
    tips: tuple[Tip, ...] = ()


class FailureNotice(msgspec.Struct, frozen=True, kw_only=True):
    """What a public notice may say: keys of the catalog. Nothing in it came from upstream."""

    headline: str
    tips: tuple[str, ...]
    fault: Fault

    @property
    def footer(self) -> str:
        """The key of the sentence that says whose fault it was."""
        return f"fault.{self.fault}"


def _row(
    category: FailureCategory,
    family: Family,
    fault: Fault,
    flags: str,
    *tips: Tip,
) -> CauseFacts:
    """A row; in `flags`, `r` stands for retryable and `o` for needs the operator."""
    return CauseFacts(
        category=category,
        family=family,
        fault=fault,
        is_retryable="r" in flags,
        needs_operator="o" in flags,
        tips=tips,
    )


_C = FailureCategory
_P, _US, _CONF, _USER = Fault.PROVIDER, Fault.TURNFLEET, Fault.CONFIG, Fault.USER
_KEY_TIPS = (Tip.CHECK_KEY, Tip.ROTATE_KEYS)
_BUSY_TIPS = (Tip.WAIT, Tip.ADD_FALLBACK)
_AGAIN = (Tip.TRY_AGAIN, Tip.ADD_FALLBACK)

CAUSES: dict[Cause, CauseFacts] = {
    Cause.INVALID_KEY: _row(_C.API_ERROR, Family.AUTH, _CONF, "o", *_KEY_TIPS),
    Cause.PERMISSION_DENIED: _row(_C.API_ERROR, Family.AUTH, _CONF, "o", *_KEY_TIPS),
    Cause.PLAN_ACCESS_DENIED: _row(
        _C.API_ERROR, Family.ACCESS, _CONF, "o", Tip.SWITCH_MODEL, Tip.CHECK_KEY
    ),
    Cause.INSUFFICIENT_BALANCE: _row(
        _C.API_ERROR, Family.BILLING, _CONF, "o", Tip.TOP_UP, Tip.ROTATE_KEYS, Tip.SWITCH_MODEL
    ),
    Cause.ENDPOINT_NOT_FOUND: _row(_C.API_ERROR, Family.ENDPOINT, _CONF, "o", Tip.CHECK_ENDPOINT),
    Cause.CONNECTION_REFUSED: _row(
        _C.API_ERROR, Family.ENDPOINT, _CONF, "o", Tip.CHECK_ENDPOINT, Tip.ADD_FALLBACK
    ),
    Cause.ENDPOINT_NOT_ALLOWED: _row(
        _C.API_ERROR, Family.ENDPOINT, _CONF, "o", Tip.CHECK_ENDPOINT, Tip.ADD_FALLBACK
    ),
    Cause.REGION_NOT_SUPPORTED: _row(
        _C.API_ERROR, Family.ACCESS, _CONF, "o", Tip.SWITCH_MODEL, Tip.ADD_FALLBACK
    ),
    Cause.AFFORDABLE_WITH_SMALLER_MAX_TOKENS: _row(
        _C.API_ERROR, Family.BILLING, _CONF, "", Tip.LOWER_OUTPUT, Tip.TOP_UP
    ),
    Cause.CONTEXT_OVERFLOW: _row(
        _C.API_ERROR, Family.CONTEXT, _USER, "", Tip.SHORTEN, Tip.LOWER_OUTPUT, Tip.SWITCH_MODEL
    ),
    Cause.REQUEST_TOO_LARGE: _row(_C.API_ERROR, Family.CONTEXT, _USER, "", Tip.SHORTEN),
    Cause.INVALID_REQUEST: _row(_C.API_ERROR, Family.REQUEST, _US, "", Tip.SWITCH_MODEL),
    Cause.DATA_POLICY: _row(
        _C.API_ERROR, Family.ACCESS, _CONF, "", Tip.PRIVACY_SETTINGS, Tip.SWITCH_MODEL
    ),
    Cause.MALFORMED_FUNCTION_CALL: _row(_C.API_ERROR, Family.GENERATION, _P, "r", *_AGAIN),
    Cause.TOOL_GENERATION_FAILED: _row(_C.API_ERROR, Family.GENERATION, _P, "r", *_AGAIN),
    Cause.EMPTY_STREAM: _row(_C.API_ERROR, Family.UPSTREAM, _P, "r", *_AGAIN),
    Cause.MALFORMED_EVENT: _row(_C.API_ERROR, Family.UPSTREAM, _P, "r", *_AGAIN),
    Cause.MESSAGE_SEQUENCE: _row(_C.API_ERROR, Family.UPSTREAM, _P, "r", *_AGAIN),
    Cause.UPSTREAM_ERROR: _row(_C.API_ERROR, Family.UPSTREAM, _P, "ro", *_AGAIN),
    Cause.RATE_LIMITED: _row(
        _C.RATE_LIMIT, Family.RATE, _P, "r", Tip.WAIT, Tip.ROTATE_KEYS, Tip.ADD_FALLBACK
    ),
    Cause.DAILY_QUOTA_EXHAUSTED: _row(
        _C.RATE_LIMIT, Family.RATE, _P, "", Tip.ROTATE_KEYS, Tip.SWITCH_MODEL, Tip.TOP_UP
    ),
    Cause.CONTENT_FILTER: _row(
        _C.CONTENT_BLOCKED, Family.CONTENT, _P, "", Tip.REPHRASE, Tip.SWITCH_MODEL
    ),
    Cause.MODERATION: _row(
        _C.CONTENT_BLOCKED, Family.CONTENT, _P, "", Tip.REPHRASE, Tip.SWITCH_MODEL
    ),
    Cause.PROMPT_BLOCKED: _row(
        _C.CONTENT_BLOCKED, Family.CONTENT, _P, "", Tip.REPHRASE, Tip.SWITCH_MODEL
    ),
    Cause.NETWORK_TIMEOUT: _row(_C.TIMEOUT, Family.TIMEOUT, _P, "r", *_BUSY_TIPS),
    Cause.REQUEST_TIMEOUT: _row(_C.TIMEOUT, Family.TIMEOUT, _P, "r", *_BUSY_TIPS, Tip.SHORTEN),
    Cause.GATEWAY_TIMEOUT: _row(_C.TIMEOUT, Family.TIMEOUT, _P, "r", *_BUSY_TIPS),
    Cause.CONNECTION_LOST: _row(_C.TIMEOUT, Family.TIMEOUT, _P, "r", *_AGAIN),
    Cause.STREAM_TRUNCATED: _row(_C.TIMEOUT, Family.TIMEOUT, _P, "r", *_AGAIN),
    Cause.OVERLOADED: _row(_C.PROVIDER_OVERLOADED, Family.OVERLOAD, _P, "r", *_BUSY_TIPS),
    Cause.SERVER_ERROR: _row(_C.PROVIDER_OVERLOADED, Family.OVERLOAD, _P, "r", *_BUSY_TIPS),
    Cause.BAD_GATEWAY: _row(_C.PROVIDER_OVERLOADED, Family.OVERLOAD, _P, "r", *_BUSY_TIPS),
    Cause.INSUFFICIENT_SYSTEM_RESOURCE: _row(
        _C.PROVIDER_OVERLOADED, Family.OVERLOAD, _P, "r", *_BUSY_TIPS
    ),
    Cause.MODEL_NOT_FOUND: _row(
        _C.MODEL_ERROR, Family.MODEL, _CONF, "o", Tip.SWITCH_MODEL, Tip.ADD_FALLBACK
    ),
    Cause.QUOTA_EXHAUSTED: _row(_C.API_ERROR, Family.BILLING, _USER, ""),
    Cause.SUBSCRIPTION_REQUIRED: _row(_C.API_ERROR, Family.BILLING, _USER, ""),
    Cause.INTERNAL_ERROR: _row(_C.INTERNAL, Family.INTERNAL, _US, "o", Tip.TRY_AGAIN),
    Cause.WORKER_LOST: _row(_C.INTERNAL, Family.INTERNAL, _US, "ro", Tip.TRY_AGAIN),
    Cause.LIMIT_EXCEEDED: _row(_C.INTERNAL, Family.INTERNAL, _US, "o", Tip.SHORTEN),
}


def facts_of(cause: str) -> CauseFacts:
    """The row of a cause; a word of a newer version counts as an internal error."""
    try:
        return CAUSES[Cause(cause)]
    except ValueError:
        return CAUSES[Cause.INTERNAL_ERROR]


def needs_operator(cause: str, source: CredentialSource) -> bool:
    """Whether a failure makes an `error_logs` row: only what the operator can mend."""
    facts = facts_of(cause)
    if facts.category is FailureCategory.INTERNAL:
        return facts.needs_operator  # our own fault, whoever's key it was
    return facts.needs_operator and source is CredentialSource.SERVER


def fault_of(cause: str, source: CredentialSource) -> Fault:
    """Whose fault it was: what the configuration is for the server, a personal key is the user."""
    fault = facts_of(cause).fault
    if fault is Fault.CONFIG and source is not CredentialSource.SERVER:
        return Fault.USER
    return fault


def tips_for(cause: str, source: CredentialSource) -> tuple[Tip, ...]:
    """The tips for whoever's key answered.

    Personal keys get the personal form of a tip, none about the server's pool and chain, and the
    way back to the server's settings. A supporter's key is the billing module's: no tips at all.
    """
    if source is CredentialSource.SUPPORTER or cause in BILLING_CAUSES:
        return ()
    facts = facts_of(cause)
    if source is CredentialSource.SERVER:
        return facts.tips
    own = tuple(_PERSONAL_FORM.get(tip, tip) for tip in facts.tips if tip not in _SERVER_ONLY)
    is_of_the_key = facts.category not in {
        FailureCategory.CONTENT_BLOCKED,
        FailureCategory.INTERNAL,
    }
    return (*own, Tip.DISABLE_OVERRIDE) if is_of_the_key else own


def notice_of(cause: str, source: CredentialSource) -> FailureNotice:
    """The keys of the public notice: headline, tips by credential, whose fault it was."""
    known = cause if cause in CAUSES else Cause.INTERNAL_ERROR
    return FailureNotice(
        headline=f"failure.{known}",
        tips=tuple(f"tip.{tip}" for tip in tips_for(known, source)),
        fault=fault_of(known, source),
    )
