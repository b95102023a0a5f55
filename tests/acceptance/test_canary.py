"""Nothing private leaks: canaries through the whole house, then a search of all that it left.

A provider that is trusted with a key gives it back in every form, in every place of an answer.
Searched: the logs of all processes, every file in their home (database, spool), every value in
Redis, and the server's own files on the disk.
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

from shared.edges.credentials import CredentialStore, StoredCredential, save_opening_keys
from shared.edges.local_channel import local_turn_id
from shared.edges.queue import Admission
from shared.messages import Message, Role, TextBlock
from shared.sealed import CredentialRef, seal
from shared.secrets import Secret
from shared.turns import CredentialSource, Front, Route, Target, TurnRequest
from tests.support.hostile import ANSWERS, THOUGHT, collector, hostile_provider
from tests.support.house import House, house
from tests.support.servers import RedisServer, flavors, running_server

# Put together from parts, so that no scanner takes them for keys that somebody lost.
POOL = ("sk-" + "canary" + "Zq7Yw2Vx9Km4Rt8Lp3Nb6", "QwX9" + "canaryHv5Jc2Tn8Gd4Fz7Sk1")
PERSONAL = "Pk81" + "canaryRm6Yd3Wb9Xe5Ug2Lq7"
KEYS = (*POOL, PERSONAL)
USER = 1
REF = CredentialRef(scope=CredentialSource.PERSONAL, owner_id=USER, provider="hostile")
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


async def personal_turns(home: House) -> list[str | None]:
    """Turns on a person's sealed key, the last one after its revocation; their causes."""
    pair = PrivateKey.generate()
    save_opening_keys(home.home / "opening.keys", [pair])
    store = CredentialStore(home.redis, home.keys)
    box = seal(pair.public_key, REF, 1, Secret(PERSONAL))
    stored = StoredCredential(ref=REF, version=1, changed_ms=1, box=box)
    await store.put(stored, word="added", actor="test")
    causes = []
    for number, model in enumerate(("401-hex", "error-in-stream", "said", "cut", "cut")):
        if number == 4:
            gone = msgspec.structs.replace(stored, version=2, box=b"")
            await store.put(gone, word="revoked", actor="test")
        request = TurnRequest(
            turn_id=f"l{900 + number}",
            route=Route(front=Front.LOCAL, channel_id=900 + number, user_id=USER, guild_id=1),
            target=Target(provider="hostile", model=model),
            messages=[Message(role=Role.USER, content=[TextBlock(text=PROMPT)])],
            created_ms=time.time_ns() // 1_000_000,
            credential=str(REF),
            credential_source=REF.scope,
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
    for number, model in enumerate(ANSWERS, start=1):
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
    for name, data in files(server.directory):
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
                causes = await personal_turns(home)
                await failed_turns(home)
                keys, words = await searched(home, server)
                assert home.recorder is not None
                await asyncio.to_thread(home.recorder.stop)
    assert any(b"invalid_key" in body for body in told)
    keys += [f"sentry: {hit!r}" for body in told for hit in found_in(body)]
    assert causes[0] == causes[-1] == "invalid_key"
    assert "invalid_key" not in causes[1:-1]
    assert keys == []
    assert words == []


def test_the_search_finds_what_it_looks_for():
    for key in KEYS:
        for form in (key, key.upper(), key[::-1], key[5:], key.encode().hex()):
            assert found_in(f"before {form} after".encode())
        assert found_in(base64.b64encode(f"user:{key}".encode()))
    assert not found_in(b"sk-canary and QwX9canary alone are no keys")
