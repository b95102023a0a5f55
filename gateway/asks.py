"""What people ask for with commands, buttons and forms, and how they are answered.

Comes in: nothing. Goes out: `Ask`, the port `Answers`, the values of forms, and what is looked up
for an answer. `gateway.edges` makes and fulfils them, `gateway.interactions` acts on them. Pure;
anyone in the gateway may import it.
"""

from enum import StrEnum
from typing import Final, Protocol

import msgspec

from gateway.front import Outcome, OutgoingFile
from shared.configuration.choices import Place
from shared.private import told_by_size
from shared.sealed import CredentialRef
from shared.turns import CredentialSource, TurnState

MANAGE_GUILD: Final = 1 << 5
ADMINISTRATOR: Final = 1 << 3
MANAGE_MESSAGES: Final = 1 << 13
SEND_MESSAGES: Final = 1 << 11
SEND_IN_THREADS: Final = 1 << 38
"""Discord's permission bits (developer docs, topics/permissions); an interaction carries them."""


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks, and where. `permissions` are those of the member in this channel, as Discord says.

    `parent_id` is the channel that a thread belongs to, `is_age_restricted` what it is marked as.
    """

    user_id: int
    channel_id: int
    guild_id: int | None = None
    parent_id: int | None = None
    permissions: int = 0
    roles: tuple[int, ...] = ()
    locale: str = "en"
    is_age_restricted: bool = False

    @property
    def place(self) -> Place:
        """Where this person asks, for what holds there."""
        return Place(
            channel_id=self.channel_id,
            user_id=self.user_id,
            guild_id=self.guild_id,
            parent_id=self.parent_id,
            roles=self.roles,
        )

    @property
    def manages_server(self) -> bool:
        """Whether this person may set up the bot here; in direct messages everybody may."""
        return self.guild_id is None or bool(self.permissions & (MANAGE_GUILD | ADMINISTRATOR))

    @property
    def moderates(self) -> bool:
        """Whether this person keeps order in the channel."""
        return self.manages_server or bool(self.permissions & MANAGE_MESSAGES)

    @property
    def may_write(self) -> bool:
        """Whether this person may write here, so that the bot may say something in their name."""
        needed = SEND_MESSAGES if self.parent_id is None else SEND_IN_THREADS
        return self.manages_server or bool(self.permissions & needed)


class AskKind(StrEnum):
    """How somebody asked."""

    COMMAND = "command"
    BUTTON = "button"
    FORM = "form"


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """The message that a command was picked for."""

    __repr__ = told_by_size

    message_id: int
    author: str
    text: str


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """One interaction.

    Args:
        interaction_id: Discord's id of it.
        kind: how somebody asked.
        name: of the command, with its subcommand after a space; the word before the colon of a
            custom id.
        argument: what stands after that colon.
        values: options of a command, fields of a form.
        caller: who asks.
        subject: the message that a command was picked for.
    """

    __repr__ = told_by_size

    interaction_id: int
    kind: AskKind
    name: str
    caller: Caller
    argument: str = ""
    values: dict[str, str] = msgspec.field(default_factory=dict)
    subject: Subject | None = None


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """A line or a box to be filled in."""

    key: str
    label: str
    placeholder: str = ""
    is_long: bool = False
    is_required: bool = True
    max_chars: int = 4000


class Form(msgspec.Struct, frozen=True, kw_only=True):
    """A window: a text to be read, fields to be filled in, or both."""

    custom_id: str
    title: str
    text: str = ""
    fields: tuple[Field, ...] = ()


class Owned(msgspec.Struct, frozen=True, kw_only=True):
    """Whose turn it is, where, and whose key it runs on."""

    user_id: int
    channel_id: int
    guild_id: int | None
    source: CredentialSource


class TurnSeen(msgspec.Struct, frozen=True, kw_only=True):
    """A turn, as far as buttons and commands ask.

    `prompt_id` is the message that it answers; `reached_length`: its reply was cut there.
    """

    turn_id: str
    owned: Owned
    state: TurnState
    prompt_id: int | None = None
    reached_length: bool = False

    @property
    def is_over(self) -> bool:
        """It has its end."""
        return self.state not in (TurnState.QUEUED, TurnState.RUNNING)

    @property
    def has_failed(self) -> bool:
        """It has no whole reply, and nobody stopped it."""
        return self.state in (TurnState.FAILED, TurnState.DEAD)


class Again(StrEnum):
    """What became of the wish to run a turn once more."""

    STARTED = "started"
    ALREADY = "already"
    GONE = "gone"
    BUSY = "busy"
    BLOCKED = "blocked"


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """A credential as its owner may see it: never the key."""

    ref: CredentialRef
    key_id: str


class KeptTable(msgspec.Struct, frozen=True, kw_only=True):
    """The source of a drawn table, where it was shown, and in whose turn."""

    __repr__ = told_by_size

    text: str
    channel_id: int
    user_id: int
    guild_id: int | None = None


class Answers(Protocol):
    """The way back to who asked. Nothing here raises; an answer that came too late is logged.

    The first answer has three seconds: `say`, `form`, `wait`, `hold` or `unbutton`. After `wait`
    the person sees that something happens, and `whisper` has fifteen minutes.
    """

    async def say(self, text: str) -> Outcome:
        """Answers first, for everybody in the channel."""
        ...

    async def form(self, form: Form) -> bool:
        """Answers first, with a window; False when nobody knows that it opened."""
        ...

    async def wait(self) -> bool:
        """Answers first: what follows is for this person alone.

        False when it was answered already: two gateways hear the same while a shard changes hands.
        """
        ...

    async def hold(self) -> None:
        """Answers first, for the press of a button: the message stays as it is for now."""
        ...

    async def unbutton(self) -> None:
        """Takes the button that was pressed off its message, first or after `hold`."""
        ...

    async def whisper(self, text: str, *, files: tuple[OutgoingFile, ...] = ()) -> None:
        """Tells this person alone, first or later."""
        ...

    async def change(self, text: str) -> None:
        """Replaces what `say` said."""
        ...
