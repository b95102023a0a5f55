"""A failed turn on a sealed credential: replayed while the credential is kept, never after."""

from collections.abc import Iterator

import msgspec
import pytest

from ops.replay.turns import Change, Reason, Replays
from shared.config import Settings
from shared.edges.credentials import CredentialStore, StoredCredential
from shared.edges.queue import TurnQueue
from shared.edges.records import TurnRecords
from shared.edges.redis import connect
from shared.keys import Keys
from shared.sealed import CredentialRef
from shared.segments import TurnFailed
from shared.turns import CredentialSource
from tests.support.servers import RedisServer, running_server
from tests.support.turns import turn

FAILED = TurnFailed(cause="overloaded", category="provider_overloaded", count=-1)
REF = CredentialRef(scope=CredentialSource.PERSONAL, owner_id=1, provider="openai")


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with running_server("redis") as server:
        yield server


async def test_a_turn_whose_credential_was_revoked_is_not_replayed(server: RedisServer):
    keys = Keys()
    redis = connect(server.url)
    queue = TurnQueue(redis, keys, Settings())
    records, store = TurnRecords(redis, keys), CredentialStore(redis, keys)
    for number, credential in enumerate((str(REF), "nonsense"), start=1):
        request = turn(f"l{number}", credential=credential, credential_source=REF.scope)
        await queue.admit(request)
        (claimed,) = await queue.claim("worker-1", 1)
        await queue.finish(claimed.token, FAILED)

    async def reason(turn_id: str = "l1", kept: CredentialStore | None = store) -> Reason | None:
        replays = Replays(records, queue, lambda: 1, kept)
        return (await replays.examine(turn_id, Change())).reason

    assert await reason() is Reason.REVOKED
    stored = StoredCredential(ref=REF, version=1, changed_ms=1, box=b"box")
    await store.put(stored, word="added", actor="test")
    assert await reason() is None
    assert await reason(kept=None) is Reason.REVOKED
    assert await reason("l2") is Reason.REVOKED
    gone = msgspec.structs.replace(stored, version=2, box=b"")
    await store.put(gone, word="revoked", actor="test")
    assert await reason() is Reason.REVOKED
    await redis.aclose()
