"""What a turn is: the request, its target, its states and its outcome.

Comes in: facts of the prompt, from a front. Goes out: values for admission, workers, delivery.
Pure; anyone may import it.
"""

from enum import StrEnum

import msgspec

from shared.history import Reading
from shared.messages import Message
from shared.private import told_by_size

MAX_REQUEST_BYTES = 256 * 1024
"""A request above this is refused: images travel as addresses, and history is read at claim."""


class Api(StrEnum):
    """The wire format that a target speaks. `AUTO` lets the provider's row decide."""

    AUTO = "auto"
    ANTHROPIC = "anthropic"
    OPENAI_CHAT = "openai-chat"
    OPENAI_RESPONSES = "openai-responses"
    GOOGLE = "google"


class CredentialSource(StrEnum):
    """Whose key answers: it decides tips, who may see details, and who must be told."""

    SERVER = "server"
    PERSONAL = "personal"
    SUPPORTER = "supporter"


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """A model at a provider: a name of the provider table, and the vendor's id."""

    api: Api = Api.AUTO
    provider: str
    model: str


class Front(StrEnum):
    """Where a turn came from, and where its segments go."""

    LOCAL = "local"
    DISCORD = "discord"


class Lanes(StrEnum):
    """Whose turns wait for each other: one turn of a lane runs at a time, in order."""

    CHANNEL = "channel"
    """Everything in a channel, its threads included."""
    THREAD = "thread"
    """A channel, and each of its threads for itself."""
    USER = "user"
    """Each person in a channel or thread: replies to two of them may mingle."""


class Charge(StrEnum):
    """What a turn costs its guild, so that the next ones wait longer or shorter."""

    SECONDS = "seconds"
    TOKENS = "tokens"
    TURNS = "turns"


class FollowUp(StrEnum):
    """What a prompt does to what its user still has in the same lane.

    `QUEUE` waits its turn. `REPLACE` stops the running turn and drops the waiting ones. `MERGE`
    makes one turn of it and of the one that waits last.
    """

    QUEUE = "queue"
    REPLACE = "replace"
    MERGE = "merge"


