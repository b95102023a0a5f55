"""`turnfleet turns` over a real server, with a gateway and a worker played by the test."""

import asyncio
import contextlib
import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ops.cli.exits import Exit
from shared.config import Settings
from shared.edges.local_channel import LocalChannel, LocalMessage
from shared.edges.queue import TurnQueue
from shared.edges.records import PAGE_TURNS
from shared.edges.redis import connect
from shared.edges.streams import TailReader
from shared.keys import Keys
from shared.messages import Message, Role
from shared.segments import Segment, SegmentKind, SegmentReady, TurnDone, TurnFailed
from shared.turns import Front, Route, StopReason, Target, TurnOutcome, TurnRequest, TurnState
from tests.support.cli import Command
from tests.support.servers import RedisServer, running_server

FAILED = TurnFailed(
    cause="invalid_key", category="api_error", headline="The key was refused.", report_id="r1"
)


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with running_server("redis") as server:
        yield server


class House:
    """A gateway and a worker that answer every prompt, in a thread with a loop of its own."""

    def __init__(self, url: str, cell: str) -> None:
        self.settings = Settings(cell=cell, partitions=1)
        self.keys = Keys(cell, 1)
        self.url = url
        self.reply: Callable[[str], list[str] | TurnFailed] = lambda text: [f"you said {text}"]
        self.declines = False

    @contextlib.contextmanager
    def open(self) -> Iterator[None]:
        stop = threading.Event()
        thread = threading.Thread(target=lambda: asyncio.run(self._live(stop)))
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    async def _live(self, stop: threading.Event) -> None:
        redis, blocking = connect(self.url), connect(self.url, blocking=True)
        channel = LocalChannel(blocking, self.keys)
        queue = TurnQueue(redis, self.keys, self.settings)
        reader = TailReader(redis, blocking, stream=self.keys.out(0))
        while not stop.is_set():
            for prompt in await channel.next_prompts():
                await self._answer(channel, queue, reader, prompt.message)
                await channel.ack_prompt(prompt.receipt)
        await blocking.aclose()
        await redis.aclose()

    async def _answer(
        self, channel: LocalChannel, queue: TurnQueue, reader: TailReader, prompt: LocalMessage
    ) -> None:
        if self.declines:
            await self._post(channel, prompt, "busy", is_notice=True)
            return
        await queue.admit(_request(prompt))
        (claimed,) = await queue.claim("worker-1", 1)
        answer = self.reply(prompt.text)
        texts = [] if isinstance(answer, TurnFailed) else answer
        for seq, text in enumerate(texts, 1):
            segment = Segment(
                turn_id=claimed.token.turn_id,
                attempt=1,
                seq=seq,
                kind=SegmentKind.TEXT,
                text=text,
                start=0,
                end=len(text),
            )
            await queue.append(claimed.token, seq, SegmentReady(segment=segment))
        event = answer if isinstance(answer, TurnFailed) else TurnDone(count=len(texts))
        outcome = TurnOutcome(
            state=event.state,
            segments=len(texts),
            stop_reason=StopReason.STOP,
            first_byte_ms=3,
            first_segment_ms=7,
        )
        await queue.finish(claimed.token, event, outcome)
        await asyncio.sleep(0.2)
        for entry in await reader.read(block_s=0.1):
            body = json.loads(entry.fields[b"data"])
            text = body["segment"]["text"] if body["type"] == "segment" else body.get("headline")
            if text:
                await self._post(channel, prompt, text, is_notice=body["type"] != "segment")
            await reader.ack([entry.id])

    async def _post(
        self, channel: LocalChannel, prompt: LocalMessage, text: str, *, is_notice: bool
    ) -> None:
        message = LocalMessage(
            channel_id=prompt.channel_id,
            user_id=0,
            text=text,
            is_bot=True,
            nonce=secrets.token_hex(8),
            reply_to=prompt.id,
            is_notice=is_notice,
        )
        await channel.post(message)


def _request(prompt: LocalMessage) -> TurnRequest:
    target = prompt.target or Target(provider="rehearsal", model="plain")
    return TurnRequest(
        turn_id=f"l{prompt.id}",
        route=Route(
            front=Front.LOCAL,
            channel_id=prompt.channel_id,
            user_id=prompt.user_id,
            guild_id=prompt.guild_id,
        ),
        target=target,
        messages=[Message(role=Role.USER, content=prompt.text)],
        created_ms=time.time_ns() // 1_000_000,
    )


@pytest.fixture
def house(server: RedisServer) -> House:
    return House(server.url, f"c{secrets.token_hex(4)}")


@pytest.fixture
def turnfleet(house: House, tmp_path: Path) -> Command:
    settings = {"redis_url": house.url, "cell": house.keys.prefix[4:-2], "partitions": "1"}
    return Command(tmp_path, settings)


def test_send_prints_what_the_channel_shows(house: House, turnfleet: Command):
    house.reply = lambda text: [f"first of {text}", "second \x1b[31m"]
    with house.open():
        result = turnfleet("turns", "send", "hello")
    assert result.exit_code == 0, result.stderr
    assert result.stdout == "first of hello\nsecond �[31m\n"
    assert ": done" in result.stderr


def test_send_reads_stdin_and_gives_json(house: House, turnfleet: Command):
    with house.open():
        result = turnfleet(
            "turns",
            "send",
            "-",
            "--guild",
            "77",
            "--model",
            "big",
            "-o",
            "json",
            stdin="from a pipe",
        )
    exchange = json.loads(result.stdout)
    assert exchange["state"] == "done"
    assert [message["text"] for message in exchange["messages"]] == ["you said from a pipe"]
    shown = json.loads(turnfleet("turns", "show", exchange["turn_id"], "-o", "json").stdout)
    assert shown["facts"]["model"] == "big"
    assert shown["route"]["guild_id"] == 77


