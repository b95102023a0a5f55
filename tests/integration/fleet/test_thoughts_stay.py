"""What a model thought stays in the worker: in no record, no log, no report, no statistics."""

import asyncio
import json
import logging

import pytest
from redis.asyncio import Redis

from shared.edges.queue import TurnQueue
from shared.edges.records import TurnRecords
from shared.keys import Keys
from shared.log_lines import JsonFormatter
from shared.summaries import TurnSummary
from shared.turns import TurnState
from shared.wire import encode_json
from tests.support.in_process import Start, finished
from tests.support.turn_ports import (
    KeepingReporter,
    RememberingOutbox,
    ScriptedProvider,
    ScriptedResponse,
    runner,
)
from tests.support.turns import turn
from worker.edges.fleet.lease import Lease
from worker.edges.outbox import Outbox
from worker.tasks import run_turn
from worker.turn.outcomes import TurnResult

THOUGHT = "quince-and-medlar"
END = b'data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
DONE = b"data: [DONE]\n\n"


def frame(**delta: str) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": None}
    return b"data: " + json.dumps({"id": "c", "model": "m", "choices": [choice]}).encode() + b"\n\n"


def thinking(*rest: bytes) -> ScriptedResponse:
    """Thinks in both ways that there are, then says something."""
    said = [frame(reasoning_content=f"First {THOUGHT}. "), frame(reasoning_content="Then more.")]
    tagged = frame(content=f"<think>{THOUGHT} again</think>Here it is.")
    return ScriptedResponse([*said, tagged, *rest])


WHOLE = (END, DONE)
GONE = b'data: {"error":{"message":"upstream is gone","code":"invalid_request"}}\n\n'
ENDS = {
    "done": (WHOLE, 0, TurnState.DONE),
    "done, and kept": (WHOLE, 60, TurnState.DONE),
    "failed": ((GONE,), 60, TurnState.FAILED),
}


async def stored(client: Redis) -> dict[str, bytes]:
    """Everything that the server holds, by key."""
    found: dict[str, bytes] = {}
    async for key in client.scan_iter("*"):
        kind = (await client.type(key)).decode()
        match kind:
            case "string":
                value: object = await client.get(key)
            case "hash":
                value = await client.hgetall(key)  # type: ignore[misc]  # redis-py
            case "list":
                value = await client.lrange(key, 0, -1)  # type: ignore[misc]  # redis-py
            case "stream":
                value = await client.xrange(key)
            case _:
                value = await client.zrange(key, 0, -1)
        found[key.decode()] = repr(value).encode()
    return found


@pytest.mark.parametrize(("rest", "keep_s", "state"), ENDS.values(), ids=ENDS)
async def test_no_thought_leaves_the_worker(
    start: Start, queue: TurnQueue, records: TurnRecords, client: Redis, keys: Keys, caplog,
    rest: tuple[bytes, ...], keep_s: int, state: TurnState,
):  # fmt: skip
    reporter, counted = KeepingReporter(), list[TurnSummary]()
    played = runner(ScriptedProvider(thinking(*rest)), reporter)

    async def count(summary: TurnSummary) -> None:
        counted.append(summary)

    async def job(lease: Lease, outbox: Outbox) -> None:
        ctx = {
            "leases": {lease.turn_id: lease},
            "runner": played,
            "outbox_of": lambda _: outbox,
            "count": count,
        }
        await run_turn(ctx, lease.turn_id)

    caplog.set_level(logging.DEBUG)
    async with start(job):
        await queue.admit(turn("l1", keep_thoughts_s=keep_s))
        assert await finished(records, "l1") is state
    lines = [JsonFormatter("worker").format(record) for record in caplog.records]
    assert any('"thought_chars"' in line for line in lines)
    told = [*lines, *(encode_json(one).decode() for one in (*reporter.reports, *counted))]
    assert [line for line in told if THOUGHT in line] == []
    holders = {key for key, value in (await stored(client)).items() if THOUGHT.encode() in value}
    is_kept = keep_s > 0 and state is TurnState.DONE
    assert holders == ({keys.thoughts("l1")} if is_kept else set())
    record = await records.turn("l1")
    assert record is not None
    assert record.outcome is not None
    assert THOUGHT.encode() not in encode_json(record.outcome)


async def test_the_result_has_them_in_its_process_and_is_nothing_to_encode():
    played = runner(ScriptedProvider(thinking(*WHOLE)), KeepingReporter())
    result = await played.run(turn(), RememberingOutbox(), asyncio.Event())
    assert isinstance(result, TurnResult)
    assert result.thoughts == f"First {THOUGHT}. Then more.{THOUGHT} again"
    assert result.thought_chars == len(result.thoughts)
    assert THOUGHT not in repr(result)
    with pytest.raises(TypeError):
        encode_json(result)
