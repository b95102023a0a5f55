"""Attachments of a prompt: fetched at claim, shown to the model, kept nowhere.

Comes in: addresses. Goes out: texts and pictures, within bounds, or why not. Only Discord's own
hosts are asked, and those that the operator allowed; the endpoint guard looks at each address.
`worker.edges.context` uses it.
"""

import asyncio
import base64
import logging
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from shared.configuration.schema import Limits
from shared.errors import EndpointError
from shared.history import Attachment
from shared.logs import fields
from shared.messages import ImageBlock
from shared.redaction import clean
from worker.edges.http import HttpEdge
from worker.providers.conversation import Files
from worker.providers.requests import HttpRequest

HOSTS: Final = frozenset({"cdn.discordapp.com", "media.discordapp.net"})
"""Where Discord keeps files (developer docs, reference, CDN)."""
FETCH_S: Final = 10.0
"""All files of a prompt: somebody waits for the first word."""
MAX_TEXTS: Final = 20
"""Text files of one turn: those of two messages. A turn that answers many prompts has more."""
PICTURES: Final = {
    "image/png": b"\x89PNG\r\n\x1a\n",
    "image/jpeg": b"\xff\xd8\xff",
    "image/gif": b"GIF8",
    "image/webp": b"RIFF",
}
"""What models read, with the bytes that such a file begins with."""
_TEXT_TYPES: Final = ("text/", "application/json", "application/xml", "application/x-yaml")
_TEXT_NAMES: Final = (
    *(".txt", ".md", ".csv", ".log", ".json", ".xml", ".yaml", ".yml", ".toml", ".ini", ".diff"),
    *(".py", ".js", ".ts", ".go", ".rs", ".c", ".h", ".cpp", ".java", ".sh", ".sql", ".html"),
    *(".css", ".lua", ".rb", ".kt", ".cs"),
)

log = logging.getLogger(__name__)


class Attachments:
    """Fetches files.

    Args:
        http: the process's client, behind the endpoint guard.
    """

    def __init__(self, http: HttpEdge) -> None:
        self._http = http

    async def read(self, attachments: Sequence[Attachment], limits: Limits) -> Files:
        """Reads what can be read, all at once; it never raises.

        Cancelled, it closes its connections.
        """
        texts: dict[int, str] = {}
        images: dict[int, ImageBlock] = {}
        refused: dict[int, str] = {}

        async def one(file: Attachment, limit_bytes: int) -> None:
            data = await self._fetched(file, limit_bytes)
            if isinstance(data, str):
                refused[file.id] = data
            elif (picture := _picture(file, data)) is not None:
                images[file.id] = picture
            elif (text := _text(file, data)) is not None:
                texts[file.id] = text
            else:
                refused[file.id] = "not a text or a picture that models read"

        wanted = _wanted(attachments, limits, refused)
        try:
            async with asyncio.timeout(FETCH_S), asyncio.TaskGroup() as group:
                for file, limit_bytes in wanted:
                    group.create_task(one(file, limit_bytes), name="attachment")
        except TimeoutError:
            log.info("attachments.late", extra=fields(limit_s=FETCH_S))
        for file in attachments:
            if file.id not in texts and file.id not in images:
                refused.setdefault(file.id, "it did not come in time")
        return Files(texts=texts, images=images, refused=refused)

    async def _fetched(self, file: Attachment, limit_bytes: int) -> bytes | str:
        """The bytes of a file, or why there are none."""
        if file.size_bytes > limit_bytes:
            return f"it is over {limit_bytes} bytes"
        if not self._may_ask(file.url):
            log.warning("attachment.host_refused", extra=fields(host=urlsplit(file.url).hostname))
            return "it is not where Discord keeps files"
        parts: list[bytes] = []
        size = 0
        try:
            request = HttpRequest("GET", file.url, (("accept", "*/*"),), b"")
            async with self._http.open(request) as response:
                if response.status != 200:
                    return "it is not there any more"
                while (data := await response.more()) is not None:
                    size += len(data)
                    if size > limit_bytes:
                        return f"it is over {limit_bytes} bytes"
                    parts.append(data)
        except EndpointError as exc:
            log.info("attachment.failed", extra=fields(reason=exc.exception))
            return "it could not be fetched"
        return b"".join(parts)

    def _may_ask(self, url: str) -> bool:
        """Discord's hosts by HTTPS, and what the operator allowed; the guard sees the addresses."""
        try:
            parts = urlsplit(url)
            host, port = (
                parts.hostname or "",
                parts.port or (443 if parts.scheme == "https" else 80),
            )
        except ValueError:
            return False
        if host in HOSTS and parts.scheme == "https" and port == 443:
            return True
        return self._http.guard.allows(host, port)


def _wanted(
    attachments: Sequence[Attachment], limits: Limits, refused: dict[int, str]
) -> list[tuple[Attachment, int]]:
    """The files that are worth fetching, each with its bound; why the others are not."""
    wanted: list[tuple[Attachment, int]] = []
    pictures = texts = 0
    for file in attachments:
        is_picture = file.mime_type.partition(";")[0] in PICTURES
        is_text = not is_picture and _is_text(file)
        pictures += is_picture
        texts += is_text
        if is_picture and pictures > limits.images:
            refused[file.id] = f"only {limits.images} pictures are shown"
        elif is_picture:
            wanted.append((file, limits.image_bytes))
        elif is_text and texts > MAX_TEXTS:
            refused[file.id] = f"only {MAX_TEXTS} files are read"
        elif is_text:
            wanted.append((file, limits.text_file_bytes))
        else:
            refused[file.id] = "not a text or a picture that models read"
    return wanted


def _is_text(file: Attachment) -> bool:
    return file.mime_type.startswith(_TEXT_TYPES) or file.name.lower().endswith(_TEXT_NAMES)


def _picture(file: Attachment, data: bytes) -> ImageBlock | None:
    """A picture, if its bytes are what its type says: vendors refuse a whole request otherwise."""
    kind = file.mime_type.partition(";")[0]
    if kind not in PICTURES:
        return None
    real = next((one for one, mark in PICTURES.items() if data.startswith(mark)), None)
    if real is None:
        return None
    return ImageBlock(mime_type=real, data=base64.b64encode(data).decode())


def _text(file: Attachment, data: bytes) -> str | None:
    """A text; bytes that are none make none."""
    if b"\0" in data[:1024] or not _is_text(file):
        return None
    return clean(data.decode("utf-8-sig", "replace"))
