"""Nothing private leaks: canaries through the whole house, then a search of all that it left.

A provider that is trusted with a key gives it back in every form, in every place of an answer, and
quotes prompts in its errors. The keys are the pool's, and sealed ones of every scope, replaced and
revoked. Searched: the logs of all processes, every file in their home (database, spool), every
value in Redis, and the server's own files on the disk, its dump and its append-only file.
"""

import asyncio
import base64
import json
import time
import zlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import msgspec
import pytest
from nacl.public import PrivateKey

from shared.edges.credentials import (
    CredentialStore,
    StoredCredential,
    load_opening_keys,
    save_opening_keys,
)
from shared.edges.local_channel import local_turn_id
from shared.edges.queue import Admission
from shared.messages import Message, Role, TextBlock
from shared.sealed import CredentialRef, seal
from shared.secrets import Secret
from shared.turns import CredentialSource, Front, Route, Target, TurnRequest
from tests.support.hostile import ANSWERS, QUOTES, THOUGHT, collector, hostile_provider
from tests.support.house import House, house
from tests.support.servers import RedisServer, flavors, running_server

# Put together from parts, so that no scanner takes them for keys that somebody lost.
POOL = ("sk-" + "canary" + "Zq7Yw2Vx9Km4Rt8Lp3Nb6", "QwX9" + "canaryHv5Jc2Tn8Gd4Fz7Sk1")
SEALED = tuple(
    head + "canary" + tail
    for head, tail in (("Pk81", "Rm6Yd3Wb9Xe5Ug2Lq7"), ("Nw37", "Vb2Kx8Tq4Mz6Hd9Sj5"))
)
"""A key that somebody brought, and the one that they put in its place."""
KEYS = (*POOL, *SEALED)
USER, GUILD = 1, 1
OWNERS = {
    CredentialSource.PERSONAL: USER,
    CredentialSource.SERVER: GUILD,
    CredentialSource.SUPPORTER: 77,
}
PROMPT = "prompt-canary-5f3a"
PRIVATE = (":t:", ":h:", ":loc:", ":rec:")
"""Parts of the keys that may hold what people and models said (`shared.keys`): a turn's record
with its request, the history, the local channel, recordings."""
TURNS_S = 240.0

pytestmark = pytest.mark.slow


