"""What a request to the fake Discord says.

Comes in: HTTP requests. Goes out: their bodies and the ids in their addresses. `rest` and
`webhooks` import it.
"""

import json
from collections.abc import Awaitable, Callable
from typing import Any, Final

from aiohttp import web

from ops.rehearsal.discord.world import Refusal, User

BODY: Final = web.RequestKey("body", dict)
Answer = Callable[[web.Request, User], Awaitable[object]]
"""What answers a request of the bot."""


def snowflake_of(request: web.Request, name: str) -> int:
    """An id of the address. Raises `Refusal` 50035."""
    text = request.match_info[name]
    if not text.isdigit():
        raise Refusal(400, 50035, f"Invalid Form Body: {text} is not snowflake.")
    return int(text)


async def body_of(request: web.Request) -> dict[str, Any]:
    """What a request says; names and contents of files under `_files` and `_contents`."""
    if request.content_type == "application/json":
        found: dict[str, Any] = await request.json()
        return found
    if request.content_type != "multipart/form-data":
        return {}
    body: dict[str, Any] = {}
    names: list[str] = []
    contents: list[bytes] = []
    form = await request.post()
    for name, value in form.items():
        if name == "payload_json":
            text = value.file.read() if isinstance(value, web.FileField) else value
            body |= json.loads(text)
        elif isinstance(value, web.FileField):
            names.append(value.filename)
            with value.file as opened:
                contents.append(opened.read())
    return body | {"_files": names, "_contents": contents}
