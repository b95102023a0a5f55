"""The deployment's pools of provider keys: whose turn it is, and which one rests.

Comes in: keys of the environment; what happened to them. Goes out: an endpoint with one key, the
same choice for the whole fleet, since the pool's state lies in Redis. It is the real `KeysPort` of
`worker.turn`; only `worker.app` constructs it.

A key is known there by a digest; the key itself never leaves the process but for its provider.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping

import msgspec
from redis.asyncio import Redis

from shared.edges.credentials import CredentialStore
from shared.edges.redis import within
from shared.edges.scripting import Script
from shared.errors import StoreError, StoreUnavailable
from shared.keys import Keys
from shared.lifetimes import KEY_POOL_TTL_MS
from shared.logs import fields
from shared.sealed import key_id as digest_of
from shared.secrets import Secret
from shared.turns import CredentialSource, TurnRequest
from worker.edges.sealed_keys import SealedKeys
from worker.providers.endpoints import server_endpoint, server_keys
from worker.providers.quirks import is_custom, resolve
from worker.providers.requests import KeyedEndpoint

MAX_REST_MS = KEY_POOL_TTL_MS // 2
"""No rest outlives the record of it. A provider that asks for more is asked again after that."""

MIN_PARK_S = 0.5
"""A shorter rest is over before the next turn has asked."""
MAX_PARK_S = 60.0
"""A fifth of a turn's time in the queue; who would wait longer is told at once."""
AWAY_S = 0.2
"""Between tries to read a credential while Redis is away: soon after it is back."""

log = logging.getLogger(__name__)


Park = Callable[[str, float], Awaitable[None]]


async def _start_all(_name: str, _rest_s: float) -> None:
    """Lets no turn wait."""


class KeyPools:
    """The pools of all providers.

    Args:
        redis: a client of `shared.edges.redis.connect`.
        keys: the key names of the cell.
        endpoints: the operator's base URLs by provider.
        environ: the process's environment.
        sealed: opens the credentials that requests name.
        placed: further keys of a provider, as they stand now.
        park: lets turns of a provider key wait so many seconds before they are started.
    """

    def __init__(
        self,
        redis: Redis,
        keys: Keys,
        endpoints: Mapping[str, str],
        environ: Mapping[str, str],
        sealed: SealedKeys | None = None,
        placed: Callable[[str], list[Secret]] = lambda _provider: [],
        park: Park = _start_all,
    ) -> None:
        self._redis = redis
        self._park = park
        self._pools: dict[str, list[str]] = {}
        self._keys = keys
        self._sealed = sealed or SealedKeys(CredentialStore(redis, keys), None, endpoints)
        self._endpoints = endpoints
        self._environ = environ
        self._placed = placed
        self._claim = Script(redis, "claim_key")
        self._rest = Script(redis, "rest_key")

    async def endpoint(
        self, provider: str, tried: frozenset[str], request: TurnRequest | None = None
    ) -> KeyedEndpoint:
        """Where a provider is reached, with a key whose id is not among `tried`.

        A request that names a credential gets that one or a refusal, never a key of the pool.
        Without Redis the first untried key of the pool is given; the turn must go on.

        Raises:
            ConfigError: nobody said where the provider listens.
            StoreError: the request names a credential, and Redis refuses to give it.
        """
        if request is not None and (own := request.credential) is not None:
            return await self._opened(provider, own, request)
        endpoint = server_endpoint(provider, self._endpoints, self._environ)
        keys = self._placed(provider)
        if not (keys and is_custom(resolve(provider))):  # theirs is one variable for all of them
            keys = [*server_keys(provider, self._environ), *keys]
        pool = {key_id(one): one for one in keys}
        self._pools[provider] = list(pool)
        if not pool:
            return KeyedEndpoint(endpoint=endpoint)
        chosen, others = await self._chosen(provider, tried, list(pool))
        keyed = msgspec.structs.replace(endpoint, key=pool[chosen])
        return KeyedEndpoint(endpoint=keyed, key_id=chosen, others=others)

    async def _opened(self, provider: str, own: str, request: TurnRequest) -> KeyedEndpoint:
        """The endpoint of a credential; waits while Redis is away, as all of a turn does."""
        while True:
            try:
                return await self._sealed.endpoint(provider, own, request)
            except StoreUnavailable as exc:
                log.debug("credential.waits", extra=fields(reason=str(exc)))
            await asyncio.sleep(AWAY_S)

    async def rest(self, provider: str, chosen: str, rest_s: float) -> None:
        """Leaves a key alone for a while, in the whole fleet. Without Redis it is only logged."""
        rest_ms = min(MAX_REST_MS, round(rest_s * 1000))
        args: list[str | bytes | int] = [KEY_POOL_TTL_MS, chosen, rest_ms]
        try:
            await within(self._rest([self._keys.key_pool(provider)], args))
        except StoreError as exc:
            log.warning("key.rest_lost", extra=fields(key_id=chosen, reason=str(exc)))
        else:
            log.info("key.rests", extra=fields(key_id=chosen, rest_ms=rest_ms))
            await self._park_turns(provider, chosen)

    async def _park_turns(self, provider: str, chosen: str) -> None:
        """Once every key of a pool rests, turns that wait keep their attempts until one is back.

        Not for a long rest: whoever asks should hear of a day's quota, not wait for it.
        """
        pool = self._pools.get(provider, [])
        if chosen not in pool:
            return  # a person's own key
        try:
            name, names = self._keys.key_pool(provider), [f"r:{one}" for one in pool]
            rests: list[bytes | None] = await within(self._redis.hmget(name, names))
            seconds, micros = await within(self._redis.time())
            rest_s = min(int(rest or 0) for rest in rests) / 1000 - seconds - micros / 1e6
            if MIN_PARK_S <= rest_s <= MAX_PARK_S:
                await self._park(f"rest:{provider}:{CredentialSource.SERVER}", rest_s)
                log.warning("key.turns_parked", extra=fields(provider=provider, rest_s=rest_s))
        except StoreError as exc:
            log.warning("key.park_lost", extra=fields(provider=provider, reason=str(exc)))

    async def _chosen(
        self, provider: str, tried: frozenset[str], ids: list[str]
    ) -> tuple[str, int]:
        left = [one for one in ids if one not in tried] or ids
        if len(ids) == 1:
            return left[0], 0
        args: list[str | bytes | int] = [KEY_POOL_TTL_MS, len(tried), *sorted(tried), *ids]
        try:
            answer = await within(self._claim([self._keys.key_pool(provider)], args))
        except StoreError as exc:
            log.warning("key.chosen_alone", extra=fields(reason=str(exc)))
            return left[0], len(left) - 1
        chosen: str = answer[0].decode()
        others: int = answer[1]
        return (chosen, others) if chosen in ids else (left[0], 0)


def key_id(key: Secret) -> str:
    """The name of a key in records and reports: a digest that says nothing of the key."""
    return digest_of(key)
