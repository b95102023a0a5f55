"""Raw facts of a failure to a classified error: category, cause, retryable, hints.

Comes in: a `ProviderFault` from the HTTP edge, the normalizer or the driver. Goes out: a
`ProviderError`, whose message is redacted and capped. Pure; the rooms above and the driver import
it. The same table serves HTTP errors, errors inside a stream and broken connections.
"""

from collections.abc import Iterable

from shared.causes import CAUSES, Cause
from shared.failures import ProviderError, ProviderFault
from shared.redaction import clean, snippet
from shared.secrets import Secret
from worker.failures import hints
from worker.failures.facts import Facts
from worker.failures.rules import RULES

OWN_CODES = frozenset(
    {
        Cause.EMPTY_STREAM,
        Cause.STREAM_TRUNCATED,
        Cause.MALFORMED_EVENT,
        Cause.MESSAGE_SEQUENCE,
        Cause.LIMIT_EXCEEDED,
    }
)
"""What the normalizer says itself. They count without a body only: upstream may use the words."""
_SUCCESS = range(200, 300)


def classify(fault: ProviderFault, secrets: Iterable[Secret | str] = ()) -> ProviderError:
    """Names the cause of a failure. Never raises, whatever upstream sent.

    Args:
        fault: the raw facts. An `exception` counts where no error status came.
        secrets: what this attempt sent; the message is redacted of them and of other credentials.
    """
    facts = Facts(fault)
    cause = _cause(fault, facts)
    row = CAUSES[cause]
    return ProviderError(
        category=row.category,
        cause=cause.value,
        retryable=row.is_retryable,
        status=facts.status or None,
        code=fault.code or _shown_code(facts),
        message=snippet(clean(facts.said), secrets),
        retry_after_s=hints.retry_after_s(fault.headers, facts, fault.now_s),
        affordable_tokens=hints.affordable_tokens(facts.text),
        parameter=hints.refused_parameter(facts.text) if cause is Cause.INVALID_REQUEST else None,
        serving_provider=facts.host,
    )


def error_of(cause: Cause, *, message: str = "", code: str | None = None) -> ProviderError:
    """The error of a cause that turnfleet itself found, such as a filter stop or a lost worker."""
    row = CAUSES[cause]
    return ProviderError(
        category=row.category,
        cause=cause.value,
        retryable=row.is_retryable,
        code=code,
        message=message,
    )


def _cause(fault: ProviderFault, facts: Facts) -> Cause:
    if fault.exception and (not fault.status or fault.status in _SUCCESS):
        return _transport_cause(fault.exception, facts.text)
    if not fault.body and fault.code in OWN_CODES:
        return Cause(fault.code)
    return next((rule.cause for rule in RULES if rule.matches(facts)), Cause.UPSTREAM_ERROR)


_NAMED = {
    "EndpointNotAllowed": Cause.ENDPOINT_NOT_ALLOWED,
    "BodyTooLarge": Cause.LIMIT_EXCEEDED,
}
"""Names that `worker.edges.http` gives to its own refusals."""


def _transport_cause(exception: str, text: str) -> Cause:
    """The cause of a connection that failed, by the exception's name and words."""
    if exception in _NAMED:
        return _NAMED[exception]
    if "Timeout" in exception:
        return Cause.NETWORK_TIMEOUT
    if "refused" in text or "Refused" in exception:
        return Cause.CONNECTION_REFUSED
    return Cause.CONNECTION_LOST


def _shown_code(facts: Facts) -> str | None:
    """A code for the record: the most telling word, else the number."""
    words = sorted(code for code in facts.codes if not code.startswith("("))
    specific = [word for word in words if "_" in word and not word.isdecimal()]
    return next(iter(specific or words), None)
