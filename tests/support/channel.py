"""A front in memory, whole, that can fail and forget; and the other ports of delivery."""

import asyncio
from collections.abc import AsyncIterator, Callable

import msgspec

from gateway.asks import KeptTable
from gateway.front import (
    Button,
    FrontEvent,
    History,
    Outcome,
    OutgoingFile,
    OutgoingMessage,
    Prompt,
    Rank,
    Refusal,
    Refused,
    Sent,
    ShownMessage,
    Unavailable,
)
from gateway.steps import Armed, Head, JournalRecord, Patch, Slot, Written
from shared.errors import StoreUnavailable
from shared.failures import ErrorReport
from shared.segments import Envelope

MAX_CHARS = 2000


class MemoryFront:
    """The port `gateway.front.ChannelFront` over lists.

    `script` gives outcomes for the next sends, edits and deletions, in order; None lets one pass.
    `loses_answers` makes the next sends happen although their answer is `Unavailable`.
    """

    bot_id = 99

    def __init__(self) -> None:
        self.channels: dict[int, dict[int, OutgoingMessage]] = {}
        self.texts: dict[int, str] = {}
        self.nonces: dict[str, int] = {}
        self.script: list[Outcome | None] = []
        self.loses_answers = 0
        self.disarmings: list[Outcome] = []
        self.requests: list[str] = []
        self.taken: list[Prompt] = []
        self.typed: list[int] = []
        self.in_flight: dict[int, int] = {}
        self.most_in_flight = 0
        self.has_history = True
        self.history_fails = 0
        self.refused_files: Refused | None = None
        self.max_chars = MAX_CHARS
        self._next_id = 1000
        self._events: asyncio.Queue[FrontEvent | None] = asyncio.Queue()

    async def connect(self) -> None:
        return

    def put(self, event: FrontEvent) -> None:
        self._events.put_nowait(event)

    async def events(self) -> AsyncIterator[FrontEvent]:
        while (event := await self._events.get()) is not None:
            yield event

    async def handled(self, prompt: Prompt) -> None:
        self.taken.append(prompt)

    async def with_roles(self, prompt: Prompt) -> Prompt | Refused | Unavailable:
        return prompt if prompt.roles is not None else msgspec.structs.replace(prompt, roles=())

    async def send(self, message: OutgoingMessage) -> Outcome:
        return await self._one_at_a_time(message.channel_id, lambda: self._send(message))

    async def edit(
        self,
        channel_id: int,
        message_id: int,
        text: str,
        *,
        is_notice: bool = False,
        files: tuple[OutgoingFile, ...] = (),
        buttons: tuple[Button, ...] = (),
    ) -> Outcome:
        def act() -> Outcome:
            return self._edit(
                channel_id, message_id, text=text, is_notice=is_notice, files=files, buttons=buttons
            )

        return await self._one_at_a_time(channel_id, act)

    async def disarm(self, channel_id: int, message_id: int) -> Outcome:
        """Beside what else goes on in the channel: it is no text."""
        self.requests.append("disarm")
        if message_id not in self.channels.get(channel_id, {}):
            return Refused(refusal=Refusal.GONE, status=404, code=10008)
        if self.disarmings:
            return self.disarmings.pop(0)
        old = self.channels[channel_id][message_id]
        self.channels[channel_id][message_id] = msgspec.structs.replace(old, buttons=())
        return Sent(message_id=message_id)

    async def delete(self, channel_id: int, message_id: int) -> Outcome:
        return await self._one_at_a_time(channel_id, lambda: self._delete(channel_id, message_id))

    async def typing(self, channel_id: int) -> None:
        self.typed.append(channel_id)

    async def history(self, channel_id: int, *, after: int, limit: int) -> History:
        if not self.has_history:
            return None
        if self.history_fails:
            self.history_fails -= 1
            return Unavailable(reason="timeout")
        found = [key for key in sorted(self.channels.get(channel_id, {})) if key > after]
        return tuple(
            ShownMessage(
                message_id=key,
                text=self.texts[key],
                is_own=True,
                files=tuple(file.name for file in self.channels[channel_id][key].files),
            )
            for key in found[:limit]
        )

    async def leave(self) -> None:
        pass

    async def close(self) -> None:
        self._events.put_nowait(None)

    def shown(self, channel_id: int) -> list[str]:
        """The texts in order, with the files behind them."""
        return [
            message.text + "".join(f"[{file.name}: {file.data.decode()}]" for file in message.files)
            for message in self.messages(channel_id)
        ]

    def messages(self, channel_id: int) -> list[OutgoingMessage]:
        found = self.channels.get(channel_id, {})
        return [found[key] for key in sorted(found)]

    async def _one_at_a_time(self, channel_id: int, act: Callable[[], Outcome]) -> Outcome:
        self.in_flight[channel_id] = self.in_flight.get(channel_id, 0) + 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight[channel_id])
        await asyncio.sleep(0)
        try:
            planned = self.script.pop(0) if self.script else None
            return act() if planned is None else planned
        finally:
            self.in_flight[channel_id] -= 1

    def _send(self, message: OutgoingMessage) -> Outcome:
        self.requests.append("send")
        if message.files and self.refused_files is not None:
            return self.refused_files
        is_blank = not message.text.strip() and not message.files
        if len(message.text) > self.max_chars or is_blank:
            return Refused(refusal=Refusal.CONTENT, status=400, code=50035)
        known = self.nonces.get(message.nonce)
        if known is not None:
            if known not in self.channels[message.channel_id]:
                return Refused(refusal=Refusal.GONE, status=404, code=10008)
            return Sent(message_id=known, deduplicated=True)
        self._next_id += 1
        self.channels.setdefault(message.channel_id, {})[self._next_id] = message
        self.texts[self._next_id] = message.text
        self.nonces[message.nonce] = self._next_id
        if self.loses_answers:
            self.loses_answers -= 1
            return Unavailable(reason="timeout")
        return Sent(message_id=self._next_id)

    def _edit(self, channel_id: int, message_id: int, **changes: object) -> Outcome:
        self.requests.append("edit")
        if message_id not in self.channels.get(channel_id, {}):
            return Refused(refusal=Refusal.GONE, status=404, code=10008)
        old = self.channels[channel_id][message_id]
        new = msgspec.structs.replace(old, **changes)
        self.channels[channel_id][message_id] = new
        self.texts[message_id] = new.text
        return Sent(message_id=message_id)

    def _delete(self, channel_id: int, message_id: int) -> Outcome:
        self.requests.append("delete")
        if self.channels.get(channel_id, {}).pop(message_id, None) is None:
            return Refused(refusal=Refusal.GONE, status=404, code=10008)
        return Sent(message_id=message_id)


