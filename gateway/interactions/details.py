"""What lies behind buttons: the whole error, the thoughts, a table's source.

Comes in: asks. Goes out: windows and texts for one person; nothing of it ever stands in a channel.
"""

import asyncio
from typing import Final

from gateway.asks import Answers, Ask, Form, Owned
from gateway.front import OutgoingFile
from gateway.interactions.permissions import Act, may
from gateway.interactions.ports import Details
from shared.configuration.choices import ChoicesPort, Place
from shared.errors import StoreFull, StoreUnavailable
from shared.failures import FaultDetails
from shared.i18n import Texts
from shared.segments import MAX_SEGMENT_CHARS

FORM_BUDGET_S: Final = 1.5
"""A window must be the first answer, within three seconds: half of them for looking it up."""
ERROR: Final = "error"
THOUGHTS_FILE: Final = "thoughts.md"
SOURCE_FILE: Final = "table.md"


class DetailsDesk:
    """Opens details.

    Args:
        details: where they are kept.
        choices: what guilds allow.
        texts: the catalogs.
        budget_s: how long a window may wait for its text.
    """

    def __init__(
        self,
        details: Details,
        choices: ChoicesPort,
        texts: Texts,
        *,
        budget_s: float = FORM_BUDGET_S,
    ) -> None:
        self._details = details
        self._choices = choices
        self._texts = texts
        self._budget_s = budget_s

    async def full_error(self, ask: Ask, answers: Answers) -> None:
        """The button "Show full error". Acknowledges by itself: with a window, or by waiting."""
        try:
            async with asyncio.timeout(self._budget_s):
                details = await self._details.fault(ask.argument)
        except (TimeoutError, StoreUnavailable, StoreFull):
            await answers.wait()
            details = await self._details.fault(ask.argument)
            refusal = self._refusal(ask, details)
            shown = fenced(details.snippet) if details and not refusal else ""
            await answers.whisper(refusal or shown)
            return
        refusal = self._refusal(ask, details)
        if details is None or refusal:
            await answers.whisper(refusal)
            return
        title = self._texts.text("form.error", ask.caller.locale)
        form = Form(custom_id=ERROR, title=title, text=fenced(details.snippet))
        if not await answers.form(form):
            await answers.whisper(fenced(details.snippet))

    async def error_closed(self, ask: Ask, answers: Answers) -> None:
        """The window of an error was sent back: there is nothing in it."""
        await answers.whisper(self._texts.text("ask.read", ask.caller.locale))

    async def thoughts(self, ask: Ask, answers: Answers) -> None:
        """The button "Show thoughts"."""
        kept = await self._details.thoughts(ask.argument)
        caller = ask.caller
        if kept is None or kept.channel_id != caller.channel_id:
            await self._say(ask, answers, "ask.gone")
            return
        place = Place(
            channel_id=caller.channel_id,
            user_id=kept.user_id,
            guild_id=caller.guild_id,
            parent_id=caller.parent_id,
        )
        owned = Owned(
            user_id=kept.user_id,
            channel_id=kept.channel_id,
            guild_id=kept.guild_id,
            source=kept.source,
        )
        is_allowed = (await self._choices.settle(place)).show_thoughts
        if not is_allowed or not may(Act.THOUGHTS, caller, owned):
            await self._say(ask, answers, "ask.thoughts_off")
            return
        await self._show(answers, kept.text, kept.text, THOUGHTS_FILE)

    async def source(self, ask: Ask, answers: Answers) -> None:
        """The button "Show source" of a drawn table, for everybody where the table stands."""
        kept = await self._details.source(ask.argument)
        if kept is None or kept.channel_id != ask.caller.channel_id:
            await self._say(ask, answers, "modal.expired")
            return
        await self._show(answers, _block(_inert(kept.text)), kept.text, SOURCE_FILE)

    async def _show(self, answers: Answers, shown: str, text: str, name: str) -> None:
        """Says a text in the form `shown`, or sends it as a file where that is too long."""
        if len(shown) <= MAX_SEGMENT_CHARS:
            await answers.whisper(shown)
        else:
            await answers.whisper("", files=(OutgoingFile(name=name, data=text.encode()),))

    def _refusal(self, ask: Ask, details: FaultDetails | None) -> str:
        """Why somebody may not read details, in his language; empty when he may."""
        if details is None:
            return self._texts.text("modal.expired", ask.caller.locale)
        owned = Owned(
            user_id=details.user_id or 0,
            channel_id=ask.caller.channel_id,
            guild_id=details.guild_id,
            source=details.credential_source,
        )
        if may(Act.FULL_ERROR, ask.caller, owned):
            return ""
        return self._texts.text("modal.forbidden", ask.caller.locale)

    async def _say(self, ask: Ask, answers: Answers, key: str) -> None:
        await answers.whisper(self._texts.text(key, ask.caller.locale))


def fenced(text: str) -> str:
    r"""A text as a code block of at most one message: nothing in it is a link or a mention.

    >>> fenced("a ``` b")
    '```\na `\u200b`\u200b` b\n```'
    """
    inner = _inert(text)
    room = MAX_SEGMENT_CHARS - len(_block(""))
    return _block(inner if len(inner) <= room else inner[: room - 1] + "…")


def _inert(text: str) -> str:
    return text.replace("```", "`\u200b`\u200b`")


def _block(text: str) -> str:
    return f"```\n{text}\n```"