def forms_of(key: str) -> Iterator[bytes]:
    """What a search looks for: pieces long enough to be of use to whoever finds them."""
    raw = key.encode()
    for text in (raw, raw[4:], raw[: len(raw) // 2 + 4], raw[len(raw) // 2 - 4 :]):
        yield text.lower()
        yield text[::-1].lower()
        yield text.hex().encode()
        yield "".join(f"%{byte:02x}" for byte in text).encode()
        yield "".join(f"\\u{byte:04x}" for byte in text).encode()
    for shift in range(3):
        core = base64.b64encode(b"x" * shift + raw)[4:-4]
        yield core.lower()
        yield core.translate(bytes.maketrans(b"+/", b"-_")).lower()


NEEDLES = frozenset(form for key in KEYS for form in forms_of(key))


def found_in(data: bytes, needles: frozenset[bytes] = NEEDLES) -> list[bytes]:
    small = data.lower()
    return [needle for needle in needles if needle in small]


async def values(home: House) -> AsyncIterator[tuple[str, bytes]]:
    """Every key of the server with what it holds, recordings unpacked."""
    async for name in home.redis.scan_iter(count=1000):
        kind = (await home.redis.type(name)).decode()
        match kind:
            case "string":
                value = await home.redis.get(name) or b""
            case "hash":
                value = repr([pair async for pair in home.redis.hscan_iter(name)]).encode()
            case "list":
                value = await home.redis.dump(name) or b""
            case "zset":
                value = repr(await home.redis.zrange(name, 0, -1)).encode()
            case "stream":
                value = repr(await home.redis.xrange(name)).encode()
            case _:
                raise AssertionError(kind)
        yield name.decode(), name + b" " + value + unpacked(name, value)


def unpacked(name: bytes, value: bytes) -> bytes:
    if b":rec:" not in name:
        return b""
    blocks = msgspec.msgpack.decode(value)["blocks"]
    return b"".join(zlib.decompress(block) for block in blocks)


def files(*directories: Path) -> Iterator[tuple[str, bytes]]:
    for directory in directories:
        for path in sorted(directory.rglob("*")):
            if path.is_file():
                yield str(path.relative_to(directory)), path.read_bytes()


class Keyring:
    """Sealed credentials of one owner, as its gateway and its operator change them."""

    def __init__(self, home: House, scope: CredentialSource) -> None:
        self.ref = CredentialRef(scope=scope, owner_id=OWNERS[scope], provider="hostile")
        self._file = home.home / "opening.keys"
        self._store = CredentialStore(home.redis, home.keys)
        self._version = 0

    async def put(self, key: str) -> None:
        """Seals a key for a fresh opening key: the older ones stay in the file."""
        pair = PrivateKey.generate()
        save_opening_keys(self._file, [pair, *load_opening_keys(self._file)])
        self._version += 1
        box = seal(pair.public_key, self.ref, self._version, Secret(key))
        await self._keep(box, "added")

    async def revoke(self) -> None:
        self._version += 1
        await self._keep(b"", "revoked")

    async def _keep(self, box: bytes, word: str) -> None:
        new = StoredCredential(ref=self.ref, version=self._version, changed_ms=1, box=box)
        await self._store.put(new, word=word, actor="test")


async def sealed_turns(home: House, scope: CredentialSource) -> list[str | None]:
    """Turns on sealed keys: one, the next in its place, none after its revocation; their causes."""
    ring = Keyring(home, scope)
    causes: list[str | None] = []
    for model, before in (
        ("401-hex", ring.put(SEALED[0])),
        ("401-reversed", ring.put(SEALED[1])),
        ("error-in-stream", None),
        ("said", None),
        ("cut", None),
        ("400-hex", ring.revoke()),
    ):
        if before is not None:
            await before
        number = 900 + 10 * len(OWNERS) * len(causes) + list(OWNERS).index(scope)
        request = TurnRequest(
            turn_id=f"l{number}",
            route=Route(front=Front.LOCAL, channel_id=number, user_id=USER, guild_id=GUILD),
            target=Target(provider="hostile", model=model),
            messages=[Message(role=Role.USER, content=[TextBlock(text=PROMPT)])],
            created_ms=time.time_ns() // 1_000_000,
            credential=str(ring.ref),
            credential_source=scope,
        )
        assert await home.queue.admit(request) is Admission.ACCEPTED
        causes.append(await cause_of(home, request.turn_id))
    return causes


async def cause_of(home: House, turn_id: str) -> str | None:
    async with asyncio.timeout(TURNS_S):
        while (record := await home.records.turn(turn_id)) is None or record.outcome is None:
            await asyncio.sleep(0.05)
    return record.outcome.cause


async def failed_turns(home: House) -> None:
    """One turn per answer of the hostile provider, each until its end."""
    turns = []
    for number, model in enumerate((*ANSWERS, *QUOTES), start=1):
        target = Target(provider="hostile", model=model)
        said = await home.channel.say(number, f"{PROMPT} {model}", guild_id=number, target=target)
        turns.append(local_turn_id(said))
    for turn_id in turns:
        assert await cause_of(home, turn_id) is not None
    async with asyncio.timeout(TURNS_S):
        while await home.redis.xlen(home.keys.errors):
            await asyncio.sleep(0.05)


async def searched(home: House, server: RedisServer) -> tuple[list[str], list[str]]:
    """Where a key was found, and where words of people and models were, that must not be."""
    keys, words, private = [], [], set()
    needles = frozenset({PROMPT.encode(), THOUGHT.encode()})
    async for name, value in values(home):
        keys += [f"{name}: {hit!r}" for hit in found_in(value)]
        if any(part in name for part in PRIVATE):
            private.update(found_in(value, needles))
        else:
            words += [f"{name}: {hit!r}" for hit in found_in(value, needles)]
    assert private == needles  # the search knows what it looks for
    await home.redis.save()
    for name, data in files(home.home):
        keys += [f"{name}: {hit!r}" for hit in found_in(data)]
        words += [f"{name}: {hit!r}" for hit in found_in(data, needles)]
    server_files = dict(files(server.directory))
    assert any(name.endswith(".rdb") for name in server_files)
    assert any(name.endswith(".aof") for name in server_files)
    for name, data in server_files.items():
        keys += [f"{name}: {hit!r}" for hit in found_in(data)]
    return keys, words


async def test_a_key_that_a_provider_gives_back_is_found_nowhere(monkeypatch):
    monkeypatch.setenv("CUSTOM_API_KEYS", ",".join(POOL))
    options = {"rdbcompression": "no"}
    with running_server(flavors()[0], **options) as server:
        async with hostile_provider() as url, collector() as (address, told):
            settings = {
                "ENDPOINTS": json.dumps({"hostile": url}),
                "LOG_LEVEL": "DEBUG",
                "SENTRY_DSN": f"http://{'0123456789abcdef' * 2}@{address}/1",
            }
            async with house(server.url, workers=1, gateways=1, **settings) as home:
                causes = [await sealed_turns(home, scope) for scope in OWNERS]
                await failed_turns(home)
                keys, words = await searched(home, server)
                assert home.recorder is not None
                await asyncio.to_thread(home.recorder.stop)
    assert any(b"invalid_key" in body for body in told)
    keys += [f"sentry: {hit!r}" for body in told for hit in found_in(body)]
    for first, second, *others, last in causes:
        assert first == second == last == "invalid_key"
        assert "invalid_key" not in others
    assert keys == []
    assert words == []


def test_the_search_finds_what_it_looks_for():
    for key in KEYS:
        for form in (key, key.upper(), key[::-1], key[5:], key.encode().hex()):
            assert found_in(f"before {form} after".encode())
        assert found_in(base64.b64encode(f"user:{key}".encode()))
    assert not found_in(b"sk-canary and QwX9canary alone are no keys")