class MemoryJournal:
    """The port `Journal` over dictionaries; `absent` calls fail first, `is_fenced` refuses.

    A test that changes what is in it plays a server that forgot.
    """

    def __init__(self) -> None:
        self.heads: dict[str, Patch] = {}
        self.slots: dict[str, dict[int, Slot]] = {}
        self.left: dict[str, Armed] = {}
        self.source = MemorySource()
        self.writes = 0
        self.absent = 0
        self.is_fenced = False

    async def read(self, turn_id: str) -> JournalRecord | None:
        self._check()
        if turn_id not in self.heads:
            return None
        slots = self.slots[turn_id]
        return JournalRecord(
            head=self.heads[turn_id].head, slots=tuple(slots[key] for key in sorted(slots))
        )

    async def armed(self) -> list[Armed]:
        self._check()
        return list(self.left.values())

    async def disarmed(self, turn_id: str) -> None:
        self.left.pop(turn_id, None)

    async def write(
        self, turn_id: str, patch: Patch, armed: Armed | None = None, *, shown: tuple[str, ...] = ()
    ) -> Written:
        self._check()
        if self.is_fenced:
            return Written.FENCED
        if patch.before is None:
            self.heads.pop(turn_id, None)
            self.slots.pop(turn_id, None)
        else:
            known = self.heads[turn_id].head if turn_id in self.heads else Head()
            if known not in (patch.before, patch.head):
                return Written.FORGOTTEN
        self.writes += 1
        if armed is not None:
            self.left[turn_id] = armed
        self.heads[turn_id] = patch
        slots = self.slots.setdefault(turn_id, {})
        slots.update(dict(patch.put))
        for number in patch.drop:
            slots.pop(number, None)
        for entry_id in shown:
            self.source.entries.pop(entry_id, None)
        return Written.DONE

    def _check(self) -> None:
        if self.absent:
            self.absent -= 1
            raise StoreUnavailable


