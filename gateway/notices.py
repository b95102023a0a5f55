"""The short texts that the gateway itself says: busy, failed, stopped, cut off.

Comes in: events of a turn, answers of admission. Goes out: text for a channel. Upstream text never
passes through here: `TurnFailed.headline` and `tips` are classified, public sentences. Pure.

English only: the catalog of localized texts (`shared/i18n.py`) is not there yet, and `locale` is
taken, and not used, until it is.
"""

from shared.failures import Fault
from shared.segments import MAX_SEGMENT_CHARS, TurnDone, TurnFailed
from shared.turns import StopReason, TurnState

BUSY = "I have too much to do at the moment. Please ask again in a minute."
GUILD_BUSY = "Many questions from this server are waiting already. Please ask again in a minute."
TOO_LARGE = "That is more than I can take in at once. Please make it shorter."
EMPTY_REPLY = "The model answered without any text. Please ask again, perhaps in other words."
STOPPED = "Stopped."
FAILED = "Something went wrong, and there is no answer."
CUT_OFF = "The answer above was cut off."
EMPTY_PROMPT = "Yes? Write your question after the mention."

_EMPTY_NOTE = "empty_reply"
"""A worker says so itself; it is the same as a reply that shows nothing."""
_NOTES = {
    "cut_off": CUT_OFF,
    "length": "The answer was cut off: it reached the length limit.",
    "content_filter": "The provider's filter ended the answer early.",
}
"""Keys of `TurnDone.notes`. A key that is not here shows nothing, and is logged by delivery."""

_FAULTS = {
    Fault.PROVIDER.value: "The cause lies with the model's provider.",
    Fault.TURNFLEET.value: "The cause lies with this bot.",
    Fault.CONFIG.value: "The cause lies in this bot's configuration.",
}
"""Whose fault it was, as the last line of a notice; for other faults the headline says enough."""

_STOPS = {StopReason.LENGTH: "length", StopReason.CONTENT_FILTER: "content_filter"}


def done_notice(event: TurnDone, *, is_silent: bool, locale: str) -> str | None:
    """What is said after a whole reply, None for nothing (the usual case).

    Args:
        event: the end of the turn.
        is_silent: the reply shows no message at all.
        locale: the person's language.
    """
    del locale
    if event.state is TurnState.CANCELLED:
        return STOPPED
    keys = list(event.notes)
    if (implied := _STOPS.get(event.stop_reason)) is not None and implied not in keys:
        keys.append(implied)
    lines = [_NOTES[key] for key in keys if key in _NOTES]
    if not lines and (is_silent or _EMPTY_NOTE in keys):
        return EMPTY_REPLY
    return "\n".join(f"-# {line}" for line in lines) if lines else None


def unknown_notes(event: TurnDone) -> tuple[str, ...]:
    """Notes that this gateway has no text for, such as those of a newer worker."""
    return tuple(key for key in event.notes if key not in _NOTES and key != _EMPTY_NOTE)


def failed_notice(event: TurnFailed, *, locale: str) -> str:
    """What is said when a turn ended without a whole reply."""
    del locale
    if event.state is TurnState.CANCELLED:
        return STOPPED
    headline = event.headline or FAILED
    lines = [f"{headline} {CUT_OFF}" if event.count else headline]
    lines += [f"- {tip}" for tip in event.tips]
    footer = _FAULTS.get(event.fault, "")
    code = f"`{event.code}`" if event.code else ""
    if footer or code:
        lines.append(f"-# {' '.join(part for part in (footer, code) if part)}")
    return "\n".join(lines)[:MAX_SEGMENT_CHARS]
