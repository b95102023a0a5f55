"""What commands and buttons reach in Redis: turns, details, sealed keys, what is kept of people.

Comes in: ids and values of `gateway.asks`. Goes out: the same, stored. They fulfil the ports of
`gateway.interactions`; `gateway.app` builds them. All calls raise `StoreUnavailable` when nobody
answers, and all may be repeated.
"""

import contextlib
import time
from typing import Final

import msgspec
from nacl.public import PublicKey

from gateway.asks import Again, Kept, KeptTable, Owned, Subject, TurnSeen
from shared.edges import forgetting
from shared.edges.continuing import Continuations
from shared.edges.credentials import CredentialStore, StoredCredential
from shared.edges.queue import Admission, Cancelled, TurnQueue
from shared.edges.records import TurnRecord, TurnRecords
from shared.edges.redis import within
from shared.errors import CredentialError, RequestTooLarge, StoreError, WireError
from shared.failures import FaultDetails
from shared.lifetimes import (
    ASKED_TTL_MS,
    CONTEXT_START_TTL_MS,
    FORGETTING_TTL_MS,
    FORGOT_TTL_MS,
)
from shared.sealed import CredentialRef, key_id, seal
from shared.secrets import Secret
from shared.segments import TurnDone
from shared.thoughts import KeptThoughts
from shared.turns import (
    CredentialSource,
    Route,
    StopReason,
    TurnRequest,
    TurnState,
    next_generation,
)
from shared.wire import UNREADABLE

ANYBODY: Final = "anybody"
"""In the mark that somebody is being forgotten now; whom a mark names by digest was, lately."""
STOPS: Final = frozenset({Cancelled.CANCELLED, Cancelled.STOPPING})

_subject = msgspec.json.Decoder(Subject).decode
_table = msgspec.json.Decoder(KeptTable).decode
_encode = msgspec.json.Encoder().encode


class StoredTurns:
    """The turns of the cell.

    Args:
        queue: that takes and stops them.
        records: what is known of them.
    """

    def __init__(self, queue: TurnQueue, records: TurnRecords) -> None:
        self._queue = queue
        self._records = records
        self._continuations = Continuations(queue.redis, queue.keys)

    async def look(self, turn_id: str) -> TurnSeen | None:
        """A turn; None when nothing is known of it any more.

        The record of one that ended well is gone after minutes; what can go on stays for a day.
        """
        record = await self._record(turn_id)
        if record is not None:
            return _seen(record)
        try:
            request = await self._continuations.request(turn_id)
        except WireError:
            return None  # of another version
        return None if request is None else _cut_off(turn_id, request)

    async def recent(self, channel_id: int) -> list[TurnSeen]:
        """The latest turns of a channel that are still known, the newest first."""
        key = self._queue.keys.recent_turns(channel_id)
        ids: list[bytes] = await within(self._queue.redis.lrange(key, 0, -1))
        found = [await self.look(turn_id) for turn_id in dict.fromkeys(one.decode() for one in ids)]
        return [one for one in found if one is not None]

    async def stop(self, turn_id: str) -> bool:
        """Stops a turn; False when it was over."""
        return await self._queue.cancel(turn_id) in STOPS

    async def retry(self, turn_id: str) -> Again:
        """Runs a failed turn once more, once, however often it is asked."""
        record = await self._record(turn_id)
        if record is None or record.state not in (TurnState.FAILED, TurnState.DEAD):
            return Again.GONE
        if await self._records.is_blocked(record.route.channel_id):
            return Again.BLOCKED
        request = await self._request(turn_id)
        if request is None:
            return Again.GONE
        again = msgspec.structs.replace(
            request,
            turn_id=next_generation(turn_id),
            replay_of=turn_id,
            created_ms=time.time_ns() // 1_000_000,
        )
        answer = await self._queue.admit(again)
        if answer is Admission.ACCEPTED:
            await self._records.keep_mark(again.turn_id)
            return Again.STARTED
        return Again.ALREADY if answer is Admission.DUPLICATE else Again.BUSY

    async def go_on(self, turn_id: str) -> Again:
        """Goes on with a reply that was cut off at its length, once, however often it is asked."""
        now_ms = time.time_ns() // 1_000_000
        try:
            answer = await self._continuations.go_on(turn_id, self._queue, now_ms)
        except (WireError, RequestTooLarge):
            answer = None
        match answer:
            case None:
                return Again.GONE
            case Admission.ACCEPTED:
                return Again.STARTED
            case Admission.DUPLICATE:
                return Again.ALREADY
            case _:
                return Again.BUSY

    async def _record(self, turn_id: str) -> TurnRecord | None:
        try:
            return await self._records.turn(turn_id)
        except WireError:
            return None  # of another version

    async def _request(self, turn_id: str) -> TurnRequest | None:
        try:
            return await self._records.request(turn_id)
        except WireError:
            return None  # of another version: it cannot be asked again


def _owned(route: Route, source: CredentialSource) -> Owned:
    return Owned(
        user_id=route.user_id,
        channel_id=route.channel_id,
        guild_id=route.guild_id,
        source=source,
    )


def _cut_off(turn_id: str, request: TurnRequest) -> TurnSeen:
    return TurnSeen(
        turn_id=turn_id,
        owned=_owned(request.route, request.credential_source),
        state=TurnState.DONE,
        prompt_id=request.route.reply_to,
        reached_length=True,
    )


def _seen(record: TurnRecord) -> TurnSeen:
    event, route = record.event, record.route
    is_cut = isinstance(event, TurnDone) and event.stop_reason is StopReason.LENGTH
    return TurnSeen(
        turn_id=record.turn_id,
        owned=_owned(route, record.facts.credential_source),
        state=record.state,
        prompt_id=route.reply_to,
        reached_length=is_cut and record.state is TurnState.DONE,
    )


