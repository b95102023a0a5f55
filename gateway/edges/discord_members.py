"""The roles of members, for prompts that came without them.

Comes in: a guild and a person. Goes out: their roles, asked for once and remembered for a while: a
message that is read in a channel's history does not tell who wrote it as a member.
`gateway.edges.discord` has one.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final
from weakref import WeakValueDictionary

import msgspec

from gateway.front import Prompt, Refused, Unavailable

KEEP_ROLES_S: Final = 60.0
"""A history after an outage is read within this; a role that was given or taken counts soon."""
MAX_MEMBERS: Final = 10_000
"""Members whose roles are remembered, 5 MB: as many as prompts may wait."""

Roles = tuple[int, ...]
Fetch = Callable[[int, int], Awaitable[Roles | Refused | Unavailable]]
"""Asks for the roles of a guild's member; `Refused` is a person who is none."""


class Members:
    """The roles of members, as far as they were asked for lately.

    Args:
        fetch: asks for them.
        now_s: a clock.
    """

    def __init__(self, fetch: Fetch, *, now_s: Callable[[], float] = time.monotonic) -> None:
        self._fetch = fetch
        self._now_s = now_s
        self._asking = WeakValueDictionary[tuple[int, int], asyncio.Lock]()
        self._known: OrderedDict[tuple[int, int], tuple[float, Roles | Refused]] = OrderedDict()

    async def with_roles(self, prompt: Prompt) -> Prompt | Refused | Unavailable:
        """The prompt with its person's roles. Cancelled, nothing is remembered."""
        if prompt.roles is not None or prompt.guild_id is None:
            return prompt
        found = await self._roles(prompt.guild_id, prompt.user_id)
        return msgspec.structs.replace(prompt, roles=found) if isinstance(found, tuple) else found

    async def _roles(self, guild_id: int, user_id: int) -> Roles | Refused | Unavailable:
        member = (guild_id, user_id)
        async with self._asking.setdefault(member, asyncio.Lock()):
            asked_s, known = self._known.get(member, (-KEEP_ROLES_S, ()))
            if self._now_s() - asked_s < KEEP_ROLES_S:
                return known
            found = await self._fetch(guild_id, user_id)
            if not isinstance(found, Unavailable):
                self._known[member] = (self._now_s(), found)
                self._known.move_to_end(member)
                while len(self._known) > MAX_MEMBERS:
                    self._known.popitem(last=False)
            return found
