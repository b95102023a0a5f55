"""The acts of the demonstration: each plays a turn and looks at what came of it.

Comes in: a connection to the running fleet. Goes out: prints, and a `Failure` where something is
not as it must be. `ops.cli.demo` performs them in order.
"""

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from ops.cli.conversation import Exchange, Waiting, converse, fresh_channel
from ops.cli.output import OutputFormat, print_records, say_block
from ops.cli.session import Fleet, database
from ops.cli.turns import TIMELINE_COLUMNS, timeline
from ops.triage.errors import ErrorFilter, ErrorRecord, list_errors
from shared.edges.local_channel import LocalMessage
from shared.edges.queue import Cancelled
from shared.errors import TurnfleetError
from shared.segments import TurnFailed
from shared.turns import Target, TurnState

REPLY_S: Final = 25.0
"""A killed worker's turn takes its lease of 6 s, and then its whole stream again."""
ROW_S: Final = 10.0
"""The recorder writes within a second; a busy machine is slower."""
LOOK_S: Final = 0.02
GUILD: Final = 4242


class Failure(TurnfleetError):
    """Something in the demonstration is not as it must be."""


class Act(msgspec.Struct, frozen=True, kw_only=True):
    """A scene: its title, and what is played."""

    title: str
    play: Callable[[Fleet], Awaitable[None]]


async def plain(link: Fleet) -> None:
    """A prompt, its reply, and when what happened."""
    exchange = await _ask(link, "plain", "hello")
    _show(exchange)
    _must(exchange.state is TurnState.DONE, f"the turn is {exchange.state}, not done")
    _must(_said(exchange).startswith("Hello!"), "the reply does not begin with its first word")
    await _show_timeline(link, exchange)


async def long(link: Fleet) -> None:
    """Code and a table arrive whole."""
    exchange = await _ask(link, "long", "how do I read a file?")
    _show(exchange)
    _must(exchange.state is TurnState.DONE, f"the turn is {exchange.state}, not done")
    _must(
        any(message.text.count("```") == 2 for message in exchange.messages),
        "no message holds the whole code block",
    )
    _must(all(len(message.text) <= 2000 for message in exchange.messages), "a message is too long")


async def tooled(link: Fleet) -> None:
    """The model calls two tools, turnfleet runs them, and the model goes on with the results."""
    exchange = await _ask(link, "sums", "what is twice 21, and what day is it?")
    _show(exchange)
    _must(exchange.state is TurnState.DONE, f"the turn is {exchange.state}, not done")
    outcome = exchange.record.outcome if exchange.record else None
    _must(outcome is not None, "the turn has no outcome")
    if outcome is not None:
        _must(outcome.rounds == 2, f"the model was asked {outcome.rounds} times, not twice")
        _must(outcome.tool_calls == 2, f"{outcome.tool_calls} tools ran, not two")
        say_block(f"\n{outcome.tool_calls} calls ran between {outcome.rounds} requests.")
    words = _said(exchange)
    _must(words.startswith("Let me work that out."), "the words before the calls are missing")
    _must("\n42" in words, "the result of the sum is missing")


async def failing(link: Fleet) -> None:
    """A refused key: a notice for the channel, a row for the operator, no upstream text."""
    exchange = await _ask(link, "invalid_key", "hello?")
    _show(exchange)
    event = exchange.record.event if exchange.record else None
    _must(isinstance(event, TurnFailed), "the turn did not fail")
    row = await _row(exchange.turn_id)
    say_block("\nThe row in error_logs:")
    print_records(
        [msgspec.to_builtins(row)],
        ("created_at", "error_type", "provider", "model", "guild_id", "http_status", "turn_id"),
        OutputFormat.TABLE,
        empty="",
    )
    _must(row.error_type == "invalid_key", f"the row says {row.error_type}")
    shown = " ".join(message.text for message in exchange.messages)
    _must(bool(shown), "the channel says nothing")
    _must(row.error_message not in shown, "the channel shows what the provider wrote")


async def killed(link: Fleet) -> None:
    """A worker dies in mid-stream: the channel ends with one whole reply all the same."""
    exchange = await _begin(link, "steady", "tell me something")
    exchange = await _until_shown(link, exchange)
    pid = await _kill_its_worker(link, exchange)
    say_block(f"Shown so far: {_said(exchange)!r}. Its worker (pid {pid}) gets SIGKILL now.\n")
    exchange = await converse(link, exchange, timeout_s=REPLY_S)
    _show(exchange)
    _must(exchange.state is TurnState.DONE, f"the turn is {exchange.state}, not done")
    _must(exchange.record is not None and exchange.record.attempt == 2, "no second attempt ran")
    words = _said(exchange)
    for paragraph in ("A worker may die", "What it had shown", "Whoever reads"):
        _must(words.count(paragraph) == 1, f"{paragraph!r} stands {words.count(paragraph)} times")
    await _show_timeline(link, exchange)


