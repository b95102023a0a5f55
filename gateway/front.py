"""The port of a front: what delivery and intake ask of Discord, or of what stands in for it.

Comes in: nothing. Goes out: the protocol `ChannelFront` and its values. The fronts implement it
(`gateway.edges.discord`, `gateway.edges.local`), the same contract tests run over both. Anyone in
the gateway may import it; it imports only `shared`.

What a front answers is a value, never an exception: refusals and outages are everyday here.
"""

from collections.abc import AsyncIterator
from enum import IntEnum, StrEnum
from types import MappingProxyType
from typing import Final, Protocol

import msgspec

from shared.history import Attachment, Remembered
from shared.private import told_by_size
from shared.turns import Front, Target

NONCE_CHARS = 25
"""Discord refuses longer nonces (developer docs, resources/message)."""


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """A message that a person wrote, as far as addressing and intake need it.

    `receipt` is the front's own mark of where the prompt lies; `ChannelFront.handled` gets it back.
    `target` is the model that the person chose, where the front lets them.
    `backfilled` says that the prompt was found in the channel's history, not on the socket.
    `turn_id` is set where the turn is not named after the message: commands, and what goes on.
    """

    __repr__ = told_by_size

    front: Front
    message_id: int
    channel_id: int
    user_id: int
    text: str
    guild_id: int | None = None
    parent_id: int | None = None
    """The channel that a thread belongs to, where the front knows it."""
    roles: tuple[int, ...] | None = ()
    """None: the front was not told; `ChannelFront.with_roles` asks."""
    author: str = ""
    """What the person is called here."""
    own_name: str = ""
    """What the bot is called here."""
    names: tuple[tuple[int, str], ...] = ()
    """Who is mentioned in the text, by id."""
    replied: Remembered | None = None
    """The message that it answers, where the front brings it along."""
    reply_to: int | None = None
    """Its id, where the front knows no more."""
    attachments: tuple[Attachment, ...] = ()
    is_age_restricted: bool = False
    """Written in a channel that is marked so."""
    mentions_bot: bool = False
    replies_to_bot: bool = False
    from_bot: bool = False
    locale: str = "en"
    target: Target | None = None
    receipt: str | None = None
    backfilled: bool = False
    turn_id: str | None = None


class Echo(msgspec.Struct, frozen=True, kw_only=True):
    """Our own message, seen on the socket: a receipt for a post whose answer was lost."""

    nonce: str
    channel_id: int
    message_id: int


class PromptEdited(msgspec.Struct, frozen=True, kw_only=True):
    """A person wrote a message anew, or took its words away: then `text` is empty.

    `turn_id` is the turn that it may have become.
    """

    __repr__ = told_by_size

    channel_id: int
    turn_id: str
    text: str


class PromptsDeleted(msgspec.Struct, frozen=True, kw_only=True):
    """Messages are gone, with the turns that they may have become."""

    channel_id: int
    turn_ids: tuple[str, ...]


class PlaceGone(msgspec.Struct, frozen=True, kw_only=True):
    """A channel is gone; without `channel_id` a whole guild, or the bot from it."""

    guild_id: int
    channel_id: int | None = None


class PlaceChanged(msgspec.Struct, frozen=True, kw_only=True):
    """What the bot may do in a channel, or without `channel_id` in a guild, may be other now."""

    guild_id: int
    channel_id: int | None = None


Change = PromptEdited | PromptsDeleted | PlaceGone | PlaceChanged
"""What happens to what was there before."""

FrontEvent = Prompt | Echo | Change


class OutgoingFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that goes with a message."""

    name: str
    data: bytes


class Button(msgspec.Struct, frozen=True, kw_only=True):
    """A button below a message. `custom_id` comes back with the interaction (100 characters)."""

    custom_id: str
    label: str


class OutgoingMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message to be sent. No mention in it pings anybody but the users in `may_ping`.

    A second send with the same nonce, within the front's window, makes no second message.
    """

    channel_id: int
    text: str
    nonce: str
    reply_to: int | None = None
    files: tuple[OutgoingFile, ...] = ()
    may_ping: tuple[int, ...] = ()
    is_notice: bool = False
    buttons: tuple[Button, ...] = ()


class ShownMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message as the channel's history has it. `nonce` is None where the front forgot it.

    `files` are the names of what is attached.
    """

    message_id: int
    text: str
    is_own: bool
    nonce: str | None = None
    files: tuple[str, ...] = ()


class Refusal(StrEnum):
    """Why a front will never do what was asked, so that asking again is useless."""

    CHANNEL = "channel"
    """No such channel, no access, or no permission to speak: nothing can be said there."""
    CONTENT = "content"
    """This text is not accepted (empty, too long); another may be."""
    MODERATED = "moderated"
    """A rule of the server does not allow this text (AutoMod, a harmful link)."""
    FILES = "files"
    """Not with these files; the same text alone may pass."""
    REFERENCE = "reference"
    """Not as a reply; the same text without the reference may pass."""
    GONE = "gone"
    """The message does not exist any more; on a send, it was sent before and then deleted."""
    FROZEN = "frozen"
    """The message exists, but may not be edited (any more)."""
    PERSON = "person"
    """The person takes no direct messages."""
    TOKEN = "token"  # noqa: S105 -- the word for a refused bot token, no token
    """The bot's token is no longer valid: nothing will work until the operator acts."""


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """Done. After a send, `message_id` is the message; `deduplicated`: it was there already."""

    message_id: int
    deduplicated: bool = False


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """Never. `code` is the front's own number, for logs and reports."""

    refusal: Refusal
    status: int = 0
    code: int = 0


class Unavailable(msgspec.Struct, frozen=True, kw_only=True):
    """Not now, and unknown whether it happened: ask again with the same nonce.

    `retry_after_s` is the front's own wish; `reason` a constant word for logs. `is_limited`: it was
    too early by a rate limit, so that nothing has happened; the right to the request is still good.
    """

    reason: str
    retry_after_s: float | None = None
    status: int = 0
    is_limited: bool = False


Outcome = Sent | Refused | Unavailable

History = tuple[ShownMessage, ...] | Unavailable | None
"""Messages of a channel; None where they may not be read."""


class Rank(IntEnum):
    """What a request is worth when there may not be many: lower goes first."""

    FIRST = 0
    """The first message of a reply: somebody waits for any sign."""
    NOTICE = 1
    """The end of a turn, or why there is none."""
    FURTHER = 2
    EDIT = 3
    """Messages that are rewritten or deleted, and history that is read."""
    TYPING = 4
    TIDY = 5
    """Buttons of what is over: a click on one that is left takes it away as well."""


SHARES: Final = MappingProxyType(
    {
        Rank.FIRST: 1.0,
        Rank.NOTICE: 0.98,
        Rank.FURTHER: 0.94,
        Rank.EDIT: 0.86,
        Rank.TYPING: 0.6,
        Rank.TIDY: 0.6,
    }
)
"""How full the second may be for a rank: what is above it is kept for better ones."""


class Budget(Protocol):
    """How many requests a front takes, shared by all gateways of a bot."""

    @property
    def load(self) -> float:
        """How much is asked for, as a part of what is allowed; above 1 delivery falls behind."""
        ...

    async def permit(self, rank: Rank) -> None:
        """Waits for the right to one request. Cancelled, it has none."""
        ...

    async def may(self, rank: Rank) -> bool:
        """Whether one request may be made now; it is counted if so."""
        ...


class Boundless:
    """The budget of a front that has no limit."""

    load = 0.0

    async def permit(self, rank: Rank) -> None:
        """Waits for nothing."""

    async def may(self, rank: Rank) -> bool:
        """Always."""
        del rank
        return True


class Voice(Protocol):
    """Somebody who speaks: the bot, or a persona.

    One request at a time per channel is the caller's duty.
    """

    async def send(self, message: OutgoingMessage) -> Outcome:
        """Posts a message. Cancelled, it may or may not have been posted."""
        ...

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
        """Replaces a message's text, files and buttons, and lets nobody be pinged by it.

        `is_notice` says what the message is from now on: a notice may take a void reply's place.
        """
        ...

    async def disarm(self, channel_id: int, message_id: int) -> Outcome:
        """Takes away what can be pressed below a message of ours; what it shows stays."""
        ...

    async def delete(self, channel_id: int, message_id: int) -> Outcome:
        """Deletes a message of ours."""
        ...

    async def history(self, channel_id: int, *, after: int, limit: int) -> History:
        """The oldest `limit` messages after an id, oldest first."""
        ...


class ChannelFront(Voice, Protocol):
    """One place where people talk, with the bot's own voice."""

    @property
    def bot_id(self) -> int:
        """Our own user, known once `connect` is done."""
        ...

    async def connect(self) -> None:
        """Connects and begins to receive. Raises `ConfigError` or `StoreUnavailable`."""
        ...

    def events(self) -> AsyncIterator[FrontEvent]:
        """Events until `close`; of prompts duplicates are possible, losses are not."""
        ...

    async def handled(self, prompt: Prompt) -> None:
        """Notes that a prompt was admitted or declined, so that a restart need not find it."""
        ...

    async def with_roles(self, prompt: Prompt) -> Prompt | Refused | Unavailable:
        """The prompt with its person's roles; `Refused` where they are no longer here.

        After `Unavailable` the front gives the prompt again by itself, until it is handled.
        """
        ...

    async def typing(self, channel_id: int) -> None:
        """Shows the typing sign for some seconds; a failure is of no account."""
        ...

    async def leave(self) -> None:
        """Receives nothing more, so that another process can; requests go on until `close`."""
        ...

    async def close(self) -> None:
        """Stops receiving and ends `events`."""
        ...
