"""The short texts that the gateway itself says: busy, failed, stopped, cut off.

Comes in: events of a turn, answers of admission, a locale. Goes out: text for a channel, from the
catalogs of `shared.i18n`. Upstream text never passes through here: `TurnFailed.headline` and `tips`
are classified, public sentences, in the person's language already.
"""

import re
from collections import OrderedDict, deque
from types import MappingProxyType
from typing import Final

from gateway.front import Button
from shared.causes import BILLING_CAUSES
from shared.i18n import Texts
from shared.segments import (
    FALLBACK,
    MAX_SEGMENT_CHARS,
    MERGED,
    REPLACED,
    THOUGHTS,
    WITHDRAWN,
    TurnDone,
    TurnFailed,
)
from shared.turns import CredentialSource, StopReason, TurnState

BUSY: Final = "notice.busy"
GUILD_BUSY: Final = "notice.guild_busy"
TOO_LARGE: Final = "notice.too_large"
EMPTY_PROMPT: Final = "notice.empty_prompt"
AGE_RESTRICTED: Final = "notice.age_restricted"
NOT_ALLOWED: Final = "notice.not_allowed"
TOO_SOON: Final = "notice.too_soon"
TOO_MANY: Final = "notice.too_many"
EMPTY_REPLY: Final = "notice.empty_reply"
STOPPED: Final = "notice.stopped"
FAILED: Final = "notice.failed"
CUT_OFF: Final = "notice.cut_off"
CODE: Final = "notice.code"
REST_IN_FILE: Final = "notice.rest_in_file"
SHOW_SOURCE: Final = "button.source"

RETRY: Final = "retry"
CONTINUE: Final = "continue"
STOP: Final = "stop"
FULL_ERROR: Final = "error"
SHOW_THOUGHTS: Final = "thoughts"
LABELS: Final = MappingProxyType(
    {
        RETRY: "button.retry",
        CONTINUE: "button.continue",
        STOP: "button.stop",
        FULL_ERROR: "button.full_error",
        SHOW_THOUGHTS: "button.thoughts",
    }
)
"""The words before the colon of custom ids, each with the key of its label."""

PERSON_MS: Final = 10_000
"""Who asks again within seconds has just been told."""
CHANNEL_MS: Final = 10_000
CHANNEL_BURST: Final = 3
"""Discord takes five messages in five seconds: the answers need them."""
MAX_REMEMBERED: Final = 10_000
"""People and channels that were told something lately; who is forgotten is told once more."""

_EMPTY_NOTE = "empty_reply"
"""A worker says so itself; it is the same as a reply that shows nothing."""
_NOTES = frozenset({"cut_off", "length", "content_filter", "budget_low", FALLBACK, THOUGHTS})
"""Keys of `TurnDone.notes` that are said. Any other shows nothing, and is logged by delivery."""
_STOPS = {StopReason.LENGTH: "length", StopReason.CONTENT_FILTER: "content_filter"}
_FOLLOWED = frozenset({REPLACED, MERGED, WITHDRAWN})
_FAULT = "fault."
_KEY = re.compile(r"(?:notice|failure)\.[a-z_]+")
"""A headline that is a key of the catalogs and no sentence."""


