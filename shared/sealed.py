"""Sealed credentials: boxes that anyone may close and only workers can open.

Comes in: a key, whose it is and where it may go. Goes out: a box of bytes, and from it the key
again. Whoever stores credentials has the public half only: it can keep and replace them, never
read one back. What the key is for stands inside the box and is checked after opening, so that a
box that was moved to another owner, provider or endpoint gives nothing. Pure; anyone may import it.
"""

import hashlib
from collections.abc import Sequence
from typing import Final, Self

import msgspec
from nacl.exceptions import CryptoError
from nacl.public import PrivateKey, PublicKey, SealedBox

from shared.errors import ConfigError, CredentialError, SettingError
from shared.secrets import Secret
from shared.turns import CredentialSource

MAX_KEY_CHARS: Final = 4096
"""The longest keys of providers are signed tokens of about 2,000."""
_MARK_BYTES: Final = 8
"""Of the public key's digest, before the box: says which private key opens it."""
_KEY_BYTES: Final = 32
"""Of a Curve25519 key."""
_WORD_CHARS: Final = 64
_MAX_ID: Final = (1 << 63) - 1
"""Of a snowflake."""


class CredentialRef(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """Names a credential; this is all that travels with a turn.

    Args:
        scope: whose it is.
        owner_id: the guild of a server's key, the user of a personal or a supporter's one.
        provider: a name of the provider table.
        slot: tells several keys of one owner apart.
    """

    scope: CredentialSource
    owner_id: int
    provider: str
    slot: str = "main"

    @classmethod
    def parsed(cls, text: str) -> Self:
        """Reads `scope:owner:provider:slot`.

        Raises:
            CredentialError: it is none.
        """
        try:
            scope, owner, provider, slot = text.split(":")
            ref = cls(
                scope=CredentialSource(scope), owner_id=int(owner), provider=provider, slot=slot
            )
        except ValueError:
            raise CredentialError("a reference is scope:owner:provider:slot") from None
        words = (provider, slot)
        if not 0 <= ref.owner_id <= _MAX_ID or not all(
            word.isprintable() and 0 < len(word) <= _WORD_CHARS for word in words
        ):
            raise CredentialError("a reference is scope:owner:provider:slot, in short words")
        return ref

    def __str__(self) -> str:
        return f"{self.scope}:{self.owner_id}:{self.provider}:{self.slot}"


class _Inside(msgspec.Struct, frozen=True, kw_only=True):
    ref: CredentialRef
    version: int
    endpoint: str
    key: str


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Inside).decode


class Opened(msgspec.Struct, frozen=True, kw_only=True):
    """What was in a box.

    Args:
        key: the credential itself.
        endpoint: the one address that it may go to; empty is the provider's own.
    """

    key: Secret
    endpoint: str


def seal(
    public: PublicKey, ref: CredentialRef, version: int, key: Secret, *, endpoint: str = ""
) -> bytes:
    """Closes a box.

    Raises:
        CredentialError: the key is empty, too long, or holds what no header can.
    """
    text = key.reveal()
    if not 0 < len(text) <= MAX_KEY_CHARS or not (text.isascii() and text.isprintable()):
        raise CredentialError(f"a key is up to {MAX_KEY_CHARS} printable ASCII characters")
    inside = _Inside(ref=ref, version=version, endpoint=endpoint, key=text)
    return mark_of(public) + SealedBox(public).encrypt(_encode(inside))


def unseal(private: Sequence[PrivateKey], box: bytes, ref: CredentialRef, version: int) -> Opened:
    """Opens a box that is stored as this version of this credential.

    Raises:
        CredentialError: no key of ours opens it, it was edited, or it is of something else.
    """
    fitting = [key for key in private if mark_of(key.public_key) == box[:_MARK_BYTES]]
    if not fitting:
        raise CredentialError("the credential is sealed for another opening key")
    try:
        inside = _decode(SealedBox(fitting[0]).decrypt(box[_MARK_BYTES:]))
    except (CryptoError, msgspec.DecodeError, ValueError):
        raise CredentialError("the credential's box was edited or is damaged") from None
    if (inside.ref, inside.version) != (ref, version):
        raise CredentialError("the credential's box belongs to another credential")
    return Opened(key=Secret(inside.key), endpoint=inside.endpoint)


def mark_of(public: PublicKey) -> bytes:
    """The bytes before a box that say for whom it was closed."""
    return hashlib.blake2b(bytes(public), digest_size=_MARK_BYTES).digest()


def key_id(key: Secret) -> str:
    """The name of a key in records and reports: a digest that says nothing of the key."""
    digest = hashlib.blake2s(key.reveal().encode("utf-8", "surrogatepass"), digest_size=6)
    return digest.hexdigest()


def public_key_of(text: str) -> PublicKey:
    """Reads a public key as `TURNFLEET_SEALING_KEY` spells it. Raises `SettingError`."""
    try:
        return PublicKey(bytes.fromhex(text.strip()))
    except (ValueError, CryptoError, TypeError):
        raise SettingError(
            "sealing_key",
            f"this is no public key: it has {_KEY_BYTES * 2} hex digits",
            "take the one that `turnfleet secrets` wrote",
        ) from None


def private_keys_of(text: str) -> list[PrivateKey]:
    """Reads opening keys, one a line, the newest first. Raises `ConfigError`."""
    try:
        return [PrivateKey(bytes.fromhex(line)) for line in text.split()]
    except (ValueError, CryptoError, TypeError):
        raise ConfigError(
            f"the file of opening keys is damaged: each line has {_KEY_BYTES * 2} hex digits"
        ) from None
