"""A credential that is taken back while turns wait for it: they end, and are not run again."""

import time
from pathlib import Path

from nacl.public import PrivateKey
from redis.asyncio import Redis

from ops.replay.turns import Change, Reason, Replays
from shared.edges.credentials import CredentialStore, StoredCredential, save_opening_keys
from shared.edges.queue import Admission, TurnQueue
from shared.edges.records import TurnRecords
from shared.keys import Keys
from shared.sealed import CredentialRef, seal
from shared.secrets import Secret
from shared.segments import TurnFailed
from shared.turns import CredentialSource, Target, TurnState
from shared.wire import decode_turn_request
from tests.support.in_process import Start, finished
from tests.support.turn_ports import KeepingReporter, ScriptedProvider, runner
from tests.support.turns import SNOWFLAKE, turn
from worker.edges.fleet.lease import Lease
from worker.edges.keys import KeyPools
from worker.edges.outbox import Outbox
from worker.edges.sealed_keys import SealedKeys

REF = CredentialRef(scope=CredentialSource.PERSONAL, owner_id=SNOWFLAKE - 1, provider="openai")


async def test_turns_that_wait_for_a_revoked_key_end_as_invalid_key_and_are_not_replayed(
    client: Redis,
    keys: Keys,
    queue: TurnQueue,
    records: TurnRecords,
    start: Start,
    tmp_path: Path,
):
    pair = PrivateKey.generate()
    save_opening_keys(tmp_path / "opening.keys", [pair])
    store = CredentialStore(client, keys)
    box = seal(pair.public_key, REF, 1, Secret("sk-personal-0123456789"))
    stored = StoredCredential(ref=REF, version=1, changed_ms=1, box=box)
    await store.put(stored, word="added", actor="test")
    waiting = ["l1", "l2", "l3"]
    for number, turn_id in enumerate(waiting):
        request = turn(
            turn_id,
            channel=number % 2 + 1,  # two of them in one lane
            credential=str(REF),
            credential_source=REF.scope,
            target=Target(provider="openai", model="m"),
        )
        assert await queue.admit(request) is Admission.ACCEPTED
    assert await store.revoke(REF, actor="test", now_ms=time.time_ns() // 1_000_000)

    sealed = SealedKeys(store, tmp_path / "opening.keys", {})
    pools = KeyPools(client, keys, {}, {"OPENAI_API_KEY": "sk-the-servers-own"}, sealed)
    asked = ScriptedProvider()  # it has no answer: who is asked fails the test
    reporter = KeepingReporter()
    loop = runner(asked, reporter, keys=pools)

    async def job(lease: Lease, outbox: Outbox) -> None:
        await loop.run(decode_turn_request(lease.request), outbox, lease.stopped)

    async with start(job):
        for turn_id in waiting:
            assert await finished(records, turn_id) is TurnState.FAILED
    replays = Replays(records, queue, lambda: 1, store)
    for turn_id in waiting:
        record = await records.turn(turn_id)
        assert record is not None
        assert isinstance(record.event, TurnFailed)
        assert record.event.cause == "invalid_key"
        assert "tip.check_personal_key:en" in record.event.tips
        assert (await replays.examine(turn_id, Change())).reason is Reason.REVOKED
    assert [report.error_type for report in reporter.reports] == ["invalid_key"] * len(waiting)
