"""A failed turn as a folder for a bug report: over a real server, the folder read as a whole."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from ops.replay.export import Source, export, tape_in
from ops.replay.recorded import difference, play
from shared.config import Settings
from shared.edges.local_channel import LocalChannel, LocalMessage
from shared.edges.queue import TurnQueue
from shared.edges.records import TurnRecords
from shared.edges.redis import connect, within
from shared.history import Reading
from shared.keys import Keys
from shared.recording import Recording
from shared.segments import TurnFailed
from shared.turns import Front, Route, Target
from shared.wire import encode_json
from tests.support import wire
from tests.support.servers import RedisServer, running_server
from tests.support.turns import claim_one, turn

PROMPT, CHANNEL, THREAD, USER, GUILD, ANN, BOB = (2**60 + number for number in range(7))
TURN_ID = f"m{PROMPT}.2"


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with running_server("redis") as server:
        yield server


async def test_a_folder_has_no_id_and_no_name_that_the_reply_does_not_have(
    server: RedisServer, tmp_path: Path
):
    keys, redis = Keys("export"), connect(server.url)
    queue, records = TurnQueue(redis, keys, Settings(cell="export")), TurnRecords(redis, keys)
    route = Route(
        front=Front.LOCAL, channel_id=THREAD, user_id=USER, guild_id=GUILD, parent_id=CHANNEL
    )
    reading = Reading(
        before=PROMPT, author="Carol Author", members=(("Ann", ANN), ("Bob Private", BOB))
    )
    request = turn(
        TURN_ID,
        target=Target(provider="custom", model="m"),
        reading=reading,
        replay_of=f"m{PROMPT}",
    )
    await queue.admit(msgspec.structs.replace(request, route=route))
    claimed = await claim_one(queue)
    recording = Recording()
    recording.received(0.0, wire.sse(wire.chat({"content": "Ask @Ann."})))
    await records.save_recording(TURN_ID, 1, recording.dump())
    await queue.finish(claimed.token, TurnFailed(cause="overloaded", category="x", count=0))
    channel = LocalChannel(redis, keys)
    message = LocalMessage(
        channel_id=THREAD, user_id=1, is_bot=True, text=f"Ask <@{ANN}>.", nonce="n1"
    )
    posted = await channel.post(message)
    slot = encode_json({"message_id": posted.message_id}).decode()
    await within(redis.hset(keys.journal(TURN_ID), "0", slot))

    error = {
        "id": "e1",
        "turn_id": TURN_ID,
        "channel_id": THREAD,
        "error_message": f"message {PROMPT} of {CHANNEL} is gone",
        "error_metadata": {"turns": [f"m{PROMPT}"]},
    }
    source = Source(records=records, channel=channel)
    files = await export(source, TURN_ID, tmp_path, key=b"key", errors=[error])
    assert files == ["attempt-1-1.sse", "attempt-1.rec", "turn.json"]
    whole = b"".join(path.read_bytes() for path in tmp_path.iterdir()).decode("utf-8", "replace")
    numbers = (PROMPT, CHANNEL, THREAD, USER, GUILD, ANN, BOB)
    for private in (*map(str, numbers), "Carol", "Bob Private", "hello"):
        assert private not in whole, private
    tape = tape_in(tmp_path, None)
    (segment,) = play(tape).segments
    assert tape.request.reading is not None
    ((name, stand_in),) = tape.request.reading.members
    assert (name, segment.text) == ("Ann", f"Ask <@{stand_in}>.")
    assert tape.delivered is not None
    assert difference(tape.delivered, [segment]) == []
    await redis.aclose()
