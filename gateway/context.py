"""From a prompt and what holds for it to a turn request.

Comes in: a prompt of a front, `Settled`. Goes out: the place it was written at, the request. Pure;
intake imports it.
"""

import re
from enum import StrEnum
from types import MappingProxyType
from typing import Final, Protocol

import msgspec

from gateway.addressing import route_of, turn_id_of
from gateway.front import Prompt
from gateway.notices import TOO_MANY, TOO_SOON
from shared.configuration.choices import Place, Settled
from shared.history import Reading, Remembered
from shared.messages import Message, Role
from shared.turns import Speaker, TurnRequest

_EMOJI: Final = re.compile(r"(?=<a?:(\w{2,32}):\d{1,20}>)(<a?:\w{2,32}:\d{1,20}>)")


class Paced(StrEnum):
    """Whether one person may have one more turn. `pace.lua` answers these words."""

    TAKEN = "taken"
    TOO_SOON = "too_soon"
    TOO_MANY = "too_many"


class PacePort(Protocol):
    """How much one person may ask at once. It may raise `StoreUnavailable`."""

    async def ask(self, user_id: int, turn_id: str, *, is_late: bool) -> Paced:
        """Whether a turn is taken; asked twice, the answer is the same."""
        ...


PACE_NOTICES: Final = MappingProxyType({Paced.TOO_SOON: TOO_SOON, Paced.TOO_MANY: TOO_MANY})
"""What is said to whoever asks too much."""


def place_of(prompt: Prompt) -> Place:
    """Where a prompt was written, and by whom."""
    return Place(
        channel_id=prompt.channel_id,
        user_id=prompt.user_id,
        guild_id=prompt.guild_id,
        parent_id=prompt.parent_id,
        roles=prompt.roles or (),
    )


def speaker_of(settled: Settled) -> Speaker | None:
    """Who answers: the persona under its own name, or the bot itself."""
    persona = settled.persona
    if persona is None or persona.as_bot:
        return None
    return Speaker(name=persona.name, avatar=persona.avatar)


def may_speak(settled: Settled, prompt: Prompt) -> bool:
    """Whether the persona may speak here: some do so only where the channel is marked for it."""
    persona = settled.persona
    return persona is None or not persona.age_restricted or prompt.is_age_restricted


def request_of(prompt: Prompt, text: str, settled: Settled, *, now_ms: int) -> TurnRequest:
    """The turn that answers a prompt. A model that the person chose has no fallbacks."""
    return TurnRequest(
        turn_id=turn_id_of(prompt),
        route=msgspec.structs.replace(
            route_of(prompt, settled.locale), speaker=speaker_of(settled)
        ),
        target=prompt.target or settled.target,
        fallbacks=() if prompt.target else settled.fallbacks,
        sampling=settled.sampling,
        system=settled.system,
        messages=[Message(role=Role.USER, content=text)],
        created_ms=now_ms,
        delivery_mode=settled.delivery_mode,
        follow_up=settled.follow_up,
        lane=settled.lane,
        tool_names=settled.tools,
        persona=settled.persona_id,
        reading=reading_of(prompt, settled),
        keep_thoughts_s=round(settled.details_hours * 3_600) if settled.show_thoughts else 0,
    )


def reading_of(prompt: Prompt, settled: Settled) -> Reading:
    """What the turn reads beside its prompt. In a guild several people speak, so names count."""
    replied = prompt.replied
    theirs = () if replied is None else replied.attachments
    members = _members(prompt)
    persona = settled.persona
    is_guarded = persona is not None and persona.speaker_guard
    return Reading(
        before=prompt.message_id,
        context=settled.context,
        messages=settled.history_messages,
        reply_to=prompt.reply_to if replied is None else replied.id,
        author=prompt.author if prompt.guild_id is not None else "",
        own_name=prompt.own_name if persona is None else persona.name,
        members=members,
        emoji=tuple(_EMOJI.findall(prompt.text)),
        speakers=tuple(name for name, _ in members) if is_guarded else (),
        attachments=(*prompt.attachments, *theirs),
        details_hours=settled.details_hours,
    )


def remembered_of(prompt: Prompt) -> Remembered:
    """A person's message as it is kept."""
    return Remembered(
        id=prompt.message_id,
        user_id=prompt.user_id,
        text=readable(prompt.text, dict(prompt.names)),
        author=prompt.author,
        reply_to=prompt.reply_to if prompt.replied is None else prompt.replied.id,
        attachments=prompt.attachments,
    )


def _members(prompt: Prompt) -> tuple[tuple[str, int], ...]:
    """Who is spoken of, by name; a name that several have names nobody."""
    people = [(prompt.user_id, prompt.author), *prompt.names]
    if prompt.replied is not None and not prompt.replied.is_own:
        people.append((prompt.replied.user_id, prompt.replied.author))
    ids: dict[str, set[int]] = {}
    for user_id, name in people:
        if name and name != prompt.own_name:
            ids.setdefault(name, set()).add(user_id)
    return tuple((name, next(iter(found))) for name, found in ids.items() if len(found) == 1)


def readable(text: str, names: dict[int, str]) -> str:
    """A text with names for mentions, and emoji by name.

    >>> readable("<@5> <:wave:7>", {5: "Ann"})
    '@Ann :wave:'
    """

    def name(found: re.Match[str]) -> str:
        known = names.get(int(found[1]))
        return found[0] if known is None else f"@{known}"

    text = re.sub(r"<@!?(\d{1,20})>", name, text)
    return re.sub(r"<a?(:\w{2,32}:)\d{1,20}>", r"\1", text)
