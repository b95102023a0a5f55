"""What every voice shares: an SSE frame, ids that look like a vendor's, small cuts of JSON.

Comes in: values that JSON can hold. Goes out: bytes of frames. Voices may import it.
"""

import hashlib

import msgspec

from ops.rehearsal.values import Frame

_encode = msgspec.json.Encoder().encode


def encode(value: object) -> bytes:
    """Compact JSON."""
    return _encode(value)


def sse(value: object, *, event: str | None = None, visible_chars: int = 0) -> Frame:
    """One event of an event stream."""
    head = b"" if event is None else b"event: " + event.encode() + b"\n"
    return Frame(head + b"data: " + _encode(value) + b"\n\n", visible_chars)


def vendor_id(prefix: str, *seeds: object, length: int = 24) -> str:
    """An id in a vendor's style; the same seeds give the same id, so that a run can be repeated."""
    digest = hashlib.sha256(repr(seeds).encode()).hexdigest()
    return prefix + digest[:length]


def fragments(text: str, size: int = 7) -> list[str]:
    """Cuts tool arguments into deltas that respect no JSON token, as vendors do."""
    return [text[at : at + size] for at in range(0, len(text), size)]
