"""Sealing what Redis keeps of people's words: requests, recordings, replies that were cut off.

Comes in: bytes and the deployment's key. Goes out: bytes that only its holders can read. Off
without `TURNFLEET_AT_REST_KEY`. Composition roots call `use` once, before anything is read; the
encoders of `shared.wire` and the records pass through here. Pure; anyone may import it.

It is the process's own state, set once: a request is written and read in many places, and one that
forgot to seal would not be noticed.
"""

from collections.abc import Sequence
from typing import Final

from nacl.exceptions import CryptoError
from nacl.secret import SecretBox

from shared.errors import SettingError, WireError

MARK: Final = b"tfbox1:"
"""What a sealed value begins with; no JSON and no msgpack map does."""


class AtRest:
    """The keys of a deployment: the newest seals, every one opens. Without keys it does nothing."""

    def __init__(self, keys: Sequence[bytes] = ()) -> None:
        self._boxes = [SecretBox(key) for key in keys]

    def sealed(self, value: bytes) -> bytes:
        """The value, sealed where there is a key."""
        if not self._boxes:
            return value
        return MARK + bytes(self._boxes[0].encrypt(value))

    def opened(self, value: bytes) -> bytes:
        """The value as it was; one that was never sealed stays as it is.

        Raises:
            WireError: none of the keys opens it.
        """
        if not value.startswith(MARK):
            return value
        for box in self._boxes:
            try:
                return bytes(box.decrypt(value[len(MARK) :]))
            except CryptoError:
                continue
        raise WireError("it is sealed with a key that this process does not have")


def keys_of(text: str | None) -> AtRest:
    """Reads the setting: 64 hex digits; several with commas between, the newest first.

    Raises:
        SettingError: it is no key; the message does not show it.
    """
    if text is None:
        return AtRest()
    try:
        keys = [bytes.fromhex(one.strip()) for one in text.split(",")]
    except ValueError:
        keys = []
    if not keys or any(len(key) != SecretBox.KEY_SIZE for key in keys):
        raise SettingError(
            "at_rest_key", "a key has 64 hex digits", "make them: openssl rand -hex 32"
        )
    return AtRest(keys)


_current = AtRest()


def use(at_rest: AtRest) -> None:
    """Seals and opens with these keys from now on, in this process."""
    global _current
    _current = at_rest


def sealed(value: bytes) -> bytes:
    """Seals with this process's keys."""
    return _current.sealed(value)


def opened(value: bytes) -> bytes:
    """Opens with this process's keys. Raises `WireError`."""
    return _current.opened(value)
