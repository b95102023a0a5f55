"""A failed turn is found, replayed after its cause is gone, and delivered once: real processes."""

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from shared.edges.local_channel import LocalMessage
from shared.turns import Target, TurnState
from tests.support.house import House, Process, house
from tests.support.servers import RedisServer, running_server

pytestmark = pytest.mark.slow

GUILD, LIMIT_S = 777_000_111_222_333_444, 90.0


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with running_server("redis") as server:
        yield server


async def turnfleet(home: House, url: str, *words: str) -> tuple[int, str, str]:
    environ = {name: text for name, text in os.environ.items() if "TURNFLEET" not in name}
    environ |= {"TURNFLEET_REDIS_URL": url, "TURNFLEET_DATA_DIR": str(home.home)}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "ops", *words),
        env=environ,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


async def ended(home: House, turn_id: str) -> TurnState:
    async with asyncio.timeout(LIMIT_S):
        while True:
            state = await home.records.state(turn_id)
            if state in {TurnState.DONE, TurnState.FAILED}:
                return state
            await asyncio.sleep(0.05)


async def said(home: House, channel_id: int) -> list[LocalMessage]:
    """What the bot says in the channel, notices aside, when nothing more is on its way."""
    async with asyncio.timeout(LIMIT_S):
        while True:
            waiting = [await home.redis.xlen(home.keys.out(n)) for n in range(home.keys.partitions)]
            messages = await home.channel.messages(channel_id)
            if not any(waiting):
                return [one for one in messages if one.is_bot and not one.is_notice]
            await asyncio.sleep(0.05)


async def counted(home: House, url: str) -> dict[str, int]:
    """The ended turns that the recorder has counted, whatever their model."""
    _, out, _ = await turnfleet(home, url, "errors", "rate", "-o", "json")
    rows = json.loads(out) if out else []
    return {name: sum(row[name] for row in rows) for name in ("turns", "failed_turns")}


async def ask(home: House, channel_id: int, model: str) -> str:
    target = Target(provider="rehearsal", model=model)
    number = await home.channel.say(channel_id, "hello?", guild_id=GUILD, target=target)
    return f"l{number}"


async def test_a_failed_turn_replayed_after_its_cause_is_gone_delivers_once(server: RedisServer):
    async with house(server.url, workers=1) as home:
        assert home.rehearsal is not None
        port = urlsplit((home.home / "rehearsal.url").read_text().strip()).port
        home.rehearsal.kill()
        turn_id = await ask(home, 5, "plain")
        assert await ended(home, turn_id) is TurnState.FAILED
        listing = await turnfleet(
            home, server.url, "turns", "list", "--failed", "--guild", f"{GUILD}", "-o", "json"
        )
        (row,) = json.loads(listing[1])
        assert row["turn_id"] == turn_id

        words = ["ops.rehearsal", "--port", str(port)]
        home.rehearsal = Process("again", words, os.environ, home.home)
        home.rehearsal.start()
        again = ("turns", "replay", "--cause", row["cause"], "-o", "json")
        dry = await turnfleet(home, server.url, *again, "--dry-run")
        assert [one["result"] for one in json.loads(dry[1])] == ["cause still open"]
        top = await turnfleet(home, server.url, "errors", "top", "-o", "json")
        (cause,) = json.loads(top[1])
        await turnfleet(home, server.url, "errors", "resolve", cause["group_hash"])
        dry = await turnfleet(home, server.url, *again, "--dry-run")
        assert [one["eligible"] for one in json.loads(dry[1])] == [True]
        assert await home.records.state(f"{turn_id}.2") is None

        first = await turnfleet(home, server.url, *again, "--yes", "--wait")
        assert [one["result"] for one in json.loads(first[1])] == ["done"], first
        for _ in range(2):
            code, out, _ = await turnfleet(home, server.url, "turns", "replay", turn_id, "--yes")
            assert (code, "already replayed" in out) == (1, True)
        reply = await said(home, 5)
        assert reply[0].reply_to == int(turn_id[1:])
        assert len({one.text for one in reply}) == len(reply)
        record = await home.records.turn(f"{turn_id}.2")
        assert record is not None
        assert record.facts.replay_of == turn_id


async def test_two_replays_at_once_deliver_once(server: RedisServer):
    async with house(server.url, workers=1) as home:
        turn_id = await ask(home, 6, "invalid_key")
        assert await ended(home, turn_id) is TurnState.FAILED
        words = ("turns", "replay", turn_id, "--with", "model=plain", "--yes", "-o", "json")
        await asyncio.gather(*(turnfleet(home, server.url, *words) for _ in range(3)))
        assert await ended(home, f"{turn_id}.2") is TurnState.DONE
        texts = [one.text for one in await said(home, 6)]
        assert texts
        assert len(set(texts)) == len(texts)
        assert await home.records.state(f"{turn_id}.3") is None