class Notices:
    """The gateway's own texts.

    Args:
        texts: the catalogs.
    """

    def __init__(self, texts: Texts) -> None:
        self._texts = texts

    def say(self, key: str, locale: str) -> str:
        """A text of this module's keys."""
        return self._texts.text(key, locale)

    def of_done(
        self, event: TurnDone, *, is_silent: bool, locale: str, is_command: bool = False
    ) -> str | None:
        """What is said after a whole reply, None for nothing (the usual case).

        Args:
            event: the end of the turn.
            is_silent: the reply shows no message at all.
            locale: the person's language.
            is_command: it answers a command, which shows that it waits until something is said.
        """
        if event.state is TurnState.CANCELLED:
            if WITHDRAWN in event.notes:
                return None
            followed = next((note for note in event.notes if note in _FOLLOWED), None)
            if followed is None:
                return self.say(STOPPED, locale)
            # The person sees the next message answered: that is said where the end would puzzle.
            is_said = is_command or not is_silent
            return f"-# {self.say(f'notice.{followed}', locale)}" if is_said else None
        keys = list(event.notes)
        if (implied := _STOPS.get(event.stop_reason)) is not None and implied not in keys:
            keys.append(implied)
        lines = [self.say(f"notice.{key}", locale) for key in keys if key in _NOTES]
        if not lines and (is_silent or _EMPTY_NOTE in keys):
            return self.say(EMPTY_REPLY, locale)
        return "\n".join(f"-# {line}" for line in lines) if lines else None

    def of_failed(self, event: TurnFailed, *, locale: str) -> str:
        """What is said when a turn ended without a whole reply: headline, tips, whose fault."""
        if event.state is TurnState.CANCELLED:
            return self.say(STOPPED, locale)
        headline = self._headline(event, locale)
        if event.count:
            headline = _row(headline, self.say(CUT_OFF, locale))
        footer = [self.say(_FAULT + event.fault.removeprefix(_FAULT), locale)]
        if event.code:
            footer.append(self._texts.text(CODE, locale, code=event.code))
        lines = [headline, *(f"- {tip}" for tip in event.tips), f"-# {_row(*footer)}"]
        return "\n".join(lines)[:MAX_SEGMENT_CHARS]

    def _headline(self, event: TurnFailed, locale: str) -> str:
        """A worker says it in the person's language; the queue's scripts know only its key."""
        if _KEY.fullmatch(event.headline):
            return self.say(event.headline, locale)
        return event.headline or self.say(FAILED, locale)

    def buttons_of(
        self, event: TurnDone | TurnFailed, turn_id: str, *, locale: str
    ) -> tuple[Button, ...]:
        """What may be pressed below the end of a turn. Ids only: rights are asked for at the press.

        Args:
            event: the end of the turn.
            turn_id: whose end it is.
            locale: the person's language.
        """
        found: list[tuple[str, str]] = []
        if isinstance(event, TurnFailed) and event.state is not TurnState.CANCELLED:
            if event.cause not in BILLING_CAUSES:
                found.append((RETRY, turn_id))
            # A supporter's key is the billing's: nobody here may see what the provider said of it.
            is_open = event.credential_source is not CredentialSource.SUPPORTER
            if event.report_id is not None and is_open:
                found.append((FULL_ERROR, event.report_id))
        if isinstance(event, TurnDone):
            if event.state is TurnState.DONE and event.stop_reason is StopReason.LENGTH:
                found.append((CONTINUE, turn_id))
            if THOUGHTS in event.notes:
                found.append((SHOW_THOUGHTS, turn_id))
        return tuple(self.button(action, subject, locale) for action, subject in found)

    def button(self, action: str, subject: str, locale: str) -> Button:
        """A button of this module's actions, for a turn or a report."""
        return Button(custom_id=f"{action}:{subject}", label=self.say(LABELS[action], locale))


def _row(*sentences: str) -> str:
    """Sentences one after another; a full stop of East Asian width brings its space along.

    >>> _row("One.", "Two."), _row("一。", "二。")
    ('One. Two.', '一。二。')
    """
    row = ""
    for sentence in sentences:
        row += sentence if not row or row.endswith("。") else f" {sentence}"
    return row


class NoticeRates:
    """How often a channel hears why there is no answer: a flood of prompts must not flood it.

    A person hears it once in `PERSON_MS`, a channel `CHANNEL_BURST` times in `CHANNEL_MS`: whoever
    asks next reads what the others were told.
    """

    def __init__(self) -> None:
        self._people: OrderedDict[tuple[int, int], int] = OrderedDict()
        self._channels: OrderedDict[int, deque[int]] = OrderedDict()

    def may(self, channel_id: int, user_id: int, now_ms: int) -> bool:
        """Whether a notice may be said now; it is counted if so."""
        person = (channel_id, user_id)
        said = self._channels.setdefault(channel_id, deque(maxlen=CHANNEL_BURST))
        self._channels.move_to_end(channel_id)
        is_told = now_ms - self._people.get(person, -PERSON_MS) < PERSON_MS
        is_full = len(said) == CHANNEL_BURST and now_ms - said[0] < CHANNEL_MS
        if is_told or is_full:
            return False
        self._people[person] = now_ms
        self._people.move_to_end(person)
        said.append(now_ms)
        while len(self._people) > MAX_REMEMBERED:
            self._people.popitem(last=False)
        while len(self._channels) > MAX_REMEMBERED:
            self._channels.popitem(last=False)
        return True


def unknown_notes(event: TurnDone) -> tuple[str, ...]:
    """Notes that this gateway has no text for, such as those of a newer worker."""
    known = _NOTES | _FOLLOWED | {_EMPTY_NOTE}
    return tuple(key for key in event.notes if key not in known)
