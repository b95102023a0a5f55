"""The desk: everything that people ask for is acknowledged here, in time, and given to who knows.

Comes in: asks of a front, any number at once. Goes out: nothing but answers. `gateway.app` opens
it. Whatever goes wrong behind it, the person hears something: that the store is away, that a
button is not known, or that something went wrong.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import msgspec

from gateway.asks import Answers, Ask, AskKind
from shared.errors import StoreFull, StoreUnavailable
from shared.i18n import Texts

logger = logging.getLogger(__name__)

PATIENCE_S: Final = 60.0
"""What an answer may take: the token would live longer, the person's patience does not."""

Act = Callable[[Ask, Answers], Awaitable[None]]


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that can be asked for.

    Args:
        act: does it.
        waits: it is acknowledged before `act` begins, so that nothing can make that late. Without,
            `act` answers at once, before it asks anything of Redis.
    """

    act: Act
    waits: bool = True


Entries = Mapping[tuple[AskKind, str], Entry]


class Desk:
    """Takes asks.

    Args:
        entries: what can be asked for, by kind and name.
        texts: the catalogs.
        patience_s: what an answer may take.
    """

    def __init__(self, entries: Entries, texts: Texts, *, patience_s: float = PATIENCE_S) -> None:
        self._entries = entries
        self._texts = texts
        self._patience_s = patience_s

    async def take(self, ask: Ask, answers: Answers) -> None:
        """Acknowledges and answers. Cancelled, the person may have heard nothing."""
        entry = self._entries.get((ask.kind, ask.name))
        locale = ask.caller.locale
        if entry is None:
            logger.info("interactions.unknown", extra={"kind": ask.kind.value})
            await answers.whisper(self._texts.text("ask.unknown", locale))
            return
        try:
            async with asyncio.timeout(self._patience_s):
                if entry.waits and not await answers.wait():
                    return  # another gateway does what was asked for
                await entry.act(ask, answers)
        except (StoreUnavailable, StoreFull, TimeoutError):
            logger.info("interactions.store_away", extra={"command": ask.name})
            await answers.whisper(self._texts.text("ask.store_away", locale))
        except Exception:
            # Whoever asks must hear something, and one button must not end the gateway.
            logger.exception("interactions.crashed", extra={"command": ask.name})
            await answers.whisper(self._texts.text("ask.failed", locale))
