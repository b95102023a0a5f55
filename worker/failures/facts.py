"""What an error body says, whatever it is wrapped in: words, codes and a few numbers.

Comes in: a `ProviderFault`. Goes out: `Facts` for the rules. Pure; for `worker.failures` only.
Bodies come as an object, an array of objects, a bare string, `detail`, JSON text nested in
`message` or `metadata.raw`, HTML, or empty; they are unwrapped first, so that one table serves
HTTP errors and errors in a stream.
"""

import json
import re

from shared.failures import ProviderFault

MAX_BODY_CHARS = 64 * 1024
"""What is read of a body: the HTTP edge reads no more either."""
MAX_DEPTH = 24
"""Of nesting, JSON inside JSON text included: a router around a host's error needs three, and
routers stand behind routers. JSON text that lies deeper is read as mere text."""
MAX_ITEMS = 50
"""Of a list; validation errors repeat themselves."""
MODERATION = "(moderation)"
"""A code of ours: the body has moderation metadata (OpenRouter: `flagged_input`, `reasons`)."""
PER_DAY = "(per-day quota)"
"""A code of ours: a quota id names the day (Google: `GenerateRequestsPerDay...`)."""

_CODE_KEYS = frozenset(
    {"code", "type", "status", "reason", "error_type", "quotaId", "__type", "errorCode"}
)
_NUMBER_KEYS = _CODE_KEYS | {"status_code", "http_status"}
_TEXT_KEYS = frozenset(
    {"message", "raw", "detail", "error", "msg", "title", "errorMessage", "error_message"}
)
_RETRY_INFO = "retryDelay"
_HTTP_ERRORS = range(400, 600)
_SUCCESS = range(200, 300)
_DIGITS = 3
_SPACES = re.compile(r"\s+")


class Facts:
    """The unwrapped facts of a fault.

    `status` is the HTTP status, or, under 200 and without one, the first inner code from 400 to
    599. `text` is lower case with single spaces; `codes` are lower case.
    """

    __slots__ = (
        "_size", "_texts", "codes", "host", "inner_status", "retry_delay", "status", "text",
    )  # fmt: skip

    def __init__(self, fault: ProviderFault) -> None:
        self.codes: set[str] = set()
        self.host: str | None = None
        self.inner_status = 0
        self.retry_delay: str | None = None
        self._texts: list[str] = []
        self._size = 0
        if fault.code:
            self._add_code(fault.code)
        self._read_text(fault.body[:MAX_BODY_CHARS], 0)
        if fault.message and fault.message not in self._texts:
            self._read_text(fault.message[:MAX_BODY_CHARS], 0)
        self.text = _SPACES.sub(" ", self.said).lower()
        known = fault.status and fault.status not in _SUCCESS
        self.status = fault.status if known else self.inner_status

    @property
    def said(self) -> str:
        """The texts as upstream wrote them, untrusted."""
        return " | ".join(self._texts)

    def _read(self, value: object, depth: int) -> None:
        if depth > MAX_DEPTH:
            return
        if isinstance(value, str):
            self._read_text(value, depth)
        elif isinstance(value, list):
            for item in value[:MAX_ITEMS]:
                self._read(item, depth + 1)
        elif isinstance(value, dict):
            self._read_object(value, depth)

    def _read_object(self, value: dict[str, object], depth: int) -> None:
        if "flagged_input" in value or isinstance(value.get("reasons"), list):
            self.codes.add(MODERATION)
        host, delay = value.get("provider_name"), value.get(_RETRY_INFO)
        if isinstance(host, str) and host:
            self.host = host
        if isinstance(delay, str):
            self.retry_delay = delay
        for key, item in value.items():
            if isinstance(item, dict | list):
                self._read(item, depth + 1)
            elif isinstance(item, str) and key in _CODE_KEYS:
                self._add_code(item)
            elif isinstance(item, str) and key in _TEXT_KEYS:
                self._read_text(item, depth)
            elif isinstance(item, int) and not isinstance(item, bool) and key in _NUMBER_KEYS:
                self._add_code(str(item))

    def _read_text(self, text: str, depth: int) -> None:
        head = text.lstrip()[:1]
        if head in {"{", "["} and depth < MAX_DEPTH:
            try:
                self._read(json.loads(text, strict=False), depth + 1)
            except (ValueError, RecursionError):
                pass
            else:
                return
        if head and head != "<" and self._size < MAX_BODY_CHARS:  # an HTML page is no message
            self._texts.append(text)
            self._size += len(text)

    def _add_code(self, code: str) -> None:
        word = code.lower()
        self.codes.add(word)
        if "perday" in word:
            self.codes.add(PER_DAY)
        if len(code) == _DIGITS and code.isdecimal() and int(code) in _HTTP_ERRORS:
            self.inner_status = self.inner_status or int(code)
