"""Addresses of attachments, asked for again: Discord's own expire after a day, failed turns do not.

Comes in: the request of a failed turn. Goes out: the same with the addresses that hold now. Where
Discord does not answer, or the message is gone, they stay as they were, and the model is told that
a file is not there any more. `ops.cli` hands it to `Replays`.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Final

import httpx
import msgspec

from shared import __version__
from shared.config import Settings
from shared.logs import fields
from shared.turns import Front, TurnRequest
from shared.wire import UNREADABLE

ASK_S: Final = 10.0
"""A replay is paced anyway; it need not wait long for a picture."""
USER_AGENT: Final = f"DiscordBot (turnfleet, {__version__})"

Refresh = Callable[[TurnRequest], Awaitable[TurnRequest]]

log = logging.getLogger(__name__)


def refresher(settings: Settings) -> Refresh:
    """What asks Discord for a request's addresses; without a token it changes nothing."""

    async def refresh(request: TurnRequest) -> TurnRequest:
        reading, token = request.reading, settings.discord_token
        is_discords = request.route.front is Front.DISCORD
        if reading is None or not (reading.attachments and is_discords and token):
            return request
        asked = [one for one in (reading.before, reading.reply_to) if one is not None]
        fresh: dict[int, str] = {}
        headers = {"Authorization": f"Bot {token}", "User-Agent": USER_AGENT}
        async with httpx.AsyncClient(
            base_url=settings.discord_rest_url, headers=headers, timeout=ASK_S
        ) as client:
            for message_id in asked:
                fresh |= await _addresses(client, request.route.channel_id, message_id)
        attachments = tuple(
            msgspec.structs.replace(one, url=fresh.get(one.id, one.url))
            for one in reading.attachments
        )
        read = msgspec.structs.replace(reading, attachments=attachments)
        return msgspec.structs.replace(request, reading=read)

    return refresh


async def _addresses(client: httpx.AsyncClient, channel_id: int, message_id: int) -> dict[int, str]:
    """The addresses of a message's files, by their ids; none where it cannot be had."""
    try:
        answer = await client.get(f"/channels/{channel_id}/messages/{message_id}")
        answer.raise_for_status()
        found = msgspec.json.decode(answer.content, type=_Message)
    except (httpx.HTTPError, *UNREADABLE) as exc:
        log.info("attachments.not_refreshed", extra=fields(reason=type(exc).__name__))
        return {}
    return {int(one.id): one.url for one in found.attachments}


class _File(msgspec.Struct, frozen=True):
    id: str
    url: str


class _Message(msgspec.Struct, frozen=True):
    attachments: tuple[_File, ...] = ()
