"""Admission with a key: every turn is told whose credential it runs on, and is found again.

Comes in: requests on their way to the queue. Goes out: the same with a credential's reference, and
a note of the channel's latest turns for commands. `gateway.app` puts it before the queue.
"""

import logging

import msgspec
from redis.asyncio import Redis

from gateway.ports import Admit
from shared.edges.credentials import CredentialStore
from shared.edges.redis import within
from shared.errors import StoreError
from shared.keys import Keys
from shared.lifetimes import RECENT_MAX_TURNS, RECENT_TTL_MS
from shared.turns import TAKEN, Admission, CredentialSource, TurnRequest

logger = logging.getLogger(__name__)


class KeyedAdmissions:
    """Admissions that choose a credential.

    Args:
        admit: takes them.
        credentials: of the cell.
        redis: a client for short commands.
        keys: the cell's keys.
    """

    def __init__(
        self, admit: Admit, credentials: CredentialStore, redis: Redis, keys: Keys
    ) -> None:
        self._admit = admit
        self._credentials = credentials
        self._redis = redis
        self._keys = keys

    async def admit(self, request: TurnRequest) -> Admission:
        """Takes a turn, or says why not. One that names a credential keeps it: it is a replay."""
        if request.credential is None:
            request = await self._keyed(request)
        answer = await self._admit(request)
        if answer in TAKEN:
            await self._note(request)
        return answer

    async def _keyed(self, request: TurnRequest) -> TurnRequest:
        route, provider = request.route, request.target.provider
        ref = await self._credentials.choose(
            provider, user_id=route.user_id, guild_id=route.guild_id
        )
        if ref is None:
            return msgspec.structs.replace(request, credential_source=CredentialSource.SERVER)
        return msgspec.structs.replace(
            request,
            credential=str(ref),
            credential_source=ref.scope,
            # A credential is good at its own provider; at another one the turn would only fail.
            fallbacks=tuple(one for one in request.fallbacks if one.provider == provider),
        )

    async def _note(self, request: TurnRequest) -> None:
        """Remembers the turn for `/stop` and `/retry`; without it they find one turn less."""
        key = self._keys.recent_turns(request.route.channel_id)
        try:
            async with self._redis.pipeline(transaction=False) as pipe:
                pipe.lpush(key, request.turn_id)
                pipe.ltrim(key, 0, RECENT_MAX_TURNS - 1)
                pipe.pexpire(key, RECENT_TTL_MS)
                await within(pipe.execute())
        except StoreError as exc:
            logger.debug("admission.unnoted", extra={"error": str(exc)})
