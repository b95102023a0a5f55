"""Settings: from the environment to one checked value.

Comes in: a mapping of environment variables. Goes out: `Settings`. A wrong or unknown
`TURNFLEET_*` variable is a `ConfigError` that names it, whoever reads: a process at its start,
`turnfleet config check` and `turnfleet doctor` refuse the same. The apps read settings once and
pass on what each part needs.
"""

import difflib
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import msgspec
import platformdirs

from shared.errors import ConfigError, SettingError
from shared.secret_files import with_files
from shared.secret_settings import HOLDERS
from shared.segments import DeliveryMode
from shared.setting_rules import RULES
from shared.turns import Charge, FollowUp, Front, Lanes
from shared.wording import deed_for, in_words, plain_kind

PREFIX = "TURNFLEET_"
NOT_SETTINGS = ("TURNFLEET_CORPUS", "TURNFLEET_TEST_", "TURNFLEET_BENCH_", "TURNFLEET_SEED")
"""Variables of tests and benchmarks, which a process of the product ignores."""


Weight = Annotated[float, msgspec.Meta(ge=0.01, le=100)]
"""A guild's share, in those of a usual one."""
Count = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
Partitions = Annotated[int, msgspec.Meta(ge=1, le=1_000)]
"""Each is a stream that some gateway reads over a connection of its own."""
Depth = Annotated[int, msgspec.Meta(ge=1, le=10_000_000)]
Seconds = Annotated[float, msgspec.Meta(gt=0, le=86_400)]
"""A day is longer than anybody waits for an answer, and endless is no number of milliseconds."""
Grace = Annotated[float, msgspec.Meta(ge=0, le=86_400)]


class Tables(StrEnum):
    """How tables are shown in Discord: drawn, or as text."""

    IMAGE = "image"
    TEXT = "text"


class CrashPolicy(StrEnum):
    """What becomes of a reply that was cut off: it is written anew, or stands with a notice."""

    SUPERSEDE = "supersede"
    NOTICE = "notice"


