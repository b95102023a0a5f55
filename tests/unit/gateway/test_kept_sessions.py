"""What a beat keeps of a session: its places go along until a beat has brought them."""

import hikari
import msgspec

from gateway.edges.discord_incoming import Incoming
from gateway.edges.shard_leases import KnownPlaces, Session
from tests.support.discord import MemoryMarks

PLACES = KnownPlaces(parents={1: 2}, restricted=(3,))
NOW = Session(session_id="s", seq=7, url="ws://x", at_ms=1)


async def test_places_go_along_until_a_beat_with_them_got_through():
    async def unread(moved: object) -> list[hikari.Message]:
        del moved
        return []

    incoming = Incoming(MemoryMarks(), (), bot_id=lambda: 1, fetch=unread)
    await incoming.begin_shard(0, 1, msgspec.structs.replace(NOW, places=PLACES))

    def offered() -> KnownPlaces | None:
        session = incoming.session(0, NOW)
        assert session is not None
        return session.places

    assert offered() == PLACES
    incoming.kept([])  # that beat was lost, and in the next one the shard was not connected
    assert offered() == PLACES
    incoming.kept([0])
    assert offered() is None
