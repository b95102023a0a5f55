"""Takes what a request was trusted with out of what comes back: an endpoint may say a key aloud.

Comes in: the request's headers, then the bytes of the response as they arrive. Goes out: the same
bytes, as many, with `*` where a secret stood. So a key is in no reply, name, recording or log that
is made of a stream. Only `worker.edges.http` uses it; it opens nothing.

Only the key as it was sent: disguised forms in errors are `shared.redaction`'s, and a stream that
spells a key some other way is not noticed.
"""

from collections.abc import Iterable
from typing import Final

MIN_SECRET_CHARS: Final = 12
"""Shorter values are no keys but words such as `ollama`, which a reply may well contain."""
_HARMLESS: Final = frozenset(
    {"accept", "anthropic-beta", "anthropic-version", "content-type", "http-referer", "user-agent",
     "x-title"}
)  # fmt: skip
"""Headers that say nothing secret. Any other may: operators can set their own."""


def secrets_in(headers: Iterable[tuple[str, str]]) -> tuple[bytes, ...]:
    """The secrets that these headers carry, the scheme before them (`Bearer`) left out."""
    words = {text.rpartition(" ")[2] for name, text in headers if name.lower() not in _HARMLESS}
    return tuple(sorted(word.encode() for word in words if len(word) >= MIN_SECRET_CHARS))


def masked(data: bytes, secrets: tuple[bytes, ...]) -> bytes:
    """The bytes with `*` where a secret stood."""
    for secret in secrets:
        if secret in data:
            data = data.replace(secret, b"*" * len(secret))
    return data


class EchoMask:
    """Masks secrets in a stream of bytes, wherever it is cut.

    The end of what arrived is held back while it may be the beginning of a secret. No event ends
    like that: events end with line feeds, which no header has.

    Args:
        secrets: as they were sent.
    """

    __slots__ = ("_held", "_secrets")

    def __init__(self, secrets: tuple[bytes, ...]) -> None:
        self._secrets = secrets
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """The bytes that are safe to hand on; perhaps none yet."""
        if self._held:
            data = self._held + data
        data = masked(data, self._secrets)
        if data.endswith(b"\n"):  # no secret goes on behind it, as headers have none
            self._held = b""
            return data
        held = max((_overlap(data, secret) for secret in self._secrets), default=0)
        cut = len(data) - held
        self._held = data[cut:]
        return data[:cut]

    def flush(self) -> bytes:
        """What was held back when nothing more comes."""
        held, self._held = self._held, b""
        return held


def _overlap(data: bytes, secret: bytes) -> int:
    """How many bytes at the end of the data are the beginning of the secret."""
    start = max(0, len(data) - len(secret) + 1)
    # The first byte is looked for rather than every length tried: it is rare near the end.
    while (start := data.find(secret[:1], start)) >= 0:
        if secret.startswith(data[start:]):
            return len(data) - start
        start += 1
    return 0