class Speaker(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who a reply comes from, where that is not the bot itself.

    A name of at most 80 characters, and the address of a picture.
    """

    name: str
    avatar: str | None = None


class Route(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where the reply goes. Snowflakes are integers; a direct message has no guild.

    `reply_to` is the id of the prompt's message, `interaction` the token of a command's answer.
    """

    front: Front
    channel_id: int
    user_id: int
    guild_id: int | None = None
    reply_to: int | None = None
    interaction: str | None = None
    locale: str = "en"
    parent_id: int | None = None
    """The channel that a thread belongs to, where the front knows it."""
    speaker: Speaker | None = None
    """The persona that answers; None is the bot itself."""


class ToolSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool that the model may call: name, description and the JSON schema of its arguments."""

    name: str
    description: str = ""
    parameters: dict[str, object] = msgspec.field(default_factory=dict)


class Sampling(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How to generate. `max_tokens` always has a value: providers bill against the cap."""

    max_tokens: int = 2048
    temperature: float | None = None
    top_p: float | None = None
    stop: tuple[str, ...] = ()
    thinking: str | None = None
    """Effort of reasoning: `off`, `low`, `medium`, `high`; None leaves the provider's default."""


class TurnRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One prompt that is to be answered: all that a worker, and later a replay, needs.

    Args:
        turn_id: `m<message id>`, `i<interaction id>` or `l<local id>`, `.2` and on for replays.
        created_ms: when the front saw the prompt, milliseconds since the epoch.
        credential: reference of a sealed credential; None uses the deployment's own key.
        keep_thoughts_s: how long what the model thinks may be looked at; 0 keeps nothing of it.
        follow_up: what becomes of what the same user has in the lane.
        merged: the turns whose prompts stand in `messages` before the last, oldest first.
        continue_of: the turn whose reply was cut off and is continued by this one.
    """

    __repr__ = told_by_size

    turn_id: str
    route: Route
    target: Target
    messages: list[Message]
    created_ms: int
    version: int = 1
    fallbacks: tuple[Target, ...] = ()
    system: str | None = None
    tools: tuple[ToolSpec, ...] = ()
    sampling: Sampling = msgspec.field(default_factory=Sampling)
    credential_source: CredentialSource = CredentialSource.SERVER
    credential: str | None = None
    delivery_mode: str = "paragraph"
    replay_of: str | None = None
    persona: str | None = None
    follow_up: FollowUp = FollowUp.QUEUE
    merged: tuple[str, ...] = ()
    lane: Lanes | None = None
    """Whose turns it waits for, where the guild chose; None leaves it to the deployment."""
    reading: Reading | None = None
    """What is read of the channel at claim; None reads nothing but `messages`."""
    tool_names: tuple[str, ...] | None = None
    """Narrows the tools that the deployment allows; None leaves them."""
    wait_ms: int = 0
    """Milliseconds after admission before it may start: replays are paced with it."""
    keep_thoughts_s: int = 0
    continue_of: str | None = None

    @property
    def fairness_key(self) -> str:
        """The guild, or `dm:<user>` where there is none: what round robin shares slots between."""
        if self.route.guild_id is None:
            return f"dm:{self.route.user_id}"
        return str(self.route.guild_id)


class AttemptToken(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker shows with every write: the turn, its attempt, and the claim it came with.

    `claim` is 8 random hex digits: a server that forgot its last second may give an attempt number
    twice, but never with the same claim.
    """

    turn_id: str
    attempt: int
    claim: str


class Admission(StrEnum):
    """Whether a turn was taken. `scripts/admit.lua` answers these words."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    GUILD_FULL = "guild_full"
    FULL = "full"


TAKEN = frozenset({Admission.ACCEPTED, Admission.DUPLICATE})
"""The answers after which the turn is there."""


class TurnState(StrEnum):
    """Where a turn stands. `scripts/*.lua` write these words."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    DEAD = "dead"


TRANSITIONS: dict[TurnState, frozenset[TurnState]] = {
    TurnState.QUEUED: frozenset({TurnState.RUNNING, TurnState.CANCELLED, TurnState.FAILED}),
    TurnState.RUNNING: frozenset(
        {
            TurnState.QUEUED,
            TurnState.DONE,
            TurnState.FAILED,
            TurnState.CANCELLED,
            TurnState.DEAD,
        }
    ),
    TurnState.DONE: frozenset(),
    TurnState.FAILED: frozenset(),
    TurnState.CANCELLED: frozenset(),
    TurnState.DEAD: frozenset(),
}
ENDS = frozenset(state for state, following in TRANSITIONS.items() if not following)
"""The states that a turn does not leave."""


class Usage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Tokens and cost of an attempt, None where the provider gave no valid number.

    `input` counts all prompt tokens, cache reads and writes included; `output` includes reasoning
    (OpenTelemetry GenAI conventions). `cost` is in the provider's currency, 0 is a value.
    """

    input: int | None = None
    output: int | None = None
    reasoning: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    total: int | None = None
    cost: float | None = None


class StopReason(StrEnum):
    """Why a model stopped."""

    STOP = "stop"
    LENGTH = "length"
    TOOL_USE = "tool_use"
    CONTENT_FILTER = "content_filter"
    PAUSE = "pause"
    UNKNOWN = "unknown"


class CostSource(StrEnum):
    """How the cost of an attempt is known."""

    UNKNOWN = "unknown"
    REPORTED = "reported"
    """The provider said it."""
    PRICED = "priced"
    """The configuration's price of a token, times the tokens that the provider counted."""


class AttemptUsage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one attempt of a turn cost: who was asked, with which key, and the sum of its rounds."""

    attempt: int
    target: Target
    key_id: str | None = None
    rounds: int = 1
    usage: Usage = msgspec.field(default_factory=Usage)
    cost_source: CostSource = CostSource.UNKNOWN


class TurnOutcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How an attempt ended: what the canonical log line and the turn's record carry.

    `usage` is the sum over the attempt's rounds; `rounds` counts its answers of the model,
    `tool_calls` the calls that ran in the whole turn. `attempts` has all attempts of this claim,
    the last one included: each is paid for. What the model thought is private and not in here: the
    worker's own `TurnResult` has it beside this.
    """

    state: TurnState
    segments: int
    stop_reason: StopReason | None = None
    usage: Usage = msgspec.field(default_factory=Usage)
    serving_provider: str | None = None
    details: tuple[str, ...] = ()
    cause: str | None = None
    first_byte_ms: int | None = None
    first_segment_ms: int | None = None
    elapsed_ms: int | None = None
    rounds: int = 1
    tool_calls: int = 0
    attempts: tuple[AttemptUsage, ...] = ()


FIRST_FOLLOWER = 2
"""The generation of a turn's first follower; the prompt's own turn is the first, without number."""


def next_generation(turn_id: str) -> str:
    """The id of the turn that runs this one again, or goes on where it stopped: one, for ever.

    >>> next_generation("m7"), next_generation("m7.2")
    ('m7.2', 'm7.3')
    """
    base, _, number = turn_id.partition(".")
    return f"{base}.{int(number) + 1 if number.isdecimal() else FIRST_FOLLOWER}"