class Record(StrEnum):
    """Which attempts keep the provider's bytes."""

    FAILED = "failed"
    ALWAYS = "always"


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every setting, its default, and why that one."""

    config: str | None = None
    """The file with providers, models, routes, personas and limits (docs/configuration.md); None
    looks for `turnfleet.toml` here, then in `data_dir`."""
    redis_url: str | None = None
    """Redis 7.0+ or Valkey; None starts the embedded server in `data_dir`."""
    database_url: str | None = None
    """SQLAlchemy URL of the error store; None is SQLite in `data_dir`, which one machine can share
    and several cannot: they need PostgreSQL. Recorder, console and commands need the same."""
    data_dir: str = platformdirs.user_data_dir("turnfleet")
    """This deployment's own files: what is embedded (Redis, SQLite), spools of reports, keys that
    open credentials. Where the system keeps the data of a person's programs, so that trying it
    needs no rights; containers name a volume."""
    cell: str = "main"
    """The deployment's name within its Redis, at the front of every key, so that several can share
    a server. The same in all processes."""
    partitions: Partitions = 4
    """Out streams that channels are spread over, by a digest of their ids. A gateway leads any
    number of them, so that more than there are gateways is enough. The same in all processes:
    what goes into a stream beyond a gateway's own number is not delivered."""
    front: Front = Front.LOCAL
    """`local` or `discord`."""
    discord_token: str | None = None
    """The bot's, of Discord's developer portal; needed where `front` is `discord`."""
    operators_channel: int | None = None
    """The Discord channel that alerts are posted in: new causes, spikes, budgets used up. None
    posts them nowhere; causes and spikes stand in the console too."""
    discord_rest_url: str = "https://discord.com/api/v10"
    """Discord's API, in the version that this is written for; a rehearsal has one of its own."""
    discord_requests_per_s: Count = 50
    """Discord's limit of a bot token, shared by all gateways; large bots are given more."""
    discord_shards: int | str = "auto"
    """How many shards the bot has; its gateways share them. `auto` is what Discord recommends."""
    discord_names: str = ""
    """Names that call the bot at the beginning of a message, with commas between. They need
    `discord_reads_all`."""
    discord_reads_all: bool = False
    """Ask for the privileged intent *message content*: for names, and for channels where every
    message is a prompt (`speak = "always"`). It must be allowed in the developer portal."""
    tables: Tables = Tables.IMAGE
    """How tables are shown in Discord: `image` (drawn, with a button for the source) or `text`."""
    messages_per_turn: Count = 20
    """What is beyond so many messages of one reply goes into a file."""
    stop_button: bool = True
    """A button below a running reply in Discord that stops it; `/stop` does the same without."""
    console_token: str | None = None
    """What the console asks visitors for; needed where it listens beyond loopback."""
    provider: str = "rehearsal"
    """Who answers where nobody chose a model: a built-in name, or one of `[providers]`. Set here,
    it wins over the file's `[defaults] model`. The rehearsal needs no key and costs nothing."""
    model: str = "plain"
    """The model of that provider, by the provider's own name; `plain` is the rehearsal's."""
    endpoints: dict[str, str] = msgspec.field(default_factory=dict)
    """Base URL by provider name, as JSON: {"rehearsal": "http://127.0.0.1:8080"}."""
    private_endpoints: str = ""
    """Endpoints that may be private or without TLS, besides those of `endpoints`, as `host:port`
    with commas between. All others must be public and HTTPS: people give addresses too, and none
    of theirs may lead into the network that the worker stands in."""
    sealing_key: str | None = None
    """Public key that credentials are sealed with, in hex; None takes the newest opening key."""
    opening_keys_file: str | None = None
    """The private keys that open them, for workers only; None is `opening.keys` in `data_dir`."""
    tools: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    """Tools that may run, by guild id, `dm`, or `*` for the others, as JSON: {"*": ["calculate"]}.
    The name `*` allows every installed tool. Nothing runs that nobody allowed."""
    mcp: dict[str, str | tuple[str, ...]] = msgspec.field(default_factory=dict)
    """MCP servers by name, as JSON: an address, or the words of a command that speaks on stdio:
    {"docs": "https://host/mcp", "files": ["npx", "-y", "a-server"]}."""
    delivery_mode: DeliveryMode = DeliveryMode.PARAGRAPH
    """How a reply is cut (docs/segments.md) where persona, guild, channel and user say nothing:
    `paragraph`, `line`, `sentence`, `aggregated`, `edit`. A cut inside a paragraph is worse than
    a pause between two."""
    follow_up: FollowUp = FollowUp.QUEUE
    """What a prompt does to what its user still has in the channel: `queue` waits its turn,
    `replace` stops and drops that, `merge` is answered together with the one that waits last."""
    crash_policy: CrashPolicy = CrashPolicy.SUPERSEDE
    """What happens to text already shown when a worker dies, or a provider fails in mid-stream:
    `supersede` writes the reply anew in its place, so that the channel ends with one whole reply;
    `notice` lets it stand and says that it is not whole."""
    record: Record = Record.FAILED
    """Which attempts keep the provider's bytes for `replay --recorded`: `failed`, those that
    somebody looks into, or `always`, which keeps every reply in Redis a second time."""
    slots: Count = 100
    """Turns a worker runs at once: about one core of streaming (docs/decisions)."""
    lane: Lanes = Lanes.THREAD
    """Whose turns wait for each other: `thread` (a channel, and each of its threads for itself),
    `channel` (with its threads, so that a whole forum is one), or `user` (each person apart)."""
    fair_by: Charge = Charge.SECONDS
    """What guilds share fairly: `seconds` of slots, `tokens`, or `turns`."""
    guild_weights: dict[str, Weight] = msgspec.field(default_factory=dict)
    """Shares of guilds beside the usual 1, by guild id, `dm:<user>`, or `*` for the others, as
    JSON: {"1187001234": 2.5}. A guild of weight 2 gets twice the slots while all are busy."""
    guild_depth: Count = 50
    """Queued and running turns of a guild before it is told that the bot is busy."""
    global_depth: Depth = 10_000
    """Queued and running turns of all guilds before anybody is told so: what waits lies in Redis
    with its request, and must fit."""
    turn_deadline_s: Seconds = 300.0
    """What a turn may wait in the queue, and then, from its claim on, take with all its
    attempts, rounds and tools. By default a first byte that never comes and a whole stream after
    it fit in."""
    first_byte_s: Seconds = 60.0
    """What an endpoint gets to connect and send the first byte of an answer, in each round: busy
    ones queue requests, and local ones load a model first."""
    between_chunks_s: Seconds = 90.0
    """The longest silence within an answer. Comments that keep a connection open do not end one; a
    model that thinks without showing it is silent for so long."""
    whole_stream_s: Seconds = 240.0
    """What one answer may take from its request on: one that never ends leaves time in its turn to
    say so."""
    drain_s: Grace = 30.0
    """What running turns get after SIGTERM before they are handed back."""
    sentry_dsn: str | None = None
    """Where the recorder sends what became a row of `error_logs`; None sends nothing anywhere."""
    sentry_url: str | None = None
    """Sentry's pages of the organization, such as https://acme.sentry.io, for links to events."""
    health_listen: str | None = None
    """`host:port` for `/healthz`, `/readyz`, `/metrics` and `/scale`; None serves none of them."""
    at_rest_key: str | None = None
    """Seals requests and recordings in Redis: 64 hex digits, the newest of several first; None
    keeps them readable for whoever reads Redis. Gateways, workers and operators need the same."""
    log_level: str = "INFO"
    """`DEBUG`, `INFO`, `WARNING` or `ERROR`. `INFO` has a line for each turn, and what somebody
    must act on."""
    log_max_string_chars: Count | None = None
    """Truncation of strings in logs; None keeps them whole."""
    allow_unsafe_redis: bool = False
    """Start on a server that may forget accepted work (eviction, no AOF). Trying things needs no
    more; a deployment that loses no turn does."""


