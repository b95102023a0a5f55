"""The queue of turns: the typed face of the scripts in `scripts/`.

Comes in: requests of a gateway, moves of a worker. Goes out: answers as values; events on the out
streams are written by the scripts. Edges and composition roots import it.

Every method may run twice without harm (redis-py sends a command again after a lost connection);
each script's header says how. All raise `StoreUnavailable` when nobody answers.
"""

import hashlib
import secrets
from collections.abc import Iterable
from typing import Any

from redis.asyncio import Redis

from shared.config import Settings
from shared.edges.answers import (
    Appended,
    Cancelled,
    Claimed,
    Finished,
    GivenBack,
    TurnFacts,
)
from shared.edges.placing import lane_of, provider_key, standing_of, tokens_of
from shared.edges.policy import OUT_MAX_ENTRIES, Policy, counted_event
from shared.edges.redis import within
from shared.edges.scripting import Script
from shared.errors import RequestTooLarge, StoreFull, WireError
from shared.keys import Keys
from shared.merging import merged
from shared.segments import SegmentPreview, TurnDone, TurnEvent, TurnFailed
from shared.turns import (
    Admission,
    AttemptToken,
    FollowUp,
    Lanes,
    TurnOutcome,
    TurnRequest,
    TurnState,
)
from shared.wire import decode_turn_request, encode_json, encode_msgpack, encode_turn_request

__all__ = [
    "Admission",
    "Appended",
    "Cancelled",
    "Claimed",
    "Finished",
    "GivenBack",
    "TurnFacts",
    "TurnQueue",
    "job_payload",
    "lane_of",
    "new_claim",
    "provider_key",
]

RUN_TURN = "run_turn"
"""The job function that a worker must have."""


MOVED = "moved"
"""Admission's word for a merge that came too late; nothing happened."""


