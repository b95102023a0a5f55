"""Failed turns run again: each as a new turn, linked to the old one, once per generation.

Comes in: records of failed turns, and what shall be different this time. Goes out: what can be
replayed and why the rest cannot; admitted turns. The CLI and the console use it.

The new id is the old one with its generation (`l7`, `l7.2`, `l7.3`), so that the queue itself
refuses a second replay of the same failure, whoever asks for it and however often.
"""

from collections.abc import AsyncIterator, Callable
from enum import StrEnum
from typing import Final

import msgspec

from ops.replay.attachments import Refresh
from ops.replay.evidence import Evidence
from shared.edges.credentials import CredentialStore
from shared.edges.queue import Admission, TurnQueue
from shared.edges.records import TurnRecord, TurnRecords
from shared.errors import CredentialError, RequestTooLarge, WireError
from shared.failures import FailureCategory
from shared.i18n import load_texts
from shared.sealed import CredentialRef
from shared.segments import TurnFailed
from shared.turns import TAKEN, CredentialSource, Target, TurnRequest, TurnState, next_generation

_FAILED: Final = frozenset({TurnState.FAILED, TurnState.DEAD})
_texts: Final = load_texts()


class Reason(StrEnum):
    """Why a turn is not replayed."""

    UNKNOWN = "unknown"
    """Nothing is known of it (any more)."""
    NOT_FAILED = "not failed"
    """It waits, runs, or has ended well."""
    REPLAYED = "already replayed"
    """As the turn that is named; if that failed too, it is the one to replay."""
    EXPIRED = "request gone"
    """The record is there, what was asked is not."""
    UNREADABLE = "request unreadable"
    """This version cannot read what was asked, or the record."""
    SHOWN = "partly delivered"
    """The channel has seen some of the reply and would see it again (`--allow-partial`)."""
    REFUSED = "refused by the model"
    """The same model would refuse the same prompt again (another one by `--with`)."""
    REVOKED = "credential revoked"
    """The key that the turn names was taken back by its owner."""
    OPEN = "cause still open"
    """It failed again just now, and nothing of its kind succeeded since (`--anyway`)."""
    SUPERSEDED = "superseded by newer turn"
    """Its person asked again and was answered (`--anyway`)."""
    CHANNEL = "channel refuses us"
    """The bot may not speak there now; the reply would be lost."""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What is different this time.

    `allow_partial` accepts that a reply begins a second time, `anyway` what speaks against it.
    """

    provider: str | None = None
    model: str | None = None
    allow_partial: bool = False
    anyway: bool = False

    def target(self, old: Target) -> Target:
        """The target of the replay. Another provider decides its own wire format."""
        if self.provider is not None and self.provider != old.provider:
            return Target(provider=self.provider, model=self.model or old.model)
        return msgspec.structs.replace(old, model=self.model or old.model)


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A turn that was looked at. `reason` is None where it can be replayed; then it has `request`.

    `why` says the reason with its facts, for a person.
    """

    turn_id: str
    new_id: str
    reason: Reason | None = None
    why: str = ""
    record: TurnRecord | None = None
    request: TurnRequest | None = None


class FailedFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which failed turns. None does not filter.

    `text` looks into what is kept of a failure: its cause, its headline, and what the provider said
    about the server's own key; what it said about a person's key is for that person.
    """

    since_ms: int = 0
    cause: str | None = None
    category: str | None = None
    guild_id: int | None = None
    channel_id: int | None = None
    user_id: int | None = None
    provider: str | None = None
    model: str | None = None
    text: str | None = None
    among: frozenset[tuple[str, str]] | None = None
    """Turns, each with the cause by which it must have failed: those of one group, say."""

    def matches(self, record: TurnRecord) -> bool:
        """Whether the turn is one of those."""
        event = record.event if isinstance(record.event, TurnFailed) else None
        pairs = (
            (self.cause, event.cause if event else None),
            (self.category, event.category if event else None),
            (self.guild_id, record.route.guild_id),
            (self.channel_id, record.route.channel_id),
            (self.user_id, record.route.user_id),
            (self.provider, record.facts.provider),
            (self.model, record.facts.model),
        )
        if self.among is not None:
            cause = event.cause if event else ""
            if (record.turn_id, cause) not in self.among:
                return False
        return all(wanted is None or wanted == value for wanted, value in pairs)


class Replays:
    """Looks at failed turns and runs them again.

    Args:
        records: of the cell.
        queue: that takes the new turns.
        now_ms: the time in milliseconds.
        credentials: of the cell; a turn that names one cannot be replayed without it.
        refresh: asks for the addresses of attachments again.
    """

    def __init__(
        self,
        records: TurnRecords,
        queue: TurnQueue,
        now_ms: Callable[[], int],
        credentials: CredentialStore | None = None,
        refresh: Refresh | None = None,
    ) -> None:
        self._refresh = refresh
        self._credentials = credentials
        self._records = records
        self._queue = queue
        self._now_ms = now_ms

    async def failed(self, wanted: FailedFilter, limit: int) -> list[TurnRecord]:
        """The failed turns that match, the oldest first: the order in which they were asked."""
        found = []
        async for record in self.latest(wanted):
            found.append(record)
            if len(found) == limit:
                break
        return found[::-1]

    async def owed(self, wanted: FailedFilter) -> tuple[list[TurnRecord], int]:
        """The failed turns that match and were not run again, the oldest first.

        Returns:
            All of them, and how many others were run again.
        """
        found = [record async for record in self.latest(wanted)]
        replays = await self._records.admitted([next_generation(one.turn_id) for one in found])
        owed = [one for one in found if next_generation(one.turn_id) not in replays]
        return owed[::-1], len(found) - len(owed)

    async def latest(self, wanted: FailedFilter) -> AsyncIterator[TurnRecord]:
        """The failed turns that match, the latest first."""
        async for record in self._records.failed(since_ms=wanted.since_ms):
            if wanted.matches(record) and await self._says(record, wanted.text):
                yield record

    async def record(self, turn_id: str) -> TurnRecord | None:
        """What is kept of a turn now."""
        return await self._records.turn(turn_id)

    async def said(self, record: TurnRecord) -> str | None:
        """What the provider said as a turn failed, redacted, where an operator may read it."""
        event = record.event
        if not isinstance(event, TurnFailed) or not event.report_id:
            return None
        details = await self._records.details(event.report_id)
        if details is None or details.credential_source is not CredentialSource.SERVER:
            return None
        return details.snippet

    async def _says(self, record: TurnRecord, text: str | None) -> bool:
        if text is None:
            return True
        event = record.event if isinstance(record.event, TurnFailed) else None
        known = _words_of(event) if event else []
        part = text.casefold()
        if any(part in one.casefold() for one in known):
            return True
        return part in (await self.said(record) or "").casefold()

    async def examine(
        self, turn_id: str, change: Change, known: Evidence | None = None
    ) -> Candidate:
        """Whether a turn can be replayed; `known` may speak against it."""
        seen = Candidate(turn_id=turn_id, new_id=next_generation(turn_id))
        try:
            record = await self._records.turn(turn_id)
        except WireError as exc:
            return _not(seen, Reason.UNREADABLE, str(exc))
        seen = msgspec.structs.replace(seen, record=record)
        if record is None:
            return _not(seen, Reason.UNKNOWN, "records of failed turns live for 72 hours")
        obstacle = await self._obstacle(seen, record, change)
        if obstacle is None and known is not None and not change.anyway:
            obstacle = _doubt(record, change, known)
        if obstacle is not None:
            return _not(seen, *obstacle)
        try:
            request = await self._records.request(turn_id)
        except WireError as exc:
            return _not(seen, Reason.UNREADABLE, str(exc))
        if request is None:
            return _not(seen, Reason.EXPIRED, "the record has no request")
        if request.credential is not None and not await self._is_kept(request.credential):
            return _not(seen, Reason.REVOKED, f"{request.credential} is not there any more")
        return msgspec.structs.replace(seen, request=self._again(request, seen.new_id, change))

    async def admit(self, candidate: Candidate, *, wait_s: float = 0.0) -> Admission:
        """Gives a candidate without a reason to the queue, which starts it after `wait_s` seconds.

        `DUPLICATE` means that it was replayed before, perhaps by this very call when an answer was
        lost; nothing is delivered twice.

        Raises:
            ValueError: the candidate cannot be replayed.
            RequestTooLarge: the request has grown beyond the bound of this version.
        """
        if candidate.request is None:
            raise ValueError(f"{candidate.turn_id} cannot be replayed: {candidate.why}")
        request = candidate.request
        if self._refresh is not None:
            request = await self._refresh(request)
        wait_ms = round(wait_s * 1000)
        answer = await self._queue.admit(msgspec.structs.replace(request, wait_ms=wait_ms))
        if answer in TAKEN:
            # The failed turn outlives the usual mark; its replay must not be taken a second time.
            await self._records.keep_mark(candidate.new_id)
        return answer

    async def _obstacle(
        self, seen: Candidate, record: TurnRecord, change: Change
    ) -> tuple[Reason, str] | None:
        event = record.event if isinstance(record.event, TurnFailed) else None
        if record.state not in _FAILED:
            return Reason.NOT_FAILED, f"it is {record.state}"
        if await self._records.is_known(seen.new_id):
            return Reason.REPLAYED, await self._replayed(seen.new_id)
        if event is not None and event.count and not change.allow_partial:
            return Reason.SHOWN, f"{event.count} segments are in the channel; --allow-partial"
        is_same = change.target(_target(record)) == _target(record)
        if event is not None and event.category == FailureCategory.CONTENT_BLOCKED and is_same:
            return Reason.REFUSED, f"{event.cause}: --with model=... asks another one"
        if await self._records.is_blocked(record.route.channel_id):
            return Reason.CHANNEL, "the bot may not speak there now"
        return None

    async def _is_kept(self, credential: str) -> bool:
        if self._credentials is None:
            return False
        try:
            stored = await self._credentials.get(CredentialRef.parsed(credential))
        except CredentialError:
            return False
        return stored is not None and not stored.is_revoked

    async def _replayed(self, new_id: str) -> str:
        state = await self._records.state(new_id)
        if state in _FAILED:
            return f"as {new_id}, which {state}: replay that one"
        return f"as {new_id}, {state or 'done'}"

    def _again(self, request: TurnRequest, new_id: str, change: Change) -> TurnRequest:
        # An interaction's token has run out by now; the reply answers the message, or the channel.
        return msgspec.structs.replace(
            request,
            turn_id=new_id,
            replay_of=request.turn_id,
            created_ms=self._now_ms(),
            target=change.target(request.target),
            route=msgspec.structs.replace(request.route, interaction=None),
        )


async def admitted(replays: Replays, candidate: Candidate, *, wait_s: float = 0.0) -> str:
    """Admits a candidate and says in a word what became of it."""
    try:
        return (await replays.admit(candidate, wait_s=wait_s)).value
    except RequestTooLarge:
        return "too_large"


def _doubt(record: TurnRecord, change: Change, known: Evidence) -> tuple[Reason, str] | None:
    """What speaks against a replay that could be made."""
    target = _target(record)
    event = record.event
    if isinstance(event, TurnFailed) and change.target(target) == target:
        age_s = known.failing.get((event.cause, target.provider, target.model))
        if age_s is not None:
            return Reason.OPEN, f"it failed {age_s} s ago, and none succeeded since"
    later = known.answered.get(record.turn_id)
    if later is not None:
        return Reason.SUPERSEDED, f"its person was answered since, in {later}"
    return None


def _words_of(event: TurnFailed) -> list[str]:
    """What a failure is called and says, in its channel's language and in the operators'."""
    # What the fleet's scripts end names its text by a key, which the gateway says.
    said = [_texts.text(key) for key in (f"failure.{event.cause}", event.headline)]
    return [event.cause, event.category, event.headline, *said]


def _target(record: TurnRecord) -> Target:
    return Target(provider=record.facts.provider, model=record.facts.model)


def _not(seen: Candidate, reason: Reason, why: str) -> Candidate:
    return msgspec.structs.replace(seen, reason=reason, why=why)
