"""A request that others may see: what the rooms look at, and nobody's name, id or words.

Comes in: a request, and what the model replied. Goes out: a request whose recording plays to the
same messages. Ids have stand-ins of the same length, so that texts are cut where they were. Names
and ids that stand in the reply stay: the reply is exported too, byte for byte, and the rooms find
them in it.

A field is kept because it is named here; a new one is dropped until then.
"""

import hashlib
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, TypeVar

import msgspec

from ops.replay.recorded import Layer, Tape, bodies_of, steps_until_a_crash
from shared.history import Reading
from shared.messages import Message, Role
from shared.turns import Route, TurnRequest

NOBODY: Final = 0
"""In the place of a channel's, a person's or a prompt's id that no room reads."""
KEPT: Final[Mapping[type[msgspec.Struct], tuple[str, ...]]] = MappingProxyType(
    {
        TurnRequest: (
            "target",
            "created_ms",
            "version",
            "fallbacks",
            "tools",
            "sampling",
            "credential_source",
            "delivery_mode",
            "follow_up",
            "lane",
            "tool_names",
            "wait_ms",
            "keep_thoughts_s",
        ),
        Route: ("front", "locale"),
        Reading: ("context", "messages", "details_hours"),
    }
)
"""Fields that say nothing of anyone."""
CHANGED: Final[Mapping[type[msgspec.Struct], tuple[str, ...]]] = MappingProxyType(
    {
        TurnRequest: ("turn_id", "replay_of", "continue_of", "route", "messages", "reading"),
        Route: ("channel_id", "user_id", "guild_id", "parent_id"),
        Reading: ("before", "own_name", "members", "emoji", "speakers"),
    }
)
"""Fields of which something stays, as `anonymous` puts it. All others are dropped."""

_ID = re.compile(
    r"(?<=<@)\d{1,20}(?=>)|(?<=<@!)\d{1,20}(?=>)|(?<=:)\d{1,20}(?=>)"
    r"|(?<![0-9A-Za-z])(?P<hash>[0-9a-f]{24,})(?![0-9A-Za-z])"
    r"|(?<!\d)(?<!\d\.)\d{15,20}(?!\d)"
)
"""Mentions, emoji, and numbers as long as Discord's ids; no part of a hash or of a fraction."""

_TURNS = frozenset({"turn_id", "replay_of"})
"""Facts that name a turn: its id is made of a message's, which leads to the channel."""

S = TypeVar("S", bound=msgspec.Struct)


class StandIns:
    """What stands for ids in one export: the same for the same, and nobody finds the id from it.

    Args:
        said: what the model replied.
        key: random bytes of this export.
    """

    def __init__(self, said: str, key: bytes) -> None:
        self._said = said.lower()
        self._numbers_said = {int(one) for one in re.findall(r"(?<!\d)\d{1,20}(?!\d)", said)}
        self._key = key
        self._numbers: dict[int, int] = {}
        self._given = 0

    def is_said(self, name: str) -> bool:
        """Whether the reply has a name, as words of their own and in any case."""
        pattern = rf"(?<!\w){re.escape(name.lower())}(?!\w)"
        return bool(name) and re.search(pattern, self._said) is not None

    def number(self, real: int) -> int:
        """What stands for an id; the id itself where the reply has it."""
        if real in self._numbers_said:
            return real
        if real not in self._numbers:
            self._given += 1
            self._numbers[real] = 10 ** (len(str(real)) - 1) + self._given
        return self._numbers[real]

    def member(self, name: str, user_id: int) -> tuple[str, int] | None:
        """Who is spoken of; None for whom the reply names neither by name nor by id."""
        if self.is_said(name):
            return name, self.number(user_id)
        # An id that the model wrote is a member's, whatever name stands before it. No reply can
        # mention somebody by a name in brackets.
        return (f"[{user_id}]", user_id) if user_id in self._numbers_said else None

    def text(self, text: str) -> str:
        """A text with other numbers for the ids in it."""
        return _ID.sub(self._other, text)

    def _other(self, found: re.Match[str]) -> str:
        return found[0] if found["hash"] else str(self.number(int(found[0])))

    def facts(self, facts: dict[str, object]) -> dict[str, object]:
        """The same for what is JSON, ids of turns in it as marks."""
        text = self.text(msgspec.json.encode(self._marked(facts)).decode())
        return msgspec.json.decode(text, type=dict[str, object])

    def _marked(self, facts: Mapping[str, object]) -> dict[str, object]:
        marked: dict[str, object] = {}
        for name, value in facts.items():
            if name in _TURNS and isinstance(value, str):
                marked[name] = self.mark(value)
            else:
                marked[name] = self._marked(value) if isinstance(value, dict) else value
        return marked

    def mark(self, value: object) -> str:
        """What stands for a value that nothing counts or compares."""
        return mark(value, self._key)


def mark(value: object, key: bytes) -> str:
    """What stands for a value: the same for the same under one key, and only under that."""
    return hashlib.blake2b(str(value).encode(), key=key, digest_size=8).hexdigest()


def said_in(tape: Tape) -> str:
    """All that an attempt's recording has: as it came, and its text put together.

    Raises:
        WireError: the recording cannot be read.
    """
    parts = [body.decode("utf-8", "replace") for body in bodies_of(tape.recording)]
    parts.append("\n")
    for step in steps_until_a_crash(tape):
        if step.layer is Layer.CHUNK:
            parts.append(str(step.facts.get("content", "")))
        elif step.layer is Layer.CARRIED:
            parts.append(f"\n{step.facts['text']}\n")
        elif step.layer is Layer.ASKED:
            parts.append("\n")  # the text of another answer begins a word of its own
    return "".join(parts)


def anonymous(request: TurnRequest, stand_ins: StandIns) -> TurnRequest:
    """The request without what people said or are; what the rooms look at stays."""
    said = [
        Message(
            role=Role.USER, content=f"[{len(msgspec.json.encode(one))} bytes, {one.role.value}]"
        )
        for one in request.messages
    ]
    reading = request.reading
    return _kept(
        request,
        turn_id=stand_ins.mark(request.turn_id),
        replay_of=None if request.replay_of is None else stand_ins.mark(request.replay_of),
        continue_of=None if request.continue_of is None else stand_ins.mark(request.continue_of),
        route=_route(request.route),
        messages=said,
        reading=None if reading is None else _reading(reading, stand_ins),
    )


def _route(route: Route) -> Route:
    return _kept(
        route,
        channel_id=NOBODY,
        user_id=NOBODY,
        guild_id=None if route.guild_id is None else NOBODY,
        parent_id=None if route.parent_id is None else NOBODY,
    )


def _reading(reading: Reading, stand_ins: StandIns) -> Reading:
    is_said = stand_ins.is_said
    members = [stand_ins.member(name, user_id) for name, user_id in reading.members]
    emoji = [(name, stand_ins.text(form)) for name, form in reading.emoji if is_said(name)]
    return _kept(
        reading,
        before=NOBODY,
        own_name=reading.own_name if is_said(reading.own_name) else "",
        members=tuple(one for one in members if one is not None),
        emoji=tuple(emoji),
        speakers=tuple(filter(is_said, reading.speakers)),
    )


def _kept(value: S, **changed: object) -> S:
    """A struct of the fields that are kept, and of those that are given; no other one stays."""
    kind = type(value)
    return kind(**{name: getattr(value, name) for name in KEPT[kind]}, **changed)