def test_a_failed_turn_ends_with_1_and_is_listed_and_shown(house: House, turnfleet: Command):
    house.reply = lambda _text: FAILED
    with house.open():
        result = turnfleet("turns", "send", "hello", "-o", "json")
    assert result.exit_code == Exit.FAILED
    exchange = json.loads(result.stdout)
    assert (exchange["state"], exchange["cause"]) == ("failed", "invalid_key")
    (row,) = json.loads(turnfleet("turns", "list", "--failed", "-o", "json").stdout)
    assert (row["turn_id"], row["cause"]) == (exchange["turn_id"], "invalid_key")
    for options in (("--cause", "overloaded"), ("--guild", "1"), ("--since", "0s")):
        none = turnfleet("turns", "list", "--failed", *options)
        assert (none.stdout, none.stderr) == ("", "No failed turns match.\n")
    table = turnfleet("turns", "show", exchange["turn_id"]).stdout
    assert "The key was refused." in table
    assert "Timeline" in table


def test_a_timeline_has_the_moments_in_order(house: House, turnfleet: Command):
    with house.open():
        turn_id = json.loads(turnfleet("turns", "send", "x", "-o", "json").stdout)["turn_id"]
    shown = json.loads(turnfleet("turns", "show", turn_id, "-o", "json").stdout)
    words = [line["what"] for line in shown["timeline"]]
    assert words[:2] == ["admitted", "claimed"]
    assert {"first byte", "first segment", "done"} <= set(words)
    after = [line["after_ms"] for line in shown["timeline"]]
    assert after == sorted(after)
    assert after[0] == 0


def test_a_declined_prompt_ends_with_1_and_shows_the_notice(house: House, turnfleet: Command):
    house.declines = True
    with house.open():
        result = turnfleet("turns", "send", "hello")
    assert (result.exit_code, result.stdout) == (Exit.FAILED, "busy\n")


def test_without_a_gateway_send_says_what_to_start(turnfleet: Command):
    result = turnfleet("turns", "send", "hello", "--timeout", "0.2")
    assert result.exit_code == Exit.FAILED
    assert "turnfleet gateway" in result.stderr


def test_send_without_waiting_gives_the_turn(turnfleet: Command):
    result = turnfleet("turns", "send", "hello", "--no-wait", "-o", "json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["waiting"] == "unadmitted"


@pytest.mark.parametrize("text", ["", "   ", "x" * 2_001])
def test_a_prompt_that_no_channel_takes_is_bad_input(turnfleet: Command, text: str):
    assert turnfleet("turns", "send", text).exit_code == Exit.BAD_INPUT


def test_show_of_nothing_ends_with_4(turnfleet: Command):
    result = turnfleet("turns", "show", "l404")
    assert result.exit_code == Exit.MISSING
    assert "l404" in result.stderr


def test_running_turns_are_listed(house: House, turnfleet: Command):
    async def run() -> None:
        redis = connect(house.url)
        queue = TurnQueue(redis, house.keys, house.settings)
        for number in (5, 6):
            prompt = LocalMessage(id=number, channel_id=number, user_id=1, text="x", guild_id=3)
            await queue.admit(_request(prompt))
        await queue.claim("worker-1", 1)
        await redis.aclose()

    assert turnfleet("turns", "list").stderr == "No turn runs now; see --waiting.\n"
    assert turnfleet("turns", "list", "--waiting").stderr == "No turn waits.\n"
    asyncio.run(run())
    (row,) = json.loads(turnfleet("turns", "list", "-o", "json").stdout)
    assert (row["turn_id"], row["state"], row["guild_id"]) == ("l5", TurnState.RUNNING, 3)
    (row,) = json.loads(turnfleet("turns", "list", "--waiting", "-o", "json").stdout)
    assert (row["turn_id"], row["state"]) == ("l6", TurnState.QUEUED)
    assert turnfleet("turns", "list", "--waiting", "--guild", "9").stdout == ""
    assert turnfleet("turns", "list", "--waiting", "--failed").exit_code == Exit.BAD_INPUT


def test_of_many_turns_that_wait_only_some_are_read(house: House, turnfleet: Command):
    """Each has its whole request: a look at a long queue must not be its own burden."""

    async def fill() -> None:
        redis = connect(house.url)
        queue = TurnQueue(redis, house.keys, house.settings)
        for number in range(1, PAGE_TURNS + 51):
            prompt = LocalMessage(
                id=number, channel_id=number, user_id=1, text="x", guild_id=number
            )
            await queue.admit(_request(prompt))
        await redis.config_resetstat()
        await redis.aclose()

    async def read() -> int:
        redis = connect(house.url)
        stats = await redis.info("commandstats")
        await redis.aclose()
        return int(stats["cmdstat_hgetall"]["calls"])

    asyncio.run(fill())
    rows = json.loads(turnfleet("turns", "list", "--waiting", "--limit", "3", "-o", "json").stdout)
    assert [row["turn_id"] for row in rows] == ["l1", "l2", "l3"]
    assert asyncio.run(read()) <= PAGE_TURNS
    found = turnfleet("turns", "list", "--waiting", "--guild", str(PAGE_TURNS + 50), "-o", "json")
    assert len(json.loads(found.stdout)) == 1
