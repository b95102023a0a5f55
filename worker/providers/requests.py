"""What is asked of a provider, where, and the HTTP request that says it.

Comes in: a turn's values. Goes out: `ModelRequest` and `Endpoint` for the builders, `HttpRequest`
for the edge that sends it. Pure; turn, edges and replay may import it.
"""

import hashlib
from typing import Literal, NamedTuple

import msgspec

from shared.messages import Message
from shared.private import told_by_size
from shared.secrets import HIDDEN, Secret
from shared.turns import Sampling, Target, ToolSpec, TurnRequest


class HttpRequest(NamedTuple):
    """One request. Headers carry the key, so `repr` shows neither them nor the body."""

    method: str
    url: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def __repr__(self) -> str:
        return f"HttpRequest({self.method} {self.url}, headers={HIDDEN}, {len(self.body)} bytes)"


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """Where a provider listens, and the key it is opened with.

    Args:
        base_url: up to and including the version, without a slash at the end: `https://host/v1`.
        key: None for endpoints that want none.
        headers: further headers of this endpoint (an organization, a tenant); they may be secret.
    """

    base_url: str
    key: Secret | None = None
    headers: tuple[tuple[str, Secret], ...] = ()


class KeyedEndpoint(msgspec.Struct, frozen=True, kw_only=True):
    """An endpoint with the key that a pool gave.

    Args:
        key_id: the key's name in reports, a digest; None where there is no key.
        others: further keys of the pool that could be used at once.
        refusal: why the turn's own credential cannot be used; then there is no key.
    """

    endpoint: Endpoint
    key_id: str | None = None
    others: int = 0
    refusal: str | None = None


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt's question to a model, in words that no provider owns.

    Args:
        messages: the history, as it stands; the builder fits it to the target.
        conversation: stable name of the conversation, so that a provider routes its turns to the
            same cache; never a Discord id in clear.
        foreign_thinking: what becomes of reasoning that another model made. `drop` is turnfleet's
            setting: a model imitates what it reads as its own public speech.
        reads_images: False replaces images by a short note.
        output_cap: what may be generated altogether, reasoning included, where the provider said
            that more is not affordable.
        without: parts of the body that the provider refused before and that are left out now:
            `images`, `tools`, or a setting as the provider named it.
    """

    __repr__ = told_by_size

    target: Target
    messages: list[Message]
    system: str | None = None
    tools: tuple[ToolSpec, ...] = ()
    sampling: Sampling = msgspec.field(default_factory=Sampling)
    conversation: str | None = None
    foreign_thinking: Literal["drop", "text"] = "drop"
    reads_images: bool = True
    output_cap: int | None = None
    without: frozenset[str] = frozenset()


def model_request(turn: TurnRequest, target: Target | None = None) -> ModelRequest:
    """The question of a turn, to its own target or to one of its fallbacks."""
    return ModelRequest(
        target=target or turn.target,
        messages=turn.messages,
        system=turn.system,
        tools=turn.tools,
        sampling=turn.sampling,
        conversation=_conversation_of(turn),
    )


def _conversation_of(turn: TurnRequest) -> str:
    """The same for every turn of a channel and persona, so that they share a prompt cache."""
    route = turn.route
    name = f"{route.front}\0{route.channel_id}\0{turn.persona or ''}"
    return hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:32]
