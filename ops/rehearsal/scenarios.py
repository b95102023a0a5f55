"""Scenarios: what the rehearsal provider plays, read from `data/scenarios/*.toml`.

Comes in: TOML files, and an `Ask`. Goes out: the `Scenario` that the ask chose, and its beats. The
file's name is the scenario's name. A request chooses by its model (`plain`, `vendor/plain`,
`plain@40` for 40 tokens a second) or by the start of its last user message (`slow: tell me more`),
which wins over the model.
"""

import re
from pathlib import Path

import msgspec

from ops.rehearsal.values import Ask
from shared.errors import ConfigError

SCENARIOS = Path(__file__).parent / "data" / "scenarios"


class _Beat(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    pass


class Think(_Beat, frozen=True, kw_only=True, tag="think"):
    """Reasoning, streamed token by token."""

    text: str


class Say(_Beat, frozen=True, kw_only=True, tag="say"):
    """Visible text, streamed token by token; `repeat` plays it so many times."""

    text: str
    repeat: int = 1


class Refuse(_Beat, frozen=True, kw_only=True, tag="refuse"):
    """The model declines in words."""

    text: str


class Draw(_Beat, frozen=True, kw_only=True, tag="draw"):
    """A picture, base64, whole in one part; vendors whose models make none leave it out."""

    data: str


class Call(_Beat, frozen=True, kw_only=True, tag="call"):
    """A tool call; without a name it takes the first offered tool, without tools it is skipped.

    `raw` is sent instead of the arguments' JSON, to rehearse a cut or broken call.
    """

    name: str | None = None
    arguments: dict[str, object] = msgspec.field(default_factory=dict)
    raw: str | None = None


class Silence(_Beat, frozen=True, kw_only=True, tag="silence"):
    """Nothing is said for so many seconds, while the connection stays open.

    With `heartbeat_s` the vendor's sign of life is written that often; it means nothing.
    """

    seconds: float
    heartbeat_s: float | None = None


class Fail(_Beat, frozen=True, kw_only=True, tag="fail"):
    """An error inside the stream, by its name in `data/faults.toml`."""

    fault: str


class Cut(_Beat, frozen=True, kw_only=True, tag="cut"):
    """The stream ends without a finish: dropped connection, or (`clean`) a tidy end of the body."""

    clean: bool = False


class Finish(_Beat, frozen=True, kw_only=True, tag="finish"):
    """The answer closes: `stop`, `length`, `content_filter`; tool calls make it `tool_use`."""

    reason: str = "stop"


Beat = Think | Say | Refuse | Draw | Call | Silence | Fail | Cut | Finish


class Scenario(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One scenario.

    Args:
        fault: answered as an HTTP error instead of the beats.
        fault_times: how often one prompt meets the fault before the beats play; None is always.
        tokens_per_s: speed of text, 0 is as fast as the socket takes it.
        after_tools: the beats when tool results stand at the end of the history.
    """

    about: str
    beats: list[Beat] = msgspec.field(default_factory=list)
    after_tools: list[Beat] = msgspec.field(default_factory=list)
    fault: str | None = None
    fault_times: int | None = None
    tokens_per_s: float = 0.0
    first_token_s: float = 0.0


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """The scenario of a request, with the speed that the request asked for."""

    name: str
    scenario: Scenario
    tokens_per_s: float


def load_scenarios(folder: Path = SCENARIOS) -> dict[str, Scenario]:
    """Reads every scenario of a folder.

    Raises:
        ConfigError: no scenarios there, or one that cannot be read; the message names the file.
    """
    found: dict[str, Scenario] = {}
    for path in sorted(folder.glob("*.toml")):
        try:
            found[path.stem] = msgspec.toml.decode(path.read_bytes(), type=Scenario)
        except msgspec.DecodeError as exc:
            raise ConfigError(f"scenario {path}: {exc}") from exc
    if not found:
        raise ConfigError(f"no scenarios (*.toml) in {folder}")
    return found


_AT_MODEL = re.compile(r"(?:.*/)?(?P<name>[a-z0-9_]+)(?:@(?P<rate>\d+(?:\.\d+)?))?")
_AT_PROMPT = re.compile(
    # An author's name may stand first: gateways write "Ann: slow: tell me" for a group channel.
    r"\s*(?:[^:\n]{1,40}:\s+)?(?P<name>[a-z0-9_]+)(?:@(?P<rate>\d+(?:\.\d+)?))?:(?=\s|$)"
)


def choose(scenarios: dict[str, Scenario], ask: Ask) -> Choice | None:
    """The scenario of an ask, None when its model is unknown."""
    model = _AT_MODEL.fullmatch(ask.model)
    if model is None or model["name"] not in scenarios:
        return None
    prompt = _AT_PROMPT.match(ask.prompt)
    match = prompt if prompt is not None and prompt["name"] in scenarios else model
    scenario = scenarios[match["name"]]
    rate = match["rate"]
    return Choice(
        name=match["name"],
        scenario=scenario,
        tokens_per_s=scenario.tokens_per_s if rate is None else float(rate),
    )


def beats_of(scenario: Scenario, ask: Ask) -> list[Beat]:
    """The beats that this ask gets."""
    if ask.tool_results and scenario.after_tools:
        return scenario.after_tools
    return scenario.beats
