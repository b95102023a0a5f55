"""Keys that people bring, over real sockets: closed at once, theirs alone, in nobody's log."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from nacl.public import PrivateKey

from gateway.interactions.keys import is_address
from ops.rehearsal.discord.asked import Asked
from shared.errors import CredentialError
from shared.i18n import load_texts
from shared.sealed import CredentialRef, seal, unseal
from shared.secrets import Secret
from shared.turns import CredentialSource
from shared.wire import decode_turn_request
from tests.support.servers import RedisServer, running_server
from tests.support.town import MANAGER, Town, town

TEXTS = load_texts()
KEY = "sk-" + "canaryTw8Ld2Qm5Xr9Vb4"
OTHER = "sk-" + "canaryGh3Nz7Ky6Pc1Sf8"


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with running_server("redis") as running:
        yield running


def ref(place: Town, scope: CredentialSource = CredentialSource.PERSONAL) -> CredentialRef:
    owner = place.ann.id if scope is CredentialSource.PERSONAL else place.guild.id
    return CredentialRef(scope=scope, owner_id=owner, provider="rehearsal")


async def opened(place: Town, *, rights: int = 0, **options: str) -> str:
    """The custom id of the window for a key."""
    asked = await place.command("key set", rights=rights, options=options, provider="rehearsal")
    assert asked.form is not None, asked.texts
    return str(asked.form["custom_id"])


async def kept(place: Town, which: CredentialRef) -> Secret | None:
    stored = await place.store.get(which)
    if stored is None or stored.is_revoked:
        return None
    return unseal([place.opening], stored.box, which, stored.version).key


def says(asked: Asked, key: str, **values: object) -> bool:
    return asked.texts == [TEXTS.text(key, **values)]


async def test_a_key_is_sealed_replaced_used_left_and_erased(server, tmp_path: Path, capfd):
    async with town(server, tmp_path, log_level="DEBUG") as place:
        sent = await place.submit(await opened(place), key=f" {KEY} ", endpoint="")
        stored = await place.store.get(ref(place))
        assert stored is not None
        assert says(sent, "ask.key_kept", provider="rehearsal", key_id=stored.key_id)
        assert await kept(place, ref(place)) == Secret(KEY)
        await place.submit(await opened(place), key=OTHER, endpoint="")
        assert await kept(place, ref(place)) == Secret(OTHER)

        await place.command("ask", question="on whose key?")
        request = decode_turn_request((await place.answered()).request)
        assert request.credential == str(ref(place))
        assert request.credential_source is CredentialSource.PERSONAL

        assert says(await place.command("key use", own="off"), "ask.key_off")
        await place.command("ask", question="and now?")
        request = decode_turn_request((await place.answered()).request)
        assert request.credential is None
        assert request.credential_source is CredentialSource.SERVER
        assert says(await place.command("key use", own="on"), "ask.key_on")

        listed = await place.command("key list")
        assert stored.key_id not in listed.texts[0]
        assert "rehearsal" in listed.texts[0]
        assert says(await place.command("key list", place.bob), "ask.no_keys")
        gone = await place.command("key remove", provider="rehearsal")
        assert says(gone, "ask.key_removed", provider="rehearsal")
        assert await kept(place, ref(place)) is None
        words = [change.word for change in await place.store.audit(10)]
        assert words == ["revoked", "replaced", "added"]
        async for name in place.client.scan_iter():
            assert b"canary" not in (await place.client.dump(name) or b"")
    out, err = capfd.readouterr()
    assert "canary" not in out + err


async def test_a_window_is_only_a_claim(server, tmp_path: Path):
    """Who sends a form may have written its custom id: rights and time are asked for again."""
    async with town(server, tmp_path) as place:
        fresh = (await opened(place)).rpartition(":")[2]
        servers = ref(place, CredentialSource.SERVER)
        forged = await place.submit(f"key:server:rehearsal:{fresh}", key=KEY)
        assert says(forged, "ask.forbidden")
        assert await kept(place, servers) is None
        late = await place.submit(f"key:personal:rehearsal:{int(fresh) - 901}", key=KEY)
        early = await place.submit(f"key:personal:rehearsal:{int(fresh) + 900}", key=KEY)
        nonsense = await place.submit("key:::", key=KEY)
        for asked in (late, early, nonsense):
            assert says(asked, "form.expired")
        unknown = await place.submit(f"key:personal:evil*_*:{fresh}", key=KEY)
        assert says(unknown, "ask.unknown_provider", provider="?")
        assert await kept(place, ref(place)) is None
        custom_id = await opened(place, rights=MANAGER, scope="server")
        await place.submit(custom_id, rights=MANAGER, key=KEY)
        assert await kept(place, servers) == Secret(KEY)
        # The server's key answers who has none of his own; of a manager's window nothing is ann's.
        await place.command("ask", place.bob, question="hello?")
        request = decode_turn_request((await place.answered()).request)
        assert request.credential == str(servers)


@pytest.mark.parametrize(
    ("key", "endpoint", "answer"),
    [
        ("", "", "ask.bad_key"),
        ("schlüssel", "", "ask.bad_key"),
        ("two words\nand lines", "", "ask.bad_key"),
        (KEY, "http://plain.example", "ask.bad_endpoint"),
        (KEY, "https://me:pw@host.example", "ask.bad_endpoint"),
        (KEY, "https://", "ask.bad_endpoint"),
        (KEY, "https://[", "ask.bad_endpoint"),
        (KEY, "javascript:alert(1)", "ask.bad_endpoint"),
    ],
)
def test_what_is_no_key_or_no_address(key: str, endpoint: str, answer: str):
    if answer == "ask.bad_endpoint":
        assert not is_address(endpoint)
        return
    with pytest.raises(CredentialError):
        seal(
            PrivateKey.generate().public_key,
            CredentialRef(scope=CredentialSource.PERSONAL, owner_id=1, provider="x"),
            1,
            Secret(key),
        )


async def test_without_a_sealing_key_nothing_is_taken(server, tmp_path: Path):
    async with town(server, tmp_path, has_vault=False) as place:
        asked = await place.command("key set", provider="rehearsal")
        assert says(asked, "ask.no_vault")


async def test_forgetting_erases_keys_choices_and_failures(server, tmp_path: Path):
    async with town(server, tmp_path) as place:
        await place.submit(await opened(place), key=KEY)
        await place.command("model", name="rehearsal/plain")
        failed = await place.failed()
        theirs = await place.failed(place.bob)
        asked = await place.command("privacy forget")
        assert asked.texts == [TEXTS.count("ask.forgotten", 2)]
        assert await kept(place, ref(place)) is None
        assert await place.records.turn(failed) is None
        assert await place.records.turn(theirs) is not None
        await place.client.delete(*await place.client.keys("*:forgot:*"))  # ten minutes later
        again = await place.command("privacy forget")
        assert again.texts == [TEXTS.count("ask.forgotten", 0)]


async def test_forgetting_looks_at_everything_seldom(server, tmp_path: Path):
    """One person at a time, each once in ten minutes: it is a look at every key of the cell."""
    async with town(server, tmp_path) as place:
        both = await asyncio.gather(
            *(place.command("privacy forget", user) for user in (place.ann, place.ann, place.bob))
        )
        heard = sorted(asked.texts[0] for asked in both)
        assert heard.count(TEXTS.count("ask.forgotten", 0)) == 1
        assert heard.count(TEXTS.text("ask.forget_later")) == 2
        marks = {key.decode() for key in await place.client.keys("*:forgot:*")}
        assert len(marks) == 1  # whoever was forgotten; nobody is being forgotten any more
        assert not any(str(place.ann.id) in mark or str(place.bob.id) in mark for mark in marks)
        for user in (place.ann, place.bob):
            await place.command("privacy forget", user)
        for user in (place.ann, place.bob):
            assert says(await place.command("privacy forget", user), "ask.forget_later")


async def test_an_endpoint_of_the_operators_without_a_key_takes_none(server, tmp_path: Path):
    """A junk key would only say that somebody else pays; with an address it is one's own."""
    file = '[providers.ourbox]\nbase_url = "http://10.0.0.7/v1"\n'
    async with town(server, tmp_path, file=file) as place:
        asked = await place.command("key set", provider="ourbox")
        assert asked.form is not None
        custom_id = str(asked.form["custom_id"])
        sent = await place.submit(custom_id, key=KEY, endpoint="")
        assert says(sent, "ask.key_not_needed", provider="ourbox")
        assert await place.store.of(CredentialSource.PERSONAL, place.ann.id) == []
        sent = await place.submit(custom_id, key=KEY, endpoint="https://mine.example/v1")
        assert [
            one.endpoint for one in await place.store.of(CredentialSource.PERSONAL, place.ann.id)
        ] == ["https://mine.example/v1"]
