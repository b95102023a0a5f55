"""What guilds, channels and users chose, kept in Redis, and what holds because of it.

Comes in: places and choices. Goes out: `Settled`. It fulfils `ChoicesPort` and `ChoicesStorePort`
of `shared.configuration.choices`; composition roots and the command line make one.

One hash has them all: one command reads every layer of a prompt, and a change holds from the next
prompt on, everywhere.
"""

import logging
from collections.abc import Callable

import msgspec
from redis.asyncio import Redis

from shared.configuration.choices import Choices, Place, Scope, Settled
from shared.configuration.loading import Loaded
from shared.configuration.settling import settle
from shared.edges.credentials import CredentialStore
from shared.edges.redis import within
from shared.keys import Keys
from shared.logs import fields
from shared.turns import Route
from shared.wire import UNREADABLE

logger = logging.getLogger(__name__)

_decode = msgspec.json.Decoder(Choices).decode
_encode = msgspec.json.Encoder().encode


class ChoicesStore:
    """The choices of one cell. All methods raise `StoreUnavailable` when nobody answers."""

    def __init__(self, redis: Redis, keys: Keys) -> None:
        self._redis = redis
        self._keys = keys
        self._credentials = CredentialStore(redis, keys)

    async def read(self, scope: Scope, owner: int) -> Choices:
        """What was chosen; an owner who never chose has empty `Choices`."""
        return (await self.layers([(scope, owner)]))[0]

    async def write(self, scope: Scope, owner: int, choices: Choices) -> None:
        """Replaces what was chosen; empty `Choices` forget the owner."""
        name = _name(scope, owner)
        if choices == Choices():
            await within(self._redis.hdel(self._keys.choices, name))
        else:
            await within(self._redis.hset(self._keys.choices, name, _encode(choices).decode()))

    async def layers(self, owners: list[tuple[Scope, int]]) -> list[Choices]:
        """What several chose, in their order, read in one step."""
        names = [_name(scope, owner) for scope, owner in owners]
        found: list[bytes | None] = await within(self._redis.hmget(self._keys.choices, names))
        return [_choices(name, text) for name, text in zip(names, found, strict=True)]

    async def usable(self, layers: list[Choices]) -> list[Choices]:
        """The layers without models whose key is gone: nobody else pays for them."""
        refs = list(dict.fromkeys(one.model_key for one in layers if one.model and one.model_key))
        if not refs:
            return layers
        active = await self._credentials.active(refs)
        return [
            one
            if one.model_key is None or one.model_key in active
            else msgspec.structs.replace(one, model=None)
            for one in layers
        ]

    async def every(self) -> dict[str, Choices]:
        """All that was chosen, by `scope:id`."""
        found: dict[bytes, bytes] = await within(self._redis.hgetall(self._keys.choices))
        return {
            name.decode(): _choices(name.decode(), text) for name, text in sorted(found.items())
        }


class LiveChoices:
    """What holds, by the configuration as it stands now.

    Args:
        store: what guilds, channels and users chose.
        loaded: gives the configuration of this process.
    """

    def __init__(self, store: ChoicesStore, loaded: Callable[[], Loaded]) -> None:
        self._store = store
        self._loaded = loaded

    async def settle(self, place: Place, turn_id: str = "") -> Settled:
        """What holds for a prompt. Raises `StoreUnavailable`."""
        layers = await self._store.usable(await self._store.layers(owners_of(place)))
        loaded = self._loaded()
        return settle(loaded.configuration, loaded.basis, layers, turn_id)


def owners_of(place: Place) -> list[tuple[Scope, int]]:
    """Who chose something for a place, the general first."""
    channels = [one for one in (place.parent_id, place.channel_id) if one is not None]
    owners = [(Scope.CHANNEL, one) for one in channels]
    if place.guild_id is not None:
        owners.insert(0, (Scope.GUILD, place.guild_id))
    return [*owners, (Scope.USER, place.user_id)]


def _name(scope: Scope, owner: int) -> str:
    return f"{scope}:{owner}"


def _choices(name: str, text: bytes | None) -> Choices:
    if text is None:
        return Choices()
    try:
        return _decode(text)
    except UNREADABLE as exc:
        # Of another version, or changed by hand: the more general holds until it is set again.
        logger.warning("choices.unreadable", extra=fields(owner=name, reason=str(exc)))
        return Choices()


async def is_subscribed(store: ChoicesStore, loaded: Loaded, route: Route) -> bool:
    """Whether models that need a subscription answer here. Raises `StoreUnavailable`."""
    place = Place(
        channel_id=route.channel_id,
        user_id=route.user_id,
        guild_id=route.guild_id,
    )
    layers = await store.layers(owners_of(place))
    return settle(loaded.configuration, loaded.basis, layers).subscribed
