"""Opens the credential that a turn names, for this turn only.

Comes in: a reference and the request that carries it. Goes out: an endpoint with the key, or the
reason why there is none. Only `worker.edges.keys` uses it. Nothing is kept: a revocation counts
from the next attempt on, and a plaintext key lives as long as its attempt.
"""

import asyncio
from collections.abc import Mapping
from pathlib import Path

from nacl.public import PrivateKey

from shared.edges.credentials import CredentialStore, load_opening_keys
from shared.errors import ConfigError, CredentialError
from shared.sealed import CredentialRef, key_id, mark_of, unseal
from shared.turns import CredentialSource, TurnRequest
from worker.providers.endpoints import server_endpoint
from worker.providers.requests import Endpoint, KeyedEndpoint


class SealedKeys:
    """The credentials of a cell, with the keys that open them.

    Args:
        store: where boxes are kept.
        path: of the opening keys; None where this process has none.
        endpoints: the operator's base URLs by provider.
    """

    def __init__(
        self, store: CredentialStore, path: Path | None, endpoints: Mapping[str, str]
    ) -> None:
        self._store = store
        self._path = path
        self._endpoints = endpoints
        self._keys: list[PrivateKey] = []

    async def endpoint(self, provider: str, text: str, request: TurnRequest) -> KeyedEndpoint:
        """The endpoint that the credential of this name opens, or a refusal.

        Raises:
            ConfigError: nobody said where the provider listens.
            StoreError: Redis does not give the credential.
        """
        # No key of the deployment may go where a credential was named: hence an empty environment.
        place = server_endpoint(provider, self._endpoints, {})
        try:
            return await self._opened(place, _checked(text, provider, request))
        except CredentialError as exc:
            return KeyedEndpoint(endpoint=place, refusal=str(exc))

    async def _opened(self, place: Endpoint, ref: CredentialRef) -> KeyedEndpoint:
        stored = await self._store.get(ref)
        if stored is None or stored.is_revoked:
            raise CredentialError("the credential was revoked")
        opened = unseal(await self._fitting(stored.box), stored.box, ref, stored.version)
        endpoint = Endpoint(base_url=opened.endpoint or place.base_url, key=opened.key)
        return KeyedEndpoint(endpoint=endpoint, key_id=key_id(opened.key))

    async def _fitting(self, box: bytes) -> list[PrivateKey]:
        """The opening keys; read again when none fits, since they may have been rotated."""
        if not any(box.startswith(mark_of(key.public_key)) for key in self._keys):
            try:
                self._keys = await asyncio.to_thread(self._load)
            except ConfigError as exc:
                raise CredentialError(str(exc)) from exc
        return self._keys

    def _load(self) -> list[PrivateKey]:
        return [] if self._path is None else load_opening_keys(self._path)


def _checked(text: str, provider: str, request: TurnRequest) -> CredentialRef:
    """The reference, if this turn may use it for this provider.

    Raises:
        CredentialError: it may not.
    """
    ref = CredentialRef.parsed(text)
    owner = {
        CredentialSource.SERVER: request.route.guild_id,
        CredentialSource.PERSONAL: request.route.user_id,
        CredentialSource.SUPPORTER: ref.owner_id,  # a supporter lends the key to others
    }[ref.scope]
    if ref.scope is not request.credential_source or ref.owner_id != owner:
        raise CredentialError("the credential belongs to somebody else")
    if ref.provider != provider:
        raise CredentialError("the credential is for another provider")
    return ref
