"""Sealed credentials in Redis, the file of the keys that open them, and who did what to them.

Comes in: boxes and references. Goes out: stored credentials, and the trail of changes. Gateway and
operators store, workers read; the opening keys are for workers and for the operator who rotates.
"""

import asyncio
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec
from nacl.public import PrivateKey, PublicKey
from redis.asyncio import Redis
from redis.exceptions import WatchError

from shared.config import Settings, data_dir
from shared.edges.redis import CALL_TIMEOUT_S, translated, within
from shared.errors import ConfigError, CredentialError
from shared.keys import Keys
from shared.lifetimes import CREDENTIAL_AUDIT_MAX
from shared.sealed import CredentialRef, private_keys_of, public_key_of
from shared.turns import CredentialSource

OPENING_KEYS_FILE: Final = "opening.keys"
"""In the data directory, where no other file is named."""
SEALING_SUFFIX: Final = ".public"
"""Of the file beside it that holds the public half of the newest key."""


class StoredCredential(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A credential as it is kept. A revoked one has no box any more, but its place stays."""

    ref: CredentialRef
    version: int
    changed_ms: int
    key_id: str = ""
    endpoint: str = ""
    box: bytes = b""

    @property
    def is_revoked(self) -> bool:
        """Whether its owner took it back."""
        return not self.box


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the trail: `added`, `replaced`, `revoked` or `resealed`, when and by whom."""

    at_ms: int
    word: str
    ref: str
    version: int
    actor: str
    key_id: str = ""


_encode = msgspec.json.Encoder().encode
_stored = msgspec.json.Decoder(StoredCredential)
_change = msgspec.json.Decoder(Change)


class CredentialStore:
    """The credentials of a cell.

    Args:
        redis: a client of `shared.edges.redis.connect`.
        keys: the key names of the cell.
    """

    def __init__(self, redis: Redis, keys: Keys) -> None:
        self._redis = redis
        self._keys = keys

    async def get(self, ref: CredentialRef) -> StoredCredential | None:
        """A credential, also a revoked one. Raises `StoreError`."""
        raw: bytes | None = await within(self._redis.hget(self._keys.credentials, str(ref)))
        return None if raw is None else _stored.decode(raw)

    async def all(self) -> list[StoredCredential]:
        """Every credential, in the order of their references. Raises `StoreError`."""
        raw: list[bytes] = await within(self._redis.hvals(self._keys.credentials))
        return sorted((_stored.decode(one) for one in raw), key=lambda one: one.ref)

    async def put(self, new: StoredCredential, *, word: str, actor: str) -> None:
        """Stores the next version of a credential, with a line of the trail, both or neither.

        Raises:
            CredentialError: somebody else changed it meanwhile; look at it again.
            StoreError: Redis refused or is away.
        """
        change = Change(
            at_ms=new.changed_ms,
            word=word,
            ref=str(new.ref),
            version=new.version,
            actor=actor,
            key_id=new.key_id,
        )
        with translated():
            async with self._redis.pipeline(transaction=True) as pipe:
                await pipe.watch(self._keys.credentials)
                raw: bytes | None = await within(pipe.hget(self._keys.credentials, str(new.ref)))
                before = 0 if raw is None else _stored.decode(raw).version
                if before != new.version - 1:
                    raise CredentialError("the credential was changed meanwhile")
                pipe.multi()  # type: ignore[no-untyped-call]  # redis-py left it out
                pipe.hset(self._keys.credentials, str(new.ref), _encode(new).decode())
                pipe.lpush(self._keys.credential_audit, _encode(change).decode())
                pipe.ltrim(self._keys.credential_audit, 0, CREDENTIAL_AUDIT_MAX - 1)
                try:
                    async with asyncio.timeout(CALL_TIMEOUT_S):
                        await pipe.execute()
                except WatchError as exc:
                    raise CredentialError("the credential was changed meanwhile") from exc

    async def revoke(self, ref: CredentialRef, *, actor: str, now_ms: int) -> bool:
        """Erases a credential's box; its place stays. False when there was none (any more).

        Raises:
            CredentialError: somebody else changed it meanwhile; look at it again.
            StoreError: Redis refused or is away.
        """
        before = await self.get(ref)
        if before is None or before.is_revoked:
            return False
        gone = msgspec.structs.replace(
            before, version=before.version + 1, changed_ms=now_ms, box=b""
        )
        await self.put(gone, word="revoked", actor=actor)
        return True

    async def choose(
        self, provider: str, *, user_id: int, guild_id: int | None
    ) -> CredentialRef | None:
        """The credential that a turn runs on; None is the deployment's own.

        A person's own comes first, unless he leaves it unused; then the server's, then one that a
        supporter lends to the server. One round trip, two where a loan is looked at. Raises
        `StoreError`.
        """
        own = CredentialRef(scope=CredentialSource.PERSONAL, owner_id=user_id, provider=provider)
        servers = msgspec.structs.replace(
            own, scope=CredentialSource.SERVER, owner_id=guild_id or 0
        )
        async with self._redis.pipeline(transaction=False) as pipe:
            pipe.hmget(self._keys.credentials, [str(own), str(servers)])
            pipe.hexists(self._keys.credential_pauses, str(user_id))
            pipe.hget(self._keys.credential_loans, _loan(guild_id or 0, provider))
            (own_raw, servers_raw), is_paused, loan = await within(pipe.execute())
        if not is_paused and _is_active(own_raw):
            return own
        if guild_id is None:
            return None
        if _is_active(servers_raw):
            return servers
        if loan is None:
            return None
        lent = CredentialRef.parsed(loan.decode())
        found = await self.get(lent)
        return None if found is None or found.is_revoked else lent

    async def active(self, refs: list[str]) -> set[str]:
        """Which of these credentials are there, and not revoked. Raises `StoreError`."""
        found: list[bytes | None] = await within(self._redis.hmget(self._keys.credentials, refs))
        return {ref for ref, raw in zip(refs, found, strict=True) if _is_active(raw)}

    async def of(self, scope: CredentialSource, owner_id: int) -> list[StoredCredential]:
        """What an owner has, revoked ones left out. Raises `StoreError`."""
        prefix, found = f"{scope}:{owner_id}:", []
        rows = self._redis.hscan_iter(self._keys.credentials, match=f"{prefix}*", count=1000)
        with translated():
            async for _, raw in rows:
                one = _stored.decode(raw)
                if str(one.ref).startswith(prefix) and not one.is_revoked:
                    found.append(one)
        return sorted(found, key=lambda one: one.ref)

    async def pause(self, user_id: int, *, is_paused: bool) -> None:
        """Leaves a person's own credentials unused, or uses them again. Raises `StoreError`."""
        key, name = self._keys.credential_pauses, str(user_id)
        call = self._redis.hset(key, name, "1") if is_paused else self._redis.hdel(key, name)
        await within(call)

    async def is_paused(self, user_id: int) -> bool:
        """Whether a person leaves his own credentials unused. Raises `StoreError`."""
        found: bool = await within(self._redis.hexists(self._keys.credential_pauses, str(user_id)))
        return bool(found)

    async def lend(self, ref: CredentialRef, guild_id: int, *, is_lent: bool = True) -> None:
        """Lets a guild use a supporter's credential, or no longer.

        Raises:
            CredentialError: it is no supporter's.
            StoreError: Redis refused or is away.
        """
        if ref.scope is not CredentialSource.SUPPORTER:
            raise CredentialError("only a supporter's credential can be lent")
        key, name = self._keys.credential_loans, _loan(guild_id, ref.provider)
        call = self._redis.hset(key, name, str(ref)) if is_lent else self._redis.hdel(key, name)
        await within(call)

    async def restore(self, kept: Iterable[StoredCredential]) -> int:
        """Puts credentials back from a copy, such as `all` gives it; says how many were missing.

        What is there already stays, whatever the copy says: it is at least as new. Raises
        `StoreError`.
        """
        async with self._redis.pipeline(transaction=False) as pipe:
            for one in kept:
                pipe.hsetnx(self._keys.credentials, str(one.ref), _encode(one).decode())
            answers: list[int] = await within(pipe.execute())
        return sum(answers)

    async def audit(self, count: int) -> list[Change]:
        """The last changes, the newest first. Raises `StoreError`."""
        raw: list[bytes] = await within(
            self._redis.lrange(self._keys.credential_audit, 0, count - 1)
        )
        return [_change.decode(one) for one in raw]


def _is_active(raw: bytes | None) -> bool:
    return raw is not None and not _stored.decode(raw).is_revoked


def _loan(guild_id: int, provider: str) -> str:
    return f"{guild_id}:{provider}"


def opening_keys_path(settings: Settings) -> Path:
    """Where the opening keys lie."""
    return Path(settings.opening_keys_file or data_dir(settings) / OPENING_KEYS_FILE)


def load_opening_keys(path: Path) -> list[PrivateKey]:
    """The keys that open boxes, the newest first; none where there is no file.

    Raises:
        ConfigError: the file cannot be read, is damaged, or is open to other users.
    """
    try:
        if path.stat().st_mode & 0o007:
            raise ConfigError(f"{path} can be read by every user: chmod o= {path}")
        return private_keys_of(path.read_text(encoding="ascii"))
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigError(f"the opening keys in {path} cannot be read") from exc


def load_sealing_key(settings: Settings) -> PublicKey | None:
    """The public half of the newest opening key, where it lies beside them on this machine.

    A gateway reads this file and not the other: whoever takes it over must find no opening key.

    Raises:
        ConfigError: the file is damaged.
    """
    path = opening_keys_path(settings).with_suffix(SEALING_SUFFIX)
    try:
        return public_key_of(path.read_text(encoding="ascii"))
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigError(f"the sealing key in {path} cannot be read") from exc


def make_opening_keys(settings: Settings) -> None:
    """Makes a pair where a deployment on one machine has none, so that it can take keys.

    Raises:
        ConfigError: the file there cannot be read, or none can be written.
    """
    path = opening_keys_path(settings)
    if settings.sealing_key is None and settings.opening_keys_file is None:
        keys = load_opening_keys(path)
        if not keys:
            save_opening_keys(path, [PrivateKey.generate()])
        elif load_sealing_key(settings) is None:
            save_opening_keys(path, keys)


def save_opening_keys(path: Path, keys: list[PrivateKey]) -> None:
    """Writes the file anew, whole or not at all, for its owner only. Raises `ConfigError`.

    The public half of the newest key is written beside it, for gateways.
    """
    lines = "".join(f"{bytes(key).hex()}\n" for key in keys)
    _write(path, lines)
    if keys:
        _write(path.with_suffix(SEALING_SUFFIX), f"{bytes(keys[0].public_key).hex()}\n")


def _write(path: Path, text: str) -> None:
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(text)
            file.flush()
            os.fsync(handle)
        Path(name).replace(path)
    except OSError as exc:
        raise ConfigError(f"the opening keys cannot be written to {path}") from exc
