"""Sealed credentials on real servers: stored by anyone, opened by workers, gone when revoked."""

import asyncio
from pathlib import Path

import msgspec
import pytest
from nacl.public import PrivateKey
from redis.asyncio import Redis

from shared.config import Settings
from shared.edges.credentials import (
    CredentialStore,
    StoredCredential,
    load_opening_keys,
    load_sealing_key,
    make_opening_keys,
    save_opening_keys,
)
from shared.errors import ConfigError, CredentialError
from shared.keys import Keys
from shared.sealed import CredentialRef, seal
from shared.secrets import Secret
from shared.turns import CredentialSource, TurnRequest
from tests.support.turns import SNOWFLAKE, turn
from worker.edges.keys import KeyPools
from worker.edges.sealed_keys import SealedKeys
from worker.providers.requests import KeyedEndpoint

USER = SNOWFLAKE - 1
KEY = "sk-" + "personal-canary-0123456789"
REF = CredentialRef(scope=CredentialSource.PERSONAL, owner_id=USER, provider="openai")


class Vault:
    """A store, a worker's view of it, and the file of its opening keys."""

    def __init__(self, client: Redis, keys: Keys, directory: Path) -> None:
        self.path = directory / "opening.keys"
        self.pair = PrivateKey.generate()
        save_opening_keys(self.path, [self.pair])
        self.store = CredentialStore(client, keys)
        sealed = SealedKeys(self.store, self.path, {})
        self.pools = KeyPools(client, keys, {}, {"OPENAI_API_KEY": "sk-the-servers-own"}, sealed)

    async def put(self, ref: CredentialRef, version: int, **more: str) -> StoredCredential:
        box = seal(self.pair.public_key, ref, version, Secret(KEY), **more)
        new = StoredCredential(ref=ref, version=version, changed_ms=1, key_id="k", box=box)
        await self.store.put(new, word="added", actor="test")
        return new

    async def ask(self, request: TurnRequest, provider: str = "openai") -> KeyedEndpoint:
        return await self.pools.endpoint(provider, frozenset(), request)


@pytest.fixture
def vault(client: Redis, keys: Keys, tmp_path: Path) -> Vault:
    return Vault(client, keys, tmp_path)


def personal(ref: CredentialRef = REF) -> TurnRequest:
    return turn(credential=str(ref), credential_source=ref.scope)


async def test_a_turn_gets_the_key_that_it_names(vault: Vault):
    await vault.put(REF, 1)
    keyed = await vault.ask(personal())
    assert keyed.endpoint.key == Secret(KEY)
    assert (keyed.refusal, keyed.others) == (None, 0)
    assert keyed.endpoint.base_url == "https://api.openai.com/v1"


async def test_a_key_goes_only_where_its_box_says(vault: Vault):
    await vault.put(REF, 1, endpoint="https://mine.example/v1")
    assert (await vault.ask(personal())).endpoint.base_url == "https://mine.example/v1"
    refused = await vault.ask(personal(), "anthropic")
    assert refused.endpoint.key is None
    assert refused.refusal == "the credential is for another provider"


@pytest.mark.parametrize(
    "request_",
    [
        personal(msgspec.structs.replace(REF, owner_id=1)),
        personal(msgspec.structs.replace(REF, scope=CredentialSource.SERVER)),
        turn(credential=str(REF), credential_source=CredentialSource.SERVER),
    ],
    ids=["another user", "another guild", "another scope"],
)
async def test_nobody_else_may_use_it(vault: Vault, request_: TurnRequest):
    ref = CredentialRef.parsed(request_.credential or "")
    await vault.put(ref, 1)
    refused = await vault.ask(request_)
    assert refused.endpoint.key is None
    assert refused.refusal == "the credential belongs to somebody else"


async def test_a_supporters_key_is_for_others(vault: Vault):
    ref = msgspec.structs.replace(REF, scope=CredentialSource.SUPPORTER, owner_id=5)
    await vault.put(ref, 1)
    assert (await vault.ask(personal(ref))).endpoint.key == Secret(KEY)


