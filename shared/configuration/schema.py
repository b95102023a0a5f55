"""`turnfleet.toml` as values: every table, its fields and defaults.

Comes in: nothing. Goes out: `Configuration`, which `reading` fills and `settling` asks. Keys never
stand in it, only where they are found. Pure; anyone may import it.
"""

from enum import StrEnum
from typing import Annotated

import msgspec

from shared.configuration.choices import Access, Choices, Persona, Share
from shared.configuration.output import MAX_RULES, OutputRule
from shared.turns import Api

Money = Annotated[float, msgspec.Meta(ge=0, le=1_000_000)]
Tokens = Annotated[int, msgspec.Meta(ge=1, le=100_000_000_000)]
KeyPlace = Annotated[str, msgspec.Meta(pattern=r"^(env:[A-Za-z_][A-Za-z0-9_]*|file:.+)$")]
"""Where a key is found: `env:VARIABLE`, or `file:/path` with one key a line."""


class ProviderEntry(msgspec.Struct, frozen=True, kw_only=True):
    """`[providers.NAME]`: where a provider listens, and the pool of its keys.

    A known name (`openai`) needs nothing; a new one is a custom endpoint that speaks
    chat completions. `keys` add to what the provider's own variables hold.
    """

    base_url: Annotated[str, msgspec.Meta(pattern=r"^https?://[^\s/]+")] | None = None
    keys: tuple[KeyPlace, ...] = ()


class Price(msgspec.Struct, frozen=True, kw_only=True):
    """What a million tokens cost, for providers that do not report the cost themselves.

    Without `cache_read` and `cache_write`, cached tokens cost what others cost.
    """

    input: Money
    output: Money
    cache_read: Money | None = None
    cache_write: Money | None = None


class ModelEntry(msgspec.Struct, frozen=True, kw_only=True):
    """`[models.NAME]`: a model that routes and people may name.

    Args:
        provider: a name of `[providers]` or of the built-in table.
        model: the vendor's id.
        api: the wire format, where the provider's own is not meant.
        context_tokens: what it reads at most; longer histories are trimmed before it is asked.
        vision: whether it reads pictures; without, it hears that there was one.
        max_tokens, temperature, top_p, thinking: how it generates.
        needs_subscription: answers only where a guild or user is subscribed.
        price: for the ledger and the budgets.
    """

    provider: str
    model: str
    api: Api = Api.AUTO
    context_tokens: Annotated[int, msgspec.Meta(ge=512, le=10_000_000)] | None = None
    vision: bool | None = None
    max_tokens: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 2048
    temperature: Annotated[float, msgspec.Meta(ge=0, le=2)] | None = None
    top_p: Share | None = None
    thinking: Annotated[str, msgspec.Meta(pattern="^(off|low|medium|high)$")] | None = None
    needs_subscription: bool = False
    price: Price | None = None


class Canary(msgspec.Struct, frozen=True, kw_only=True):
    """A share of a route's turns that another model answers first."""

    model: str
    share: Share


class RouteEntry(msgspec.Struct, frozen=True, kw_only=True):
    """`[routes.NAME]`: models in the order in which they are asked, the first one first."""

    models: Annotated[tuple[str, ...], msgspec.Meta(min_length=1, max_length=8)]
    canary: Canary | None = None


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """`[limits]`: how much at once. The environment's TURNFLEET_GUILD_DEPTH and _GLOBAL_DEPTH win.

    Args:
        guild_depth, global_depth: queued and running turns before the bot says that it is busy.
        user_depth: of one person; 0 has no limit.
        user_cooldown_s: between two prompts of one person.
        context_tokens: of the history that goes to a model, whatever it could read.
        images: pictures of one prompt that a model is shown.
        image_bytes, text_file_bytes: of one attachment.
    """

    guild_depth: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] | None = None
    global_depth: Annotated[int, msgspec.Meta(ge=1, le=10_000_000)] | None = None
    user_depth: Annotated[int, msgspec.Meta(ge=0, le=1_000)] = 0
    user_cooldown_s: Annotated[float, msgspec.Meta(ge=0, le=86_400)] = 0.0
    context_tokens: Annotated[int, msgspec.Meta(ge=256, le=10_000_000)] = 8_000
    images: Annotated[int, msgspec.Meta(ge=0, le=10)] = 4
    image_bytes: Annotated[int, msgspec.Meta(ge=1, le=20 * 1024 * 1024)] = 8 * 1024 * 1024
    text_file_bytes: Annotated[int, msgspec.Meta(ge=1, le=4 * 1024 * 1024)] = 128 * 1024


class BudgetScope(StrEnum):
    """What a budget adds up."""

    ALL = "all"
    GUILD = "guild"
    USER = "user"
    MODEL = "model"


class Period(StrEnum):
    """How long a budget lasts, in UTC."""

    DAY = "day"
    MONTH = "month"


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """`[[budgets]]`: what may be spent before no provider is asked any more.

    Args:
        scope: what is added up.
        id: of one guild or user, or a model's name; `*` gives each its own budget.
        period: a day or a month.
        cost, tokens: the bounds; at least one of them.
        notice_at: the share at which the channel is told once.
        own_keys: whether turns on people's own keys count too.
    """

    scope: BudgetScope
    period: Period
    id: str = "*"
    cost: Annotated[float, msgspec.Meta(ge=0)] | None = None
    tokens: Tokens | None = None
    notice_at: Share = 0.8
    own_keys: bool = False


class Configuration(msgspec.Struct, frozen=True, kw_only=True):
    """The whole file; without one, everything has its default and the environment decides.

    `deployment` holds fields of `shared.config.Settings`, for a restart.
    """

    deployment: dict[str, object] = msgspec.field(default_factory=dict)
    providers: dict[str, ProviderEntry] = msgspec.field(default_factory=dict)
    models: dict[str, ModelEntry] = msgspec.field(default_factory=dict)
    routes: dict[str, RouteEntry] = msgspec.field(default_factory=dict)
    personas: dict[str, Persona] = msgspec.field(default_factory=dict)
    defaults: Choices = msgspec.field(default_factory=Choices)
    limits: Limits = msgspec.field(default_factory=Limits)
    budgets: tuple[Budget, ...] = ()
    access: Access = msgspec.field(default_factory=Access)
    output_rules: Annotated[tuple[OutputRule, ...], msgspec.Meta(max_length=MAX_RULES)] = ()
