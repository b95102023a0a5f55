"""Short ways to say what is asked of a model, and to read the body that was built of it."""

from typing import Any

import msgspec

from shared.messages import ContentBlock, Message, Role, TextBlock, ToolCallBlock
from shared.secrets import Secret
from shared.turns import Api, Sampling, Target, ToolSpec
from worker.providers.building import build_request
from worker.providers.requests import Endpoint, HttpRequest, ModelRequest

ENDPOINT = Endpoint(base_url="https://provider.example/v1", key=Secret("sk-test"))
TOOL = ToolSpec(name="roll", description="Rolls dice.", parameters={"properties": {"n": {}}})


def user(*content: str | ContentBlock) -> Message:
    """What a user said."""
    return Message(role=Role.USER, content=_blocks(content))


def said(*content: str | ContentBlock, by: tuple[str, str] | None = None) -> Message:
    """What a model said; `by` is its provider and model, None is unknown."""
    provider, model = by or (None, None)
    return Message(role=Role.ASSISTANT, content=_blocks(content), provider=provider, model=model)


def result(call_id: str, *content: str | ContentBlock, is_error: bool = False) -> Message:
    """The result of a call."""
    return Message(
        role=Role.TOOL,
        content=_blocks(content),
        tool_call_id=call_id,
        tool_name="roll",
        is_error=is_error,
    )


def call(call_id: str = "c1", signature: str | None = None, **arguments: object) -> ToolCallBlock:
    """A call of the tool `roll`."""
    return ToolCallBlock(id=call_id, name="roll", arguments=arguments, thought_signature=signature)


def asked(
    provider: str,
    model: str,
    *messages: Message,
    api: Api = Api.AUTO,
    sampling: Sampling | None = None,
    **more: Any,
) -> ModelRequest:
    """A request; without messages a user says hi."""
    return ModelRequest(
        target=Target(api=api, provider=provider, model=model),
        messages=list(messages) or [user("hi")],
        sampling=sampling or Sampling(),
        **more,
    )


def built(request: ModelRequest, endpoint: Endpoint = ENDPOINT) -> HttpRequest:
    """The HTTP request."""
    return build_request(request, endpoint)


def body_of(request: ModelRequest) -> Any:
    """The decoded body, JSON of the vendor's own shape."""
    return msgspec.json.decode(built(request).body)


def _blocks(content: tuple[str | ContentBlock, ...]) -> list[ContentBlock]:
    return [TextBlock(text=part) if isinstance(part, str) else part for part in content]
