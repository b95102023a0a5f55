"""The operators' channel: alerts of the fleet, posted where operators talk.

Comes in: the alerts stream. Goes out: messages of a front, a few lines each, seldom. Whatever
cannot be said stays in the console and the logs: an alert is a hint, and never holds up a reply.
"""

import asyncio
import hashlib
import logging
from collections.abc import Sequence
from typing import Final

from gateway.front import ChannelFront, OutgoingMessage, Refused, Unavailable
from shared.alerts import Alert
from shared.edges.streams import Entry, GroupReader
from shared.errors import StoreError, WireError
from shared.i18n import Texts
from shared.logs import fields
from shared.wire import decode_alert

MAX_LINES: Final = 10
"""Alerts of one message. In a storm the rest is a number: the console has them all."""
PAUSE_S: Final = 15.0
"""Between two messages: four a minute, which people can read and Discord's limits allow."""
READ_BLOCK_S: Final = 2.0
TAKE_OVER_MS: Final = 120_000
"""After this long an alert of another gateway, which died over it, is posted by this one."""
NONCE_CHARS: Final = 24

_log = logging.getLogger(__name__)


class OperatorsChannel:
    """Posts alerts.

    Args:
        reader: of the alerts stream, in the gateways' group.
        front: where to post.
        channel_id: the operators' channel there.
        texts: the catalogs.
        locale: the operators' language.
        pause_s: between messages.
    """

    def __init__(
        self,
        reader: GroupReader,
        front: ChannelFront,
        channel_id: int,
        texts: Texts,
        *,
        locale: str = "en",
        pause_s: float = PAUSE_S,
    ) -> None:
        self._reader = reader
        self._front = front
        self._channel_id = channel_id
        self._texts = texts
        self._locale = locale
        self._pause_s = pause_s

    async def run(self) -> None:
        """Posts until it is cancelled; what was in hand then is posted after the next start."""
        while True:
            try:
                entries = await self._reader.take_over(idle_ms=TAKE_OVER_MS)
                entries = entries or await self._reader.read(block_s=READ_BLOCK_S)
                if entries and await self._posted(entries):
                    await self._reader.ack([entry.id for entry in entries])
                elif entries:
                    self._reader.rewind()
            except StoreError as exc:
                _log.debug("operators.waiting", extra=fields(why=str(exc)))
                self._reader.rewind()
                entries = []
                await asyncio.sleep(self._pause_s)
            if entries:
                await asyncio.sleep(self._pause_s)

    async def _posted(self, entries: Sequence[Entry]) -> bool:
        """Whether these entries are done with."""
        alerts = _readable(entries)
        if not alerts:
            return True
        # Named after its first alert: a second try after a crash is the same message.
        digest = hashlib.sha256(f"alert {entries[0].id}".encode()).hexdigest()
        outcome = await self._front.send(
            OutgoingMessage(
                channel_id=self._channel_id,
                text=self._said(alerts),
                nonce=digest[:NONCE_CHARS],
                is_notice=True,
            )
        )
        if isinstance(outcome, Unavailable):
            return False
        if isinstance(outcome, Refused):
            _log.warning(
                "operators.refused",
                extra=fields(channel_id=str(self._channel_id), refusal=outcome.refusal.value),
            )
        return True

    def _said(self, alerts: Sequence[Alert]) -> str:
        lines = [self._line(alert) for alert in alerts[:MAX_LINES]]
        if len(alerts) > MAX_LINES:
            rest = len(alerts) - MAX_LINES
            lines.append(self._texts.count("alert.more", rest, self._locale))
        return "\n".join(lines)

    def _line(self, alert: Alert) -> str:
        return self._texts.text(
            f"alert.{alert.kind}",
            self._locale,
            subject=alert.label,
            cause=alert.cause,
            count=alert.count,
            usual=f"{alert.usual:g}",
            guilds=alert.guilds,
        )


def _readable(entries: Sequence[Entry]) -> list[Alert]:
    found = []
    for entry in entries:
        try:
            found.append(decode_alert(entry.fields.get(b"v", b"")))
        except WireError as exc:
            _log.warning("operators.unreadable", extra=fields(entry=entry.id, why=str(exc)))
    return found
