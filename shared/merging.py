"""Two prompts that wait, as one turn; and the words of each of them, when they change.

Comes in: the turn that waits, and its user's next one, or what became of a prompt. Goes out: the
next one with both prompts, or the turn with other words. Pure; edges of queue and gateway import
it.
"""

from collections.abc import Iterable

import msgspec

from shared.history import Attachment, Reading
from shared.turns import TurnRequest

MAX_MERGED = 20
"""Turns in one: a prompt that is still being typed after twenty messages gets an answer first."""


def merged(older: TurnRequest, newer: TurnRequest) -> TurnRequest | None:
    """The newer turn, which answers both prompts; None where they want different answers.

    A command has an answer of its own, and a replay is not its user's message.
    """
    is_alike = all(getattr(older, name) == getattr(newer, name) for name in _ALIKE)
    is_typed = not any(one.replay_of or one.route.interaction for one in (older, newer))
    if not (is_alike and is_typed) or len(older.merged) + 1 >= MAX_MERGED:
        return None
    return msgspec.structs.replace(
        newer,
        messages=[*older.messages, *newer.messages],
        merged=prompts_of(older) or (*older.merged, older.turn_id),
        reading=_read_for_both(older, newer),
    )


def prompts_of(request: TurnRequest) -> tuple[str, ...]:
    """The turns whose prompts stand in a request, in the order of its messages.

    Its own is the last, unless that was taken back. Empty for what is no row of prompts: a reply
    that goes on has an answer among its messages.
    """
    own = (*request.merged, request.turn_id)
    count = len(request.messages)
    return own[:count] if count in (len(own), len(own) - 1) else ()


def amended(request: TurnRequest, turn_id: str, text: str) -> TurnRequest | None:
    """The turn with other words of one prompt; None where it has none of it, or the same."""
    prompts = prompts_of(request)
    if turn_id not in prompts:
        return None
    messages, place = list(request.messages), prompts.index(turn_id)
    if messages[place].content == text:
        return None
    messages[place] = msgspec.structs.replace(messages[place], content=text)
    return msgspec.structs.replace(request, messages=messages)


def without(request: TurnRequest, turn_id: str) -> TurnRequest | None:
    """The turn without one prompt and its files; None where nothing is left, or it has none of it.

    It keeps its id, also without its own prompt: what was said of it stays true.
    """
    prompts = prompts_of(request)
    if turn_id not in prompts or len(prompts) == 1:
        return None
    place, reading = prompts.index(turn_id), request.reading
    if reading is not None:
        kept = tuple(one for one in reading.attachments if one.prompt != turn_id)
        reading = msgspec.structs.replace(reading, attachments=kept)
    return msgspec.structs.replace(
        request,
        messages=[*request.messages[:place], *request.messages[place + 1 :]],
        merged=tuple(one for one in request.merged if one != turn_id),
        reading=reading,
    )


def _read_for_both(older: TurnRequest, newer: TurnRequest) -> Reading | None:
    """What the newer prompt reads, with the files and the answered message of the older one."""
    first, last = older.reading, newer.reading
    if first is None or last is None:
        return last
    return msgspec.structs.replace(
        last,
        attachments=(*_with_prompt(older, first), *_with_prompt(newer, last)),
        reply_to=last.reply_to if last.reply_to is not None else first.reply_to,
    )


def _with_prompt(request: TurnRequest, reading: Reading) -> Iterable[Attachment]:
    """The files of a turn, each with the turn whose prompt brought it."""
    return (
        one if one.prompt else msgspec.structs.replace(one, prompt=request.turn_id)
        for one in reading.attachments
    )


_ALIKE = (
    "target",
    "fallbacks",
    "system",
    "sampling",
    "credential_source",
    "credential",
    "delivery_mode",
    "persona",
    "follow_up",
    "tool_names",
)
"""Fields that decide how a prompt is answered."""
