"""What holds for a prompt: model, persona, manners and lists, from the general to the particular.

Comes in: the configuration, and what guilds and channels chose for themselves (`Choices`). Goes
out: one `Settled` per prompt. Pure; `ChoicesPort` is what gateway and worker ask, and
`shared.edges.choices` fulfils it. Anyone may import it.

The order, a later one wins: `[defaults]` of the file, the guild, the parent channel of a thread,
the channel itself, the user. What the persona says about itself stands between the first two.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Annotated, Final, Protocol

import msgspec

from shared.history import Context
from shared.segments import DeliveryMode
from shared.turns import FollowUp, Lanes, Sampling, Target

Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Snowflake = Annotated[int, msgspec.Meta(ge=1, le=(1 << 63) - 1)]


class Speak(StrEnum):
    """When the bot answers in a guild: when it is spoken to, or every message of a person."""

    MENTION = "mention"
    ALWAYS = "always"


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a prompt was written, and by whom.

    `parent_id` is the channel that a thread belongs to, `roles` are the person's in the guild.
    """

    channel_id: int
    user_id: int
    guild_id: int | None = None
    parent_id: int | None = None
    roles: tuple[int, ...] = ()


class Access(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who may talk to the bot. A list that is empty allows everybody; what is denied stays denied.

    A thread counts as its parent channel too. `allow_dm` says whether direct messages are taken.
    """

    allow_guilds: tuple[Snowflake, ...] = ()
    deny_guilds: tuple[Snowflake, ...] = ()
    allow_channels: tuple[Snowflake, ...] = ()
    deny_channels: tuple[Snowflake, ...] = ()
    allow_roles: tuple[Snowflake, ...] = ()
    deny_roles: tuple[Snowflake, ...] = ()
    allow_users: tuple[Snowflake, ...] = ()
    deny_users: tuple[Snowflake, ...] = ()
    allow_dm: bool = True


class Choices(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one guild, channel or user chose; None and empty leave it to the more general.

    Args:
        model: name of a route or a model of the file, or `provider/model`.
        model_key: reference of the credential that the model was chosen with, which it needs: the
            model is passed over while there is none.
        persona: name of a persona of the file; `none` for none.
        instructions: added to the system prompt.
        locale: language of notices, as Discord writes it.
        delivery_mode: how a reply is parted.
        follow_up: what a second prompt does while the first is answered.
        lane: what is answered in order.
        speak: when the bot answers.
        tools: narrows the tools that the deployment allows; an empty list allows none.
        context: what the model reads before the prompt.
        history_messages: of the channel, at most.
        details_hours: how long thoughts and details may be looked at; 0 keeps none.
        show_thoughts: whether people may open them.
        subscribed: whether models that need a subscription answer here.
        access: who may talk to the bot here, beside what the more general says.
    """

    model: str | None = None
    model_key: str | None = None
    persona: str | None = None
    instructions: Annotated[str, msgspec.Meta(max_length=8_000)] | None = None
    locale: Annotated[str, msgspec.Meta(pattern=r"^[a-z]{2,3}([-_][A-Za-z]{2,4})?$")] | None = None
    delivery_mode: DeliveryMode | None = None
    follow_up: FollowUp | None = None
    lane: Lanes | None = None
    speak: Speak | None = None
    tools: tuple[str, ...] | None = None
    context: Context | None = None
    history_messages: Annotated[int, msgspec.Meta(ge=0, le=200)] | None = None
    details_hours: Annotated[float, msgspec.Meta(ge=0, le=72)] | None = None
    show_thoughts: bool | None = None
    subscribed: bool | None = None
    access: Access | None = None


class Persona(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who the bot is. Fields only: delivery shows name and avatar.

    Args:
        name: shown instead of the bot's own; also what the model hears that it is called.
        system: its system prompt.
        avatar: address of a picture.
        delivery_mode: how its replies are parted.
        model: name of a route or a model of the file.
        locale: language of its notices.
        age_restricted: speaks only in channels that are marked so.
        speaker_guard: its reply ends where it begins to speak for somebody else.
        as_bot: answers as the bot itself; else through a webhook, under its name and picture.
    """

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=80)]
    system: str = ""
    avatar: Annotated[str, msgspec.Meta(pattern=r"^https://")] | None = None
    delivery_mode: DeliveryMode | None = None
    model: str | None = None
    locale: str | None = None
    age_restricted: bool = False
    speaker_guard: bool = False
    as_bot: bool = False


class Settled(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for one prompt; every field has its final value.

    `target` and `fallbacks` are the route's, the canary already thrown; `tools` and `lane` None
    leave it to the deployment. `access` has one entry for each layer that has lists.
    """

    target: Target
    fallbacks: tuple[Target, ...] = ()
    sampling: Sampling = msgspec.field(default_factory=Sampling)
    system: str | None = None
    persona_id: str | None = None
    persona: Persona | None = None
    locale: str | None = None
    delivery_mode: DeliveryMode = DeliveryMode.PARAGRAPH
    follow_up: FollowUp = FollowUp.QUEUE
    lane: Lanes | None = None
    speak: Speak = Speak.MENTION
    tools: tuple[str, ...] | None = None
    context: Context = Context.CHANNEL
    history_messages: int = 30
    details_hours: float = 24.0
    show_thoughts: bool = False
    subscribed: bool = False
    access: tuple[Access, ...] = ()


class Denial(StrEnum):
    """Why a prompt is not taken."""

    DENIED = "denied"
    """Somebody put it on a list: nothing is said, an argument with the bot leads nowhere."""
    NOT_ALLOWED = "not_allowed"
    """It is on no list of those that are allowed: the person is told once."""


class ChoicesPort(Protocol):
    """Asks what holds. The gateway asks once per prompt, before admission."""

    async def settle(self, place: Place, turn_id: str = "") -> Settled:
        """What holds for a prompt; `turn_id` throws the canary, the same for the same turn.

        Raises:
            StoreUnavailable: the server with the guilds' choices is away; ask again.
        """
        ...


class Scope(StrEnum):
    """Who may choose for themselves."""

    GUILD = "guild"
    CHANNEL = "channel"
    USER = "user"


class ChoicesStorePort(Protocol):
    """Reads and writes what guilds, channels and users chose. Every call may raise `StoreError`."""

    async def read(self, scope: Scope, owner: int) -> Choices:
        """What was chosen; an owner who never chose has empty `Choices`."""
        ...

    async def write(self, scope: Scope, owner: int, choices: Choices) -> None:
        """Replaces what was chosen; empty `Choices` forget the owner."""
        ...


def merged(layers: Iterable[Choices]) -> Choices:
    """One layer of several, the general first. Instructions add up, a later word wins elsewhere."""
    values: dict[str, object] = {}
    instructions: list[str] = []
    for layer in layers:
        for name in Choices.__struct_fields__:
            value = getattr(layer, name)
            if name == "instructions":
                instructions += [value] if value else []
            elif value is not None:
                values[name] = value
    values["instructions"] = "\n\n".join(instructions) or None
    return Choices(**values)  # type: ignore[arg-type]  # values of fields of the same class


def denial(access: Sequence[Access], place: Place) -> Denial | None:
    """Whether a prompt is refused. Any layer may deny; each one's own lists must allow."""
    here = _here(place)
    for lists in access:
        if any(here[kind] & frozenset(getattr(lists, f"deny_{kind}")) for kind in _KINDS):
            return Denial.DENIED
    for lists in access:
        if place.guild_id is None:
            users = frozenset(lists.allow_users)
            if not lists.allow_dm or (users and place.user_id not in users):
                return Denial.NOT_ALLOWED
        elif not all(
            _allows(lists, kind, here[kind]) for kind in ("guilds", "channels")
        ) or not _allows_person(lists, here):
            return Denial.NOT_ALLOWED
    return None


def needs_roles(access: Sequence[Access]) -> bool:
    """Whether any list names roles."""
    return any(lists.allow_roles or lists.deny_roles for lists in access)


_KINDS: Final = ("guilds", "channels", "roles", "users")


def _here(place: Place) -> dict[str, frozenset[int]]:
    return {
        "guilds": frozenset(() if place.guild_id is None else (place.guild_id,)),
        "channels": frozenset(one for one in (place.channel_id, place.parent_id) if one),
        "roles": frozenset(place.roles),
        "users": frozenset({place.user_id}),
    }


def _allows(lists: Access, kind: str, ids: frozenset[int]) -> bool:
    allowed: frozenset[int] = frozenset(getattr(lists, f"allow_{kind}"))
    return not allowed or bool(ids & allowed)


def _allows_person(lists: Access, here: dict[str, frozenset[int]]) -> bool:
    """A person passes by a role or by name: two lists of one question."""
    if not lists.allow_roles and not lists.allow_users:
        return True
    by_role = here["roles"] & frozenset(lists.allow_roles)
    return bool(by_role or here["users"] & frozenset(lists.allow_users))
