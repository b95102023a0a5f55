"""The pictures that a model made, to be shown below its text.

Comes in: the content of an answer. Goes out: pictures, bounded and looked at: what is no picture is
not passed on. Pure; the pipeline imports it.

Shapes: Google's part `inlineData` {mimeType, data}; OpenAI's item `image_generation_call` with
`result`; OpenRouter's `image_url` {url}, a data address (its chat API, `images` of a message). All
are base64, and all are the vendor's own blocks in a history. An address elsewhere is not followed.
"""

import base64
import binascii
import hashlib
from collections.abc import Iterable, Sequence

import msgspec

from shared.messages import ContentBlock, OpaqueBlock
from worker.normalize.sse import MAX_LINE_BYTES

MAX_PICTURES = 4
"""Of one answer. They pass through Redis, and a channel has no use for more at once."""
MAX_PICTURE_BYTES = MAX_LINE_BYTES // 4 * 3
"""What a line of a provider's stream holds in base64. Discord takes 10 MiB with a message
(developer docs, reference, uploading files); Redis holds it for half an hour, a gateway once."""

_FORMATS: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", "png"),
    (b"\xff\xd8\xff", "jpg"),
    (b"GIF8", "gif"),
)
"""First bytes and extensions; WebP has its own beginning, in two parts."""


class Picture(msgspec.Struct, frozen=True, kw_only=True):
    """A picture. `id` is made of its bytes: the same picture is kept once."""

    id: str
    name: str
    data: bytes


def pictures_of(content: Sequence[ContentBlock]) -> list[Picture]:
    """The pictures of an answer in order; what is too large, unreadable or no picture is left out.

    One that stands in the content twice is shown once: vendors repeat them in their last event.
    """
    found: dict[str, Picture] = {}
    for text in _encoded(content):
        if len(found) == MAX_PICTURES:
            break
        picture = _picture(text, len(found) + 1)
        if picture is not None:
            found.setdefault(picture.id, picture)
    return list(found.values())


def _encoded(content: Sequence[ContentBlock]) -> Iterable[str]:
    for block in content:
        match block:
            case OpaqueBlock(raw={"inlineData": {"data": str() as data}}):
                yield data
            case OpaqueBlock(raw={"type": "image_generation_call", "result": str() as data}):
                yield data
            case OpaqueBlock(raw={"type": "image_url", "image_url": {"url": str() as url}}):
                head, mark, data = url.partition(";base64,")
                if mark and head.startswith("data:image/"):
                    yield data
            case _:
                continue


def _picture(text: str, number: int) -> Picture | None:
    if len(text) > MAX_LINE_BYTES:
        return None
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    extension = _extension(data)
    if extension is None or len(data) > MAX_PICTURE_BYTES:
        return None
    name = f"picture-{number}.{extension}"
    return Picture(id=hashlib.blake2b(data, digest_size=16).hexdigest(), name=name, data=data)


def _extension(data: bytes) -> str | None:
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "webp"
    return next((name for start, name in _FORMATS if data.startswith(start)), None)
