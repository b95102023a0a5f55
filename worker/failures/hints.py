"""When a request may be tried again, and what would have to change, as the provider says it.

Comes in: response headers and the facts of the body. Goes out: seconds, numbers and names. Pure;
for `worker.failures` only.
"""

import math
import re
from collections.abc import Iterable
from datetime import UTC
from email.utils import parsedate_to_datetime

from worker.failures.facts import Facts

MS_PER_S = 1000
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1 / MS_PER_S}
_AMOUNT = r"\d{1,9}(?:\.\d{1,9})?"
# "try again in 2.022s", "retry in 176ms", "retry after 1m30s", "try again in 20 seconds"
_PROSE = re.compile(
    rf"(?:try again|retry)(?: in| after) ((?:{_AMOUNT} ?(?:milliseconds?|ms|hours?|hrs?|h"
    rf"|minutes?|mins?|m|seconds?|secs?|s)\b ?|{_AMOUNT}[hms](?=\d)){{1,4}})"
)
_PIECE = re.compile(rf"({_AMOUNT}) ?(ms|milli|h|m|s)")
_AFFORDABLE = re.compile(r"can only afford (\d{1,12})\b")
_PARAMETER = re.compile(
    r"\b(max_completion_tokens|max_output_tokens|max_tokens|temperature|top_p|top_k|min_p"
    r"|frequency_penalty|presence_penalty|repetition_penalty|logit_bias|stream_options"
    r"|parallel_tool_calls|reasoning_effort|stop)\b"
)
_REFUSED = re.compile(
    r"invalid api parameter|unsupported|not supported|unknown|unrecognized|deprecated|not allowed"
    r"|extra inputs|not permitted|unexpected|cannot both be specified|does not support"
)


def retry_after_s(headers: Iterable[tuple[str, str]], facts: Facts, now_s: float) -> float | None:
    """Seconds until the provider wants to hear of it again, None where it gave no usable hint.

    In this order: `retry-after-ms`, `Retry-After` (RFC 9110 10.2.3: seconds, decimals taken too,
    or a date, rounded up), Google's `RetryInfo`, prose. Past and negative hints are 0.
    """
    fields = {name.lower(): value.strip() for name, value in headers}
    hint = _number(fields.get("retry-after-ms", ""))
    if hint is not None:
        return max(0.0, hint / MS_PER_S)
    stated = fields.get("retry-after", "")
    hint = _number(stated) if stated else None
    if hint is None and stated:
        hint = _until(stated, now_s)
    if hint is None and facts.retry_delay is not None:
        hint = _number(facts.retry_delay.strip().removesuffix("s"))
    if hint is None:
        hint = _in_prose(facts.text)
    return None if hint is None else max(0.0, hint)


def affordable_tokens(text: str) -> int | None:
    """The output that the balance still pays for, as OpenRouter words it (status 402)."""
    found = _AFFORDABLE.search(text)
    return int(found[1]) if found else None


def refused_parameter(text: str) -> str | None:
    """The request's field that a provider refused, if the text names one we may leave out."""
    if not _REFUSED.search(text):
        return None
    found = _PARAMETER.search(text)
    return found[1] if found else None


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _until(date: str, now_s: float) -> float | None:
    try:
        moment = parsedate_to_datetime(date)
        stamp = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
    return float(math.ceil(stamp - now_s))


def _in_prose(text: str) -> float | None:
    found = _PROSE.search(text)
    if found is None:
        return None
    return sum(
        float(amount) * _UNITS["ms" if unit == "milli" else unit]
        for amount, unit in _PIECE.findall(found[1])
    )