def load_settings(environ: Mapping[str, str]) -> Settings:
    """Reads the settings of a process from the environment alone.

    `shared.configuration.loading.load` reads the file too, and is what processes begin with.

    Raises:
        ConfigError: an unknown or unreadable variable; the message says which and what to do.
    """
    return settings_from(named_settings(environ))


def named_settings(environ: Mapping[str, str]) -> dict[str, object]:
    """What the environment sets, by the names of the fields; an empty variable sets nothing.

    Raises:
        ConfigError: an unknown variable, or one that is no JSON.
    """
    known = {field.name for field in msgspec.structs.fields(Settings)}
    values: dict[str, object] = {}
    for name, text in with_files(environ).items():
        if not name.startswith(PREFIX) or name.startswith(NOT_SETTINGS):
            continue
        field = name.removeprefix(PREFIX).lower()
        if field not in known:
            near = difflib.get_close_matches(field, known, n=1)
            hint = f"did you mean {PREFIX}{near[0].upper()}?" if near else "remove it"
            raise ConfigError(f"unknown setting {name}: {hint}")
        if text:  # compose files and charts write an empty one for what nobody set
            values[field] = _json_or_text(field, text)
    return values


def settings_from(values: Mapping[str, object]) -> Settings:
    """Settings with these values, all others at their defaults.

    What single values are is checked; what names that call the bot need, `unseen_names` says.

    Raises:
        SettingError: a value is wrong; the message names its variable, and says what to do.
    """
    for name, value in values.items():
        _check(name, value)
    return msgspec.convert(values, Settings, strict=False)


def unseen_names(settings: Settings) -> SettingError | None:
    """What is wrong with names that call the bot and that Discord would not show it.

    A gateway with that front refuses them, the checks of settings warn: nobody else reads them.
    """
    if not settings.discord_names.strip(" ,") or settings.discord_reads_all:
        return None
    return SettingError(
        "discord_names",
        "without TURNFLEET_DISCORD_READS_ALL=true Discord shows no message that begins so",
        "set that and allow the intent *message content* in the developer portal, or leave "
        "TURNFLEET_DISCORD_NAMES out",
    )


def data_dir(settings: Settings) -> Path:
    """The directory of this deployment's files, made if it is missing."""
    path = Path(settings.data_dir).expanduser()
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as exc:
        raise ConfigError(
            f"cannot use {PREFIX}DATA_DIR={path}: {exc.strerror}; "
            "name a directory that can be written"
        ) from exc
    return path


_JSON_EXAMPLES = {
    "guild_weights": '{"1187001234": 2.5}',
    "endpoints": '{"openai": "https://..."}',
    "tools": '{"*": ["calculate"]}',
    "mcp": '{"docs": "https://host/mcp"}',
}
"""The settings that are JSON, each with an example."""


def _json_or_text(field: str, text: str) -> object:
    if field not in _JSON_EXAMPLES:
        return text
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as exc:
        example = _JSON_EXAMPLES[field]
        raise ConfigError(
            f"{PREFIX}{field.upper()} is no JSON object such as {example}: {exc}"
        ) from exc


def _check(name: str, value: object) -> None:
    """Passes a value that its setting can have, whatever the others are."""
    kind = _KINDS[name]
    try:
        read = msgspec.convert(value, kind, strict=False)
    except msgspec.ValidationError as exc:
        text, _, path = str(exc).partition(" - at `$")
        where = f"at {path.rstrip('`').removeprefix('.')}: " if path else ""
        deed = deed_for(text, plain_kind(kind))
        shown = "" if name in HOLDERS or not isinstance(value, str | int | float) else str(value)
        raise SettingError(name, f"{where}{in_words(text)}", deed, shown=shown) from None
    if read is not None and name in RULES:
        RULES[name](read)


_KINDS: Final = {field.name: field.type for field in msgspec.structs.fields(Settings)}