async def test_a_revoked_credential_is_refused_and_never_replaced_by_the_servers(vault: Vault):
    stored = await vault.put(REF, 1)
    gone = msgspec.structs.replace(stored, version=2, box=b"")
    await vault.store.put(gone, word="revoked", actor="test")
    for request in (personal(), personal(msgspec.structs.replace(REF, slot="never"))):
        refused = await vault.ask(request)
        assert refused.endpoint.key is None
        assert refused.refusal == "the credential was revoked"
    assert (await vault.ask(turn())).endpoint.key == Secret("sk-the-servers-own")


async def test_a_box_that_was_moved_in_the_store_does_not_open(
    vault: Vault, client: Redis, keys: Keys
):
    victim = msgspec.structs.replace(REF, owner_id=1)
    await vault.put(victim, 1)
    moved = msgspec.structs.replace(await vault.put(REF, 1), box=b"")
    raw = await client.hget(keys.credentials, str(victim))  # type: ignore[misc]  # redis-py
    box = msgspec.json.decode(raw, type=StoredCredential).box
    forged = msgspec.json.encode(msgspec.structs.replace(moved, box=box))
    await client.hset(keys.credentials, str(REF), forged)  # type: ignore[misc, arg-type]  # same
    assert (await vault.ask(personal())).refusal == (
        "the credential's box belongs to another credential"
    )


async def test_a_rotated_opening_key_is_read_without_a_restart(vault: Vault):
    await vault.put(REF, 1)
    assert (await vault.ask(personal())).refusal is None
    new = PrivateKey.generate()
    save_opening_keys(vault.path, [new, vault.pair])
    vault.pair = new
    await vault.put(REF, 2)
    assert (await vault.ask(personal())).endpoint.key == Secret(KEY)


async def test_without_the_opening_keys_it_is_a_refusal(vault: Vault):
    await vault.put(REF, 1)
    vault.path.unlink()
    assert (await vault.ask(personal())).refusal == (
        "the credential is sealed for another opening key"
    )
    vault.path.write_text("damaged", encoding="ascii")
    vault.path.chmod(0o600)
    assert "damaged" in ((await vault.ask(personal())).refusal or "")


async def test_of_two_changes_at_once_one_wins(vault: Vault):
    results = await asyncio.gather(*(vault.put(REF, 1) for _ in range(5)), return_exceptions=True)
    assert sum(isinstance(one, StoredCredential) for one in results) == 1
    assert sum(isinstance(one, CredentialError) for one in results) == 4
    assert [change.word for change in await vault.store.audit(10)] == ["added"]


GUILD = SNOWFLAKE
SERVERS = msgspec.structs.replace(REF, scope=CredentialSource.SERVER, owner_id=GUILD)
LENT = msgspec.structs.replace(REF, scope=CredentialSource.SUPPORTER, owner_id=77)


async def chosen(vault: Vault, guild_id: int | None = GUILD) -> CredentialRef | None:
    return await vault.store.choose("openai", user_id=USER, guild_id=guild_id)


async def revoke(vault: Vault, stored: StoredCredential) -> None:
    gone = msgspec.structs.replace(stored, version=stored.version + 1, box=b"")
    await vault.store.put(gone, word="revoked", actor="test")


async def test_a_turn_runs_on_the_persons_key_then_the_servers_then_a_supporters(vault: Vault):
    assert await chosen(vault) is None
    lent = await vault.put(LENT, 1)
    assert await chosen(vault) is None  # kept, but lent to nobody
    await vault.store.lend(LENT, GUILD)
    assert await chosen(vault) == LENT
    servers = await vault.put(SERVERS, 1)
    assert await chosen(vault) == SERVERS
    own = await vault.put(REF, 1)
    assert await chosen(vault) == REF
    assert await chosen(vault, None) == REF
    assert await vault.store.choose("anthropic", user_id=USER, guild_id=GUILD) is None
    await revoke(vault, own)
    assert await chosen(vault, None) is None
    await revoke(vault, servers)
    assert await chosen(vault) == LENT
    await revoke(vault, lent)
    assert await chosen(vault) is None