class TurnQueue:
    """All moves of a turn between gateway, queue and workers.

    Args:
        redis: a client of `shared.edges.redis.connect`.
        keys: the key names of the cell.
        settings: depths, deadlines and the crash policy.
        policy: instead of the one that `settings` give, for tests and benchmarks.
    """

    def __init__(
        self, redis: Redis, keys: Keys, settings: Settings, *, policy: Policy | None = None
    ) -> None:
        self.redis = redis
        self.keys = keys
        self.policy = policy or Policy.of(settings)
        self.out_max_entries = OUT_MAX_ENTRIES
        self._weights = settings.guild_weights
        self._lanes = Lanes(settings.lane)
        self._common: list[str | bytes | int] = [keys.prefix, encode_json(self.policy)]
        self._admit = Script(redis, "admit")
        self._claim = Script(redis, "claim")
        self._append = Script(redis, "append")
        self._preview = Script(redis, "preview")
        self._next_attempt = Script(redis, "next_attempt")
        self._note_tool = Script(redis, "note_tool")
        self._keep_rounds = Script(redis, "keep_rounds")
        self._beat = Script(redis, "beat")
        self._finish = Script(redis, "finish")
        self._release = Script(redis, "release")
        self._reap = Script(redis, "reap")
        self._cancel = Script(redis, "cancel")
        self._pause = Script(redis, "pause")

    def follow(self, settings: Settings) -> None:
        """Lets changed depths and deadlines hold from the next call on."""
        self.policy = Policy.of(settings)
        self._common = [self.keys.prefix, encode_json(self.policy)]
        self._weights = settings.guild_weights

    async def admit(self, request: TurnRequest) -> Admission:
        """Takes a turn, once per turn id.

        After `StoreUnavailable` the turn may have been taken all the same: ask again, and
        `DUPLICATE` means that it was. A server without memory for it answers `FULL`, like a full
        queue. What its user still has in the lane is dealt with as its `follow_up` says.

        Raises:
            RequestTooLarge: more than 256 KiB.
        """
        if request.follow_up is FollowUp.MERGE:
            answer = await self._merge(request)
            if answer is not None:
                return answer
        return Admission(await self._admitted(request))

    async def _merge(self, request: TurnRequest) -> Admission | None:
        """Takes it together with the turn that waits last; None where it must stand alone."""
        while (found := await self._last_waiting(request)) is not None:
            older, digest = found
            both = merged(older, request)
            if both is None:
                return None
            try:
                answer = await self._admitted(both, takes_in=older.turn_id, digest=digest)
            except RequestTooLarge:
                return None
            if answer != MOVED:
                return Admission(answer)
        return None

    async def _admitted(self, request: TurnRequest, *, takes_in: str = "", digest: str = "") -> str:
        payload = encode_turn_request(request)
        route, tid = request.route, request.turn_id
        # A replay is nobody's next message: it stops nothing.
        follow_up = FollowUp.QUEUE if request.replay_of else request.follow_up
        if not takes_in and follow_up is FollowUp.MERGE:
            follow_up = FollowUp.QUEUE
        keys = [self.keys.turn(tid), self.keys.mark(tid), self.keys.job(tid)]
        args: list[str | bytes | int] = [
            tid,
            request.fairness_key,
            lane_of(request, self._lanes),
            provider_key(request),
            self.keys.out_of(route.channel_id),
            secrets.token_hex(4),
            payload,
            encode_json(route),
            encode_json(_facts(request)),
            job_payload(tid, request.created_ms),
            str(route.user_id),
            follow_up,
            takes_in,
            *standing_of(request, self._weights),
            digest,
        ]
        try:
            return _text(await self.run(self._admit, keys, args))
        except StoreFull:
            return Admission.FULL

    async def _last_waiting(self, request: TurnRequest) -> tuple[TurnRequest, str] | None:
        """The turn that a follow-up could be merged with: its user's, last in the lane, fresh.

        With the digest of what was read: its prompt may be edited until the script has it.
        """
        lane = self.keys.lane(lane_of(request, self._lanes))
        last: bytes | None = await within(self.redis.lindex(lane, -1))
        if last is None:
            return None
        names = ["state", "attempt", "user", "request"]
        found: list[bytes | None] = await within(
            self.redis.hmget(self.keys.turn(_text(last)), names)
        )
        state, attempt, user = (_text(one or b"") for one in found[:3])
        is_fresh = (state, attempt) == (TurnState.QUEUED, "0")
        if not is_fresh or user != str(request.route.user_id) or found[3] is None:
            return None
        try:
            # SHA-1 is what Lua has in Redis; it tells requests apart and secures nothing.
            digest = hashlib.sha1(found[3], usedforsecurity=False).hexdigest()
            return decode_turn_request(found[3]), digest
        except WireError:
            return None  # of another version: it is answered apart, if at all

    async def claim(
        self, worker_id: str, n: int, claim: str | None = None, *, number: int = 0, heard: int = 0
    ) -> list[Claimed]:
        """Takes up to `n` turns for a worker, each with a lease.

        Args:
            worker_id: whose turns they become.
            n: the most that are taken.
            claim: `new_claim()`. After `StoreUnavailable` the same one must be used again: turns
                that were given out in the lost answer are given once more, and no crash is counted.
            number: which of the worker's claims it is; 0 where they are not counted.
            heard: the last one that brought turns; what a copy took since, too late to be heard,
                is handed back.
        """
        claim = claim or new_claim()
        keys = [self.keys.last_claim(worker_id)]
        answer = await self.run(self._claim, keys, [worker_id, n, claim, number, heard])
        return [_claimed(answer[i : i + 7], claim) for i in range(0, len(answer), 7)]

    async def append(self, token: AttemptToken, seq: int, event: TurnEvent) -> Appended:
        """Appends the segment `seq` of an attempt to the out stream of its channel.

        A server without memory for it answers `BACKPRESSURE`, like a full stream.
        """
        keys = [self.keys.turn(token.turn_id), self.keys.leases]
        args: list[str | bytes | int] = [
            token.turn_id,
            token.attempt,
            token.claim,
            seq,
            encode_json(event),
            self.policy.lease_ms,
            self.out_max_entries,
        ]
        try:
            return Appended(_text(await self.run(self._append, keys, args, common=False)))
        except StoreFull:
            return Appended.BACKPRESSURE

    async def preview(self, token: AttemptToken, seq: int, text: str) -> Appended:
        """Appends what may be seen of the segment after `seq`; `GAP` where another one is next."""
        keys, event = [self.keys.turn(token.turn_id)], encode_json(SegmentPreview(text=text))
        args: list[str | bytes | int] = [
            *(token.turn_id, token.attempt, token.claim, seq, event, self.out_max_entries)
        ]
        return Appended(_text(await self.run(self._preview, keys, args, common=False)))

    async def next_attempt(self, token: AttemptToken) -> AttemptToken | None:
        """Starts the next attempt of the same claim, None when fenced.

        Text that was shown is superseded in the same step; segments count from 1 again.
        """
        answer = await self.run(self._next_attempt, *self._of(token, token.attempt, token.claim))
        if int(answer) == 0:
            return None
        return AttemptToken(turn_id=token.turn_id, attempt=int(answer), claim=token.claim)

    async def note_tool(self, token: AttemptToken, number: int = 1) -> bool:
        """Remembers that a tool of an attempt's round ran, before it runs; false when fenced."""
        keys, args = self._of(token, token.attempt, token.claim, number)
        return int(await self.run(self._note_tool, keys, args)) == 1

    async def keep_rounds(self, token: AttemptToken, kept: bytes, number: int = 1) -> bool:
        """Keeps the rounds up to this one: their tools need not run again; false when fenced."""
        keys, args = self._of(token, token.attempt, token.claim, number)
        keys.append(self.keys.rounds(token.turn_id))
        return int(await self.run(self._keep_rounds, keys, [*args, kept])) == 1

    async def kept_rounds(self, turn_id: str) -> bytes | None:
        """What `keep_rounds` has kept of a turn that has not ended."""
        kept: bytes | None = await within(self.redis.get(self.keys.rounds(turn_id)))
        return kept

    async def finish(
        self, token: AttemptToken, event: TurnDone | TurnFailed, outcome: TurnOutcome | None = None
    ) -> Finished:
        """Ends a turn with its terminal event.

        A count of -1 in the event takes the number of segments that the server accepted; any
        other must be that number, or the answer is `GAP` and nothing happened.
        """
        count = "" if event.count < 0 else str(event.count)
        body = encode_json(outcome) if outcome else ""
        args = [event.state, counted_event(event), body, count, tokens_of(outcome)]
        keys, head = self._of(token, token.attempt, token.claim)
        return Finished(_text(await self.run(self._finish, keys, [*head, *args])))

    async def release(self, token: AttemptToken) -> GivenBack:
        """Hands a turn back to the head of its lane; no crash is counted."""
        return GivenBack(_text(await self.run(self._release, *self._of(token, token.claim))))

    async def beat(self, tokens: Iterable[AttemptToken]) -> tuple[list[str], list[str]]:
        """Renews leases.

        Returns:
            The ids of turns that are no longer the worker's, and of those a user stopped.
        """
        args: list[str | bytes | int] = []
        for token in tokens:
            args += [token.turn_id, token.claim]
        answer = await self.run(self._beat, [self.keys.leases], args)
        words = [_text(word) for word in answer]
        pairs = list(zip(words[::2], words[1::2], strict=True))
        lost = [tid for tid, word in pairs if word == "lost"]
        return lost, [tid for tid, word in pairs if word == "cancelled"]

    async def reap(self, limit: int = 50) -> list[tuple[str, GivenBack]]:
        """Takes turns from dead workers, `limit` at most; says where each went."""
        answer = await self.run(self._reap, [self.keys.leases], [limit])
        return [
            (_text(answer[i]), GivenBack(_text(answer[i + 1]))) for i in range(0, len(answer), 2)
        ]

    async def cancel(self, turn_id: str, *, why: str = "") -> Cancelled:
        """Stops a turn: at once while it waits, else through its worker.

        Args:
            turn_id: the turn.
            why: a note of its end: `withdrawn`, or nothing.
        """
        keys, args = [self.keys.turn(turn_id)], [turn_id, why]
        return Cancelled(_text(await self.run(self._cancel, keys, list(args))))

    async def pause(self, name: str, seconds: float | None = None) -> None:
        """Starts nothing of `name` any more; what runs goes on, what waits keeps its place.

        Args:
            name: `fleet`, `guild:<id>`, `key:<provider>:<credential>`, `provider:<name>`,
                `model:<provider>/<model>`; `rest:` like `key:`, but turns that may fall back to
                another provider do not wait.
            seconds: how long; None until `resume`.
        """
        wait = "" if seconds is None else str(max(1, round(seconds * 1000)))
        await self.run(self._pause, [self.keys.pauses], [name, wait])

    async def resume(self, name: str) -> None:
        """Ends a pause; harmless where there is none."""
        await self.run(self._pause, [self.keys.pauses], [name, "0"])

    async def stop_note(self, token: AttemptToken) -> str:
        """Why a running turn is stopped, as a note of its end: `replaced`, or nothing."""
        why: bytes | None = await within(self.redis.hget(self.keys.turn(token.turn_id), "why"))
        return _text(why or b"")

    async def accepted(self, token: AttemptToken) -> int | None:
        """How many segments of the attempt the server knows; None when fenced."""
        names = ["state", "attempt", "claim", "seq"]
        fields: list[bytes | None] = await within(
            self.redis.hmget(self.keys.turn(token.turn_id), names)
        )
        state, attempt, claim, seq = (_text(field or b"") for field in fields)
        if (state, attempt, claim) != (TurnState.RUNNING, str(token.attempt), token.claim):
            return None
        return int(seq)

    def _of(
        self, token: AttemptToken, *args: str | int
    ) -> tuple[list[str], list[str | bytes | int]]:
        return [self.keys.turn(token.turn_id)], [token.turn_id, *args]

    async def run(
        self,
        script: Script,
        keys: list[str],
        args: list[str | bytes | int],
        *,
        common: bool = True,
    ) -> Any:
        """Runs a script within the call's time, in our own errors."""
        return await within(script(keys, [*self._common, *args] if common else args))


def new_claim() -> str:
    """The random half of a fencing token."""
    return secrets.token_hex(4)


def job_payload(turn_id: str, created_ms: int) -> bytes:
    """The job that arq reads, in msgpack: `run_turn(turn_id)`, and nothing else of the turn."""
    return encode_msgpack({"t": None, "f": RUN_TURN, "a": (turn_id,), "k": {}, "et": created_ms})


def _facts(request: TurnRequest) -> TurnFacts:
    return TurnFacts(
        provider=request.target.provider,
        model=request.target.model,
        credential_source=request.credential_source,
        replay_of=request.replay_of,
        created_ms=request.created_ms,
    )


def _claimed(row: list[Any], claim: str) -> Claimed:
    tid, attempt, crashes, superseding, enqueued, claimed, request = row
    return Claimed(
        token=AttemptToken(turn_id=_text(tid), attempt=int(attempt), claim=claim),
        request=request,
        seq=0,
        crashes=int(crashes),
        superseding=_text(superseding) == "1",
        enqueued_ms=int(enqueued),
        claimed_ms=int(claimed),
    )


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value