class StoredDetails:
    """What lies behind buttons, for a while."""

    def __init__(self, queue: TurnQueue, records: TurnRecords) -> None:
        self._redis = queue.redis
        self._keys = queue.keys
        self._records = records

    async def fault(self, report_id: str) -> FaultDetails | None:
        """The redacted details of a failure."""
        return await self._records.details(report_id)

    async def thoughts(self, turn_id: str) -> KeptThoughts | None:
        """What the model thought before its reply."""
        return await self._records.thoughts(turn_id)

    async def source(self, name: str) -> KeptTable | None:
        """The source of a drawn table; None when it has expired."""
        raw: bytes | None = await within(self._redis.get(self._keys.table_source(name)))
        try:
            return None if raw is None else _table(raw)
        except UNREADABLE:
            return None  # of a version that did not say where it was shown

    async def keep_subject(self, interaction_id: int, subject: Subject) -> None:
        """Keeps a message while its question is being written."""
        key = self._keys.asked_about(interaction_id)
        await within(self._redis.set(key, _encode(subject), px=ASKED_TTL_MS))

    async def subject(self, interaction_id: int) -> Subject | None:
        """That message, for a quarter of an hour."""
        raw: bytes | None = await within(self._redis.get(self._keys.asked_about(interaction_id)))
        return None if raw is None else _subject(raw)


class SealingVault:
    """Credentials: they go in, and never come out.

    Args:
        store: where boxes are kept.
        public: what boxes are closed with; None takes no keys.
    """

    def __init__(self, store: CredentialStore, public: PublicKey | None) -> None:
        self._store = store
        self._public = public

    @property
    def takes_keys(self) -> bool:
        """Whether there is a sealing key to close boxes with."""
        return self._public is not None

    async def put(self, ref: CredentialRef, key: Secret, endpoint: str, actor: str) -> str:
        """Seals and stores a key in the place of any other; gives the id that lists show.

        Raises:
            CredentialError: it is no key, or somebody else changed it at the same moment.
        """
        if self._public is None:
            raise CredentialError("there is no sealing key")
        ref = CredentialRef.parsed(str(ref))  # what was typed becomes a reference, or nothing
        before = await self._store.get(ref)
        version = 1 if before is None else before.version + 1
        new = StoredCredential(
            ref=ref,
            version=version,
            changed_ms=time.time_ns() // 1_000_000,
            key_id=key_id(key),
            endpoint=endpoint,
            box=seal(self._public, ref, version, key, endpoint=endpoint),
        )
        is_new = before is None or before.is_revoked
        await self._store.put(new, word="added" if is_new else "replaced", actor=actor)
        return new.key_id

    async def revoke(self, ref: CredentialRef, actor: str) -> bool:
        """Takes a credential back; False when there was none.

        Raises:
            CredentialError: somebody else changed it at the same moment.
        """
        return await self._store.revoke(ref, actor=actor, now_ms=time.time_ns() // 1_000_000)

    async def of(self, owners: tuple[tuple[str, int], ...]) -> list[Kept]:
        """What owners have, as (scope, id)."""
        return [
            Kept(ref=one.ref, key_id=one.key_id)
            for scope, owner in owners
            for one in await self._store.of(CredentialSource(scope), owner)
        ]

    async def pause(self, user_id: int, *, is_paused: bool) -> None:
        """Leaves a person's own keys unused, or uses them again."""
        await self._store.pause(user_id, is_paused=is_paused)

    async def is_paused(self, user_id: int) -> bool:
        """Whether a person's own keys are left unused."""
        return await self._store.is_paused(user_id)


class StoredMemory:
    """What is kept of channels and people in the queue's store.

    Args:
        queue: the cell's.
    """

    def __init__(self, queue: TurnQueue) -> None:
        self._queue = queue
        self._redis = queue.redis
        self._keys = queue.keys

    async def start_over(self, channel_id: int, at_id: int) -> None:
        """Lets the model read nothing of a channel that stands before this message."""
        key = self._keys.context_start(channel_id)
        await within(self._redis.set(key, at_id, px=CONTEXT_START_TTL_MS))

    async def may_forget(self, user_id: int) -> bool:
        """Whether somebody may be forgotten now: everything is looked at, and that is not cheap.

        One person at a time in the cell, and each once in a while. It is that person's turn then,
        until `forget` has ended.
        """
        if await within(self._redis.exists(self._keys.forgot(_person(user_id).digest))):
            return False
        mine = await within(
            self._redis.set(self._keys.forgot(ANYBODY), "1", nx=True, px=FORGETTING_TTL_MS)
        )
        return bool(mine)

    async def forget(self, user_id: int) -> int:
        """Stops and erases the turns of a person, and what else of theirs the store holds.

        Cancelled, it has done a part, and may be asked again.
        """
        leaves = forgetting.OPERATORS | forgetting.LIMITS
        forgetter = forgetting.Forgetter(self._redis, self._keys, self._queue, leaves=leaves)
        person = _person(user_id)
        try:
            counts = await forgetter.forget(person)
            await within(self._redis.set(self._keys.forgot(person.digest), "1", px=FORGOT_TTL_MS))
        finally:
            with contextlib.suppress(StoreError):  # the mark ends by itself
                await within(self._redis.delete(self._keys.forgot(ANYBODY)))
        return counts.get("turns", 0)


def _person(user_id: int) -> forgetting.Subject:
    return forgetting.Subject(forgetting.Kind.USER, user_id)
