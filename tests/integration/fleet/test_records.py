import msgspec
import pytest
from redis.asyncio import Redis

from shared.edges.queue import TurnQueue
from shared.edges.records import ProcessRecord, TurnRecords
from shared.edges.redis import within
from shared.errors import WireError
from shared.failures import FaultDetails
from shared.keys import Keys
from shared.lifetimes import FAULT_TTL_MS
from shared.segments import TurnFailed
from shared.turns import CredentialSource, Target, TurnState
from tests.support.turns import admit_and_claim, turn

PROCESS = ProcessRecord(
    process_id="w1",
    role="worker",
    host="h",
    pid=1,
    version="0",
    started_ms=1_000_000,
    seen_ms=2_000_000,
    slots=8,
)


async def fail(queue: TurnQueue, turn_id: str, **more: object) -> None:
    token = (await admit_and_claim(queue, turn_id, **more)).token
    await queue.finish(token, TurnFailed(cause="rate_limited", category="rate_limit", count=-1))


async def test_an_unknown_turn_has_no_record(records: TurnRecords):
    assert await records.turn("l9") is None
    assert await records.state("l9") is None
    assert await records.request("l9") is None
    assert await records.timeline("l9") == []


async def test_a_record_tells_what_is_known(queue: TurnQueue, records: TurnRecords):
    request = turn(
        "l1",
        target=Target(provider="p", model="m"),
        credential_source=CredentialSource.PERSONAL,
        replay_of="l0",
    )
    await queue.admit(request)
    waiting = await records.turn("l1")
    assert waiting is not None
    assert (waiting.state, waiting.claimed_ms, waiting.worker_id) == (TurnState.QUEUED, None, "-")
    assert (waiting.facts.provider, waiting.facts.model) == ("p", "m")
    assert waiting.facts.credential_source is CredentialSource.PERSONAL
    assert waiting.facts.replay_of == "l0"
    assert waiting.route == request.route
    (claimed,) = await queue.claim("w1", 1)
    running = await records.turn("l1")
    assert running is not None
    assert (running.attempt, running.claim) == (1, claimed.token.claim)
    assert running.worker_id == "w1"
    assert [record.turn_id for record in await records.running()] == ["l1"]


async def test_failed_turns_are_listed_by_time(queue: TurnQueue, records: TurnRecords):
    for n in range(3):
        await fail(queue, f"l{n}")
    found = [record async for record in records.failed()]
    assert [record.turn_id for record in found] == ["l2", "l1", "l0"]
    assert isinstance(found[0].event, TurnFailed)
    assert found[0].event.cause == "rate_limited"
    middle = found[1].finished_ms or 0
    since = [r.turn_id async for r in records.failed(since_ms=middle)]
    until = [r.turn_id async for r in records.failed(until_ms=middle)]
    assert "l2" in since
    assert "l0" in until


async def test_a_long_list_comes_in_pages(
    queue: TurnQueue, records: TurnRecords, client: Redis, keys: Keys
):
    await fail(queue, "l1")
    await client.zadd(keys.failed, {f"gone{n}": n for n in range(450)})
    assert [record.turn_id async for record in records.failed()] == ["l1"]


async def test_an_unreadable_request_is_an_error_of_the_wire(
    queue: TurnQueue, records: TurnRecords, client: Redis, keys: Keys
):
    await queue.admit(turn("l1"))
    await within(client.hset(keys.turn("l1"), mapping={"request": b"\x80\x04"}))
    with pytest.raises(WireError):
        await records.request("l1")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("route", b'{"front":"matrix","channel_id":5,"user_id":1}'),
        ("event", b'{"type":"turn_paused"}'),
        ("facts", b"[]"),
        ("state", b"paused"),
        ("attempt", b"first"),
    ],
)
async def test_a_record_of_another_version_hides_no_other(
    queue: TurnQueue, records: TurnRecords, client: Redis, keys: Keys, field: str, value: bytes
):
    for n in range(3):
        await fail(queue, f"l{n}")
    await within(client.hset(keys.turn("l1"), mapping={field: value}))
    assert [record.turn_id async for record in records.failed()] == ["l2", "l0"]
    assert records.unread == 1
    with pytest.raises(WireError, match="turn l1"):
        await records.turn("l1")
    await client.delete(keys.turn("l1"))
    assert [record.turn_id async for record in records.failed()] == ["l2", "l0"]
    assert records.unread == 0


async def test_the_load_is_what_waits_and_runs(queue: TurnQueue, records: TurnRecords):
    assert (await records.load()).load == 0
    for n in range(3):
        await queue.admit(turn(f"l{n}", channel=n))
    await queue.claim("w1", 1)
    load = await records.load()
    assert (load.queued, load.running, load.load) == (2, 1, 3)


async def test_processes_report_and_are_forgotten(records: TurnRecords, client: Redis):
    assert await records.processes() == []
    await records.report_process(PROCESS)
    assert await records.processes() == [PROCESS]
    await records.forget_process("w1")
    assert await records.processes() == []


async def test_a_silent_process_is_no_longer_listed(
    records: TurnRecords, client: Redis, keys: Keys
):
    await records.report_process(PROCESS)
    assert 0 < await client.pttl(keys.heartbeat("w1")) <= 10_000
    await client.delete(keys.heartbeat("w1"))
    assert await records.processes() == []
    later = msgspec.structs.replace(PROCESS, process_id="w2", seen_ms=PROCESS.seen_ms + 200_000)
    await records.report_process(later)
    assert await client.zrange(keys.processes, 0, -1) == [b"w2"]


async def test_the_details_of_a_fault_are_kept_for_three_days(
    records: TurnRecords, client: Redis, keys: Keys
):
    details = FaultDetails(snippet="[redacted:key] is bad", guild_id=7)
    await records.save_details("r1", details)
    assert await records.details("r1") == details
    assert await records.details("r2") is None
    assert FAULT_TTL_MS - 60_000 < await client.pttl(keys.fault("r1")) <= FAULT_TTL_MS