async def test_a_replay_waits_for_the_turn_that_runs_in_its_channel(server: RedisServer):
    async with house(server.url, workers=2) as home:
        old = await ask(home, 9, "invalid_key")
        assert await ended(home, old) is TurnState.FAILED
        new = await ask(home, 9, "plain@15")
        async with asyncio.timeout(LIMIT_S):
            while await home.records.state(new) is not TurnState.RUNNING:
                await asyncio.sleep(0.02)
        words = ("turns", "replay", old, "--with", "model=plain", "--yes", "-o", "json")
        await asyncio.gather(*(turnfleet(home, server.url, *words) for _ in range(2)))
        if await home.records.state(new) is TurnState.RUNNING:
            assert await home.records.state(f"{old}.2") is TurnState.QUEUED
        assert await ended(home, new) is TurnState.DONE
        assert await ended(home, f"{old}.2") is TurnState.DONE
        texts = [one.text for one in await said(home, 9)]
        half = len(texts) // 2
        assert half > 0
        assert texts[:half] == texts[half:], "the same reply twice: one of each turn, in order"
        replies = [one.reply_to for one in await said(home, 9) if one.reply_to]
        assert replies == [int(new[1:]), int(old[1:])]
        assert await home.records.state(f"{old}.3") is None


async def test_a_replay_that_fails_has_its_own_error_and_generation(server: RedisServer):
    async with house(server.url, workers=1) as home:
        turn_id = await ask(home, 7, "invalid_key")
        assert await ended(home, turn_id) is TurnState.FAILED
        words = ("turns", "replay", turn_id, "--with", "model=unknown_model", "--yes", "--wait")
        code, out, _ = await turnfleet(home, server.url, *words, "-o", "json")
        assert code == 1
        assert json.loads(out)[0]["why"] == "model_not_found"
        code, out, _ = await turnfleet(home, server.url, "turns", "replay", turn_id, "--yes")
        assert f"{turn_id}.2, which failed" in out
        next_one = ("turns", "replay", f"{turn_id}.2", "--with", "model=plain", "--yes", "--wait")
        assert (await turnfleet(home, server.url, *next_one))[0] == 0
        assert (await home.records.turn(f"{turn_id}.3")) is not None
        async with asyncio.timeout(LIMIT_S):
            while await counted(home, server.url) != {"turns": 3, "failed_turns": 2}:
                await asyncio.sleep(0.2)


async def test_a_recorded_attempt_plays_what_was_delivered(server: RedisServer, tmp_path: Path):
    async with house(server.url, workers=1) as home:
        turn_id = await ask(home, 8, "cut_clean")
        assert await ended(home, turn_id) is TurnState.FAILED
        partial = await turnfleet(home, server.url, "turns", "replay", turn_id, "--yes")
        assert (partial[0], "partly delivered" in partial[1]) == (1, True)
        play = ("turns", "replay", turn_id, "--recorded")
        code, out, err = await turnfleet(home, server.url, *play, "-o", "json")
        assert code == 0, err
        layers = {step["layer"] for step in json.loads(out)["steps"]}
        assert {"bytes", "event", "chunk", "segment"} <= layers
        code, out, err = await turnfleet(home, server.url, *play, "--diff")
        assert (code, "No difference" in err) == (0, True), (out, err)

        folder = str(tmp_path / "bundle")
        assert (await turnfleet(home, server.url, "turns", "export", turn_id, "--to", folder))[
            0
        ] == 0
        facts = (tmp_path / "bundle" / "turn.json").read_text()
        assert "hello?" not in facts
        assert str(GUILD) not in facts
        from_folder = ("turns", "replay", folder, "--recorded", "--diff")
        assert (await turnfleet(home, server.url, *from_folder))[0] == 0
        body = str(next((tmp_path / "bundle").glob("*.sse")))
        code, out, _ = await turnfleet(
            home, server.url, "normalize", body, "--provider", "rehearsal", "-o", "ndjson"
        )
        assert json.loads(out)["events"][0]["type"] == "start"
        code, whole, _ = await turnfleet(home, server.url, "normalize", folder, "-o", "ndjson")
        readings = {line["file"]: line["events"] for line in map(json.loads, whole.splitlines())}
        assert (code, readings[body]) == (0, json.loads(out)["events"])