async def test_a_person_may_leave_his_own_key_unused(vault: Vault):
    await vault.put(REF, 1)
    await vault.store.pause(USER, is_paused=True)
    assert await vault.store.is_paused(USER)
    assert await chosen(vault) is None
    await vault.store.pause(USER, is_paused=False)
    assert await chosen(vault) == REF


async def test_a_loan_is_of_a_supporter_and_can_end(vault: Vault):
    with pytest.raises(CredentialError, match="supporter"):
        await vault.store.lend(REF, GUILD)
    await vault.put(LENT, 1)
    await vault.store.lend(LENT, GUILD)
    await vault.store.lend(LENT, GUILD, is_lent=False)
    assert await chosen(vault) is None


async def test_an_owner_finds_his_own_and_no_others(vault: Vault):
    await vault.put(REF, 1)
    await vault.put(msgspec.structs.replace(REF, owner_id=USER + 1), 1)
    await revoke(vault, await vault.put(msgspec.structs.replace(REF, slot="old"), 1))
    assert [one.ref for one in await vault.store.of(REF.scope, USER)] == [REF]


async def test_a_copy_puts_back_what_is_missing_and_nothing_else(vault: Vault, client: Redis):
    old = await vault.put(REF, 1)
    await vault.put(SERVERS, 1)
    copy = await vault.store.all()
    await revoke(vault, old)
    await client.hdel(Keys("test", partitions=2).credentials, str(SERVERS))  # type: ignore[misc]
    assert await vault.store.restore(copy) == 1
    assert await chosen(vault) == SERVERS
    assert (await vault.ask(personal())).refusal == "the credential was revoked"


async def test_nothing_of_a_key_is_in_the_server(vault: Vault, client: Redis):
    await vault.put(REF, 1)
    await vault.ask(personal())
    async for name in client.scan_iter():
        dump = await client.dump(name)
        assert b"canary" not in (dump or b"")
    assert [one.ref for one in await vault.store.all()] == [REF]


def test_the_file_of_opening_keys_is_for_its_owner(tmp_path: Path):
    path = tmp_path / "opening.keys"
    assert load_opening_keys(path) == []
    pair = PrivateKey.generate()
    save_opening_keys(path, [pair])
    assert path.stat().st_mode & 0o077 == 0
    assert load_opening_keys(path) == [pair]
    path.chmod(0o644)
    with pytest.raises(ConfigError, match="chmod"):
        load_opening_keys(path)
    path.chmod(0o600)
    assert load_sealing_key(Settings(data_dir=str(tmp_path))) == pair.public_key
    path.with_suffix(".public").write_text("nonsense", encoding="ascii")
    with pytest.raises(ConfigError):
        load_sealing_key(Settings(data_dir=str(tmp_path)))
    with pytest.raises(ConfigError, match="cannot be written"):
        save_opening_keys(tmp_path / "missing" / "keys", [pair])
    with pytest.raises(ConfigError, match="cannot be read"):
        load_opening_keys(path / "below")


def test_a_deployment_on_one_machine_gets_a_pair_once(tmp_path: Path):
    settings = Settings(data_dir=str(tmp_path))
    assert load_sealing_key(settings) is None
    make_opening_keys(settings)
    (pair,) = load_opening_keys(tmp_path / "opening.keys")
    make_opening_keys(settings)
    assert load_opening_keys(tmp_path / "opening.keys") == [pair]
    (tmp_path / "opening.public").unlink()
    make_opening_keys(settings)
    assert load_sealing_key(settings) == pair.public_key
    elsewhere = tmp_path / "elsewhere"
    make_opening_keys(Settings(data_dir=str(elsewhere), sealing_key="00" * 32))
    assert load_opening_keys(elsewhere / "opening.keys") == []