async def stopped(link: Fleet) -> None:
    """A user stops a reply that would take half a minute."""
    exchange = await _begin(link, "endless", "count for me")
    exchange = await _until_shown(link, exchange)
    asked_s = time.monotonic()
    answer = await link.queue.cancel(exchange.turn_id)
    _must(answer is Cancelled.STOPPING, f"the stop was answered with {answer}")
    exchange = await converse(link, exchange, timeout_s=REPLY_S)
    took_ms = (time.monotonic() - asked_s) * 1000
    _show(exchange)
    _must(exchange.state is TurnState.CANCELLED, f"the turn is {exchange.state}, not cancelled")
    say_block(f"\nStopped {took_ms:.0f} ms after it was asked for, delivery included.")


ACTS: Final = (
    Act(title="A plain turn", play=plain),
    Act(title="Code and a table, whole", play=long),
    Act(title="A turn with tools", play=tooled),
    Act(title="A turn that fails", play=failing),
    Act(title="A worker killed in mid-stream", play=killed),
    Act(title="A reply stopped by its reader", play=stopped),
)


async def _begin(link: Fleet, scenario: str, prompt: str) -> Exchange:
    channel_id = fresh_channel()
    say_block(f"> {prompt}")
    target = Target(provider="rehearsal", model=scenario)
    message_id = await link.channel.say(
        channel_id, prompt, user_id=1, guild_id=GUILD, target=target
    )
    return Exchange.begun(channel_id, message_id)


async def _ask(link: Fleet, scenario: str, prompt: str) -> Exchange:
    exchange = await _begin(link, scenario, prompt)
    exchange = await converse(link, exchange, timeout_s=REPLY_S)
    _must(exchange.waiting is Waiting.OVER, f"no whole reply after {REPLY_S:g} s")
    return exchange


async def _until_shown(link: Fleet, exchange: Exchange) -> Exchange:
    """Waits until the channel shows the first message of the reply."""
    deadline_s = time.monotonic() + REPLY_S
    while time.monotonic() < deadline_s:
        exchange = await converse(link, exchange, timeout_s=LOOK_S)
        if exchange.messages:
            return exchange
    raise Failure(f"nothing was shown after {REPLY_S:g} s")


async def _kill_its_worker(link: Fleet, exchange: Exchange) -> int:
    record = await link.records.turn(exchange.turn_id)
    _must(record is not None and record.state is TurnState.RUNNING, "the turn does not run")
    for process in await link.records.processes():
        if record is not None and process.process_id == record.worker_id:
            os.kill(process.pid, signal.SIGKILL)
            return process.pid
    raise Failure("nobody knows the worker that holds the turn")


async def _row(turn_id: str) -> ErrorRecord:
    """The row that the recorder writes for a failed turn."""
    wanted = ErrorFilter(since=datetime.now(UTC) - timedelta(hours=1), turn_id=turn_id)
    deadline_s = time.monotonic() + ROW_S
    async with database() as opened:
        while time.monotonic() < deadline_s:
            rows = await list_errors(opened, wanted)
            if rows:
                return rows[0]
            await asyncio.sleep(LOOK_S)
    raise Failure(f"error_logs has no row of turn {turn_id}")


async def _show_timeline(link: Fleet, exchange: Exchange) -> None:
    record = await link.records.turn(exchange.turn_id)
    _must(record is not None, "the turn's record is gone")
    if record is not None:
        say_block("\nIts timeline:")
        lines = timeline(record, await link.records.timeline(exchange.turn_id))
        print_records(lines, TIMELINE_COLUMNS, OutputFormat.TABLE, empty="")


def _show(exchange: Exchange) -> None:
    for message in exchange.messages:
        say_block(_framed(message))


def _framed(message: LocalMessage) -> str:
    """A message as a channel shows it: a bar at the left of each line."""
    name = "notice" if message.is_notice else "bot"
    lines = message.text.splitlines() or [""]
    return "\n".join([f"│ {name}", *(f"│   {line}" for line in lines)])


def _said(exchange: Exchange) -> str:
    return "\n".join(message.text for message in exchange.messages if not message.is_notice)


def _must(is_so: bool, otherwise: str) -> None:
    if not is_so:
        raise Failure(otherwise)