class MemorySource:
    """The port `EnvelopeSource` over a list: pending first after a `rewind`."""

    def __init__(self) -> None:
        self.entries: dict[str, Envelope] = {}
        self._unread: list[str] = []
        self._added = asyncio.Event()

    def add(self, *envelopes: Envelope) -> None:
        for envelope in envelopes:
            self.entries[envelope.entry_id] = envelope
            self._unread.append(envelope.entry_id)
        self._added.set()

    def rewind(self) -> None:
        self._unread = list(self.entries)
        self._added.set()

    async def read(self) -> list[Envelope]:
        try:
            async with asyncio.timeout(0.02):
                await self._added.wait()
        except TimeoutError:
            return []
        page, self._unread = self._unread[:3], self._unread[3:]
        if not self._unread:
            self._added.clear()
        return [self.entries[entry] for entry in page if entry in self.entries]

    async def ack(self, entry_id: str) -> None:
        self.entries.pop(entry_id, None)

    def acked(self, entry_id: str) -> None:
        assert entry_id not in self.entries


class MemoryLease:
    """The port `Leadership`: whether it can be had, and whether it is had for sure."""

    def __init__(self) -> None:
        self.is_free = True
        self.is_certain = True
        self.released = 0

    async def take(self) -> bool:
        return self.is_free

    async def keep(self) -> bool:
        return self.is_free

    def is_sure(self) -> bool:
        return self.is_certain

    async def release(self) -> None:
        self.released += 1


class MemoryFleet:
    """The port `Fleet`, and what intake asks of admissions."""

    def __init__(self) -> None:
        self.cancelled: list[str] = []
        self.blocked: list[int] = []
        self.without_files: set[int] = set()
        self.sources: dict[str, KeptTable] = {}
        self.pictures: dict[str, bytes] = {}

    async def refuse_files(self, channel_id: int) -> None:
        self.without_files.add(channel_id)

    async def takes_files(self, channel_id: int) -> bool:
        return channel_id not in self.without_files

    async def keep_source(self, name: str, table: KeptTable) -> None:
        self.sources[name] = table

    async def picture(self, picture_id: str) -> bytes | None:
        return self.pictures.get(picture_id)

    async def cancel(self, turn_id: str) -> None:
        self.cancelled.append(turn_id)

    async def block_channel(self, channel_id: int) -> None:
        self.blocked.append(channel_id)


class MemoryReporter:
    """The port `Reporter`."""

    def __init__(self) -> None:
        self.reports: list[ErrorReport] = []

    async def report(self, report: ErrorReport) -> None:
        self.reports.append(report)

    @property
    def causes(self) -> list[str]:
        return [report.error_type for report in self.reports]


class MemoryBudget:
    """The port `Budget`: notes what was asked, and waits as long as a test says."""

    def __init__(self, clock: "ManualClock") -> None:
        self.load = 0.0
        self.wait_s = 0.0
        self.asked: list[Rank] = []
        self._clock = clock

    async def permit(self, rank: Rank) -> None:
        self.asked.append(rank)
        if self.wait_s:
            await self._clock.sleep(self.wait_s)

    async def may(self, rank: Rank) -> bool:
        self.asked.append(rank)
        return self.load < 0.6


class NoTyping:
    """The port `Signs`."""

    def __init__(self) -> None:
        self.stopped: list[str] = []

    def stop(self, turn_id: str) -> None:
        self.stopped.append(turn_id)


class ManualClock:
    """The port `Clock`: waiting takes no time, and time passes by waiting."""

    def __init__(self, now_s: float = 1_700_000_000.0) -> None:
        self.time_s = now_s
        self.waits: list[float] = []

    def now_s(self) -> float:
        return self.time_s

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.time_s += max(0.0, seconds)
        await asyncio.sleep(0)
