"""Sealed boxes: only the opening key opens them, and only as what they were closed for."""

import msgspec
import pytest
from nacl.public import PrivateKey

from shared.errors import ConfigError, CredentialError
from shared.sealed import (
    MAX_KEY_CHARS,
    CredentialRef,
    private_keys_of,
    public_key_of,
    seal,
    unseal,
)
from shared.secrets import Secret
from shared.turns import CredentialSource

PAIR, OTHER = PrivateKey.generate(), PrivateKey.generate()
KEY = Secret("sk-" + "sealed-canary-0123456789")
REF = CredentialRef(scope=CredentialSource.PERSONAL, owner_id=42, provider="openai")


def closed(version: int = 3, endpoint: str = "") -> bytes:
    return seal(PAIR.public_key, REF, version, KEY, endpoint=endpoint)


def test_a_box_gives_the_key_and_where_it_may_go():
    opened = unseal([OTHER, PAIR], closed(endpoint="https://mine.example/v1"), REF, 3)
    assert opened.key == KEY
    assert opened.endpoint == "https://mine.example/v1"


def test_a_box_shows_nothing_and_no_two_are_alike():
    assert KEY.reveal().encode() not in closed()
    assert closed() != closed()
    assert "sealed-canary" not in repr(unseal([PAIR], closed(), REF, 3))


@pytest.mark.parametrize(
    "change",
    [{"owner_id": 43}, {"scope": CredentialSource.SERVER}, {"provider": "custom"}, {"slot": "b"}],
    ids=lambda change: next(iter(change)),
)
def test_a_moved_box_does_not_open(change):
    elsewhere = msgspec.structs.replace(REF, **change)
    with pytest.raises(CredentialError, match="belongs to another"):
        unseal([PAIR], closed(), elsewhere, 3)


def test_an_older_box_does_not_come_back():
    with pytest.raises(CredentialError, match="belongs to another"):
        unseal([PAIR], closed(version=2), REF, 3)


def test_an_edited_box_does_not_open():
    box = closed()
    for place in range(8, len(box)):
        edited = box[:place] + bytes([box[place] ^ 1]) + box[place + 1 :]
        with pytest.raises(CredentialError):
            unseal([PAIR], edited, REF, 3)
    for end in range(len(box)):
        with pytest.raises(CredentialError):
            unseal([PAIR], box[:end], REF, 3)


def test_without_the_opening_key_there_is_no_way_in():
    for keys in ([], [OTHER]):
        with pytest.raises(CredentialError, match="another opening key"):
            unseal(keys, closed(), REF, 3)


@pytest.mark.parametrize("text", ["", "two\nlines", "schlüssel", "x" * (MAX_KEY_CHARS + 1)])
def test_what_no_header_can_hold_is_no_key(text):
    with pytest.raises(CredentialError, match="printable ASCII"):
        seal(PAIR.public_key, REF, 1, Secret(text))


def test_a_reference_is_read_as_it_is_written():
    assert CredentialRef.parsed(str(REF)) == REF
    assert str(REF) == "personal:42:openai:main"


@pytest.mark.parametrize(
    "text", ["", "personal:42:openai", "nobody:42:openai:main", "server:x:openai:main",
             "server:1::main", "server:1:openai:", "server:1:a\nb:main", "server:1:a:b:c",
             f"server:1:{'x' * 65}:main", "server:-1:openai:main", f"server:{1 << 63}:openai:main"],
)  # fmt: skip
def test_what_is_no_reference_says_so(text):
    with pytest.raises(CredentialError, match="scope:owner:provider:slot"):
        CredentialRef.parsed(text)


def test_keys_are_read_from_text():
    assert public_key_of(bytes(PAIR.public_key).hex() + "\n") == PAIR.public_key
    lines = f"{bytes(OTHER).hex()}\n{bytes(PAIR).hex()}\n"
    assert private_keys_of(lines) == [OTHER, PAIR]
    assert private_keys_of("") == []
    for text in ("zz", "00", "ä"):
        with pytest.raises(ConfigError, match="64 hex digits"):
            public_key_of(text)
        with pytest.raises(ConfigError, match="64 hex digits"):
            private_keys_of(text)
