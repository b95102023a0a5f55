"""Builds a request and brings it before the rehearsal's judge of its format.

Comes in: a `ModelRequest`. Goes out: what the judge read, after a failed assertion with its words
where it refused. `signed` gives a history the signatures that its target would have made.
"""

from urllib.parse import parse_qs, unquote, urlsplit

import msgspec

from ops.rehearsal.judges.anthropic import AnthropicJudge
from ops.rehearsal.judges.chat_dialects import DIALECTS
from ops.rehearsal.judges.google import GoogleJudge
from ops.rehearsal.judges.openai_chat import ChatJudge
from ops.rehearsal.judges.openai_responses import ResponsesJudge
from ops.rehearsal.signatures import sign
from ops.rehearsal.values import Ask, Facts, Fault, Judge
from shared.messages import ContentBlock, TextBlock, ThinkingBlock, ToolCallBlock
from shared.secrets import Secret
from shared.turns import Api
from worker.providers.building import api_of, build_request
from worker.providers.quirks import resolve
from worker.providers.requests import Endpoint, HttpRequest, ModelRequest

CHAT_JUDGES = {dialect.name: ChatJudge(dialect) for dialect in DIALECTS}
JUDGES: dict[Api, Judge] = {
    Api.ANTHROPIC: AnthropicJudge(),
    Api.OPENAI_CHAT: CHAT_JUDGES["custom"],
    Api.OPENAI_RESPONSES: ResponsesJudge(),
    Api.GOOGLE: GoogleJudge(),
}
VENDORS = {
    Api.ANTHROPIC: "anthropic",
    Api.OPENAI_CHAT: "openai",
    Api.OPENAI_RESPONSES: "openai",
    Api.GOOGLE: "google",
}
ENDPOINT = Endpoint(base_url="https://provider.example/v1", key=Secret("sk-test"))


def api(request: ModelRequest) -> Api:
    """The format that a request will be built in."""
    return api_of(request.target.api, resolve(request.target.provider))


def built(request: ModelRequest) -> HttpRequest:
    """The HTTP request."""
    return build_request(request, ENDPOINT)


def verdict(request: ModelRequest) -> Ask | Fault:
    """What the judge of the request's format says."""
    http = built(request)
    url = urlsplit(http.url)
    facts = Facts(
        headers=dict(http.headers),
        query={name: values[-1] for name, values in parse_qs(url.query).items()},
        model=unquote(url.path).partition("/models/")[2].partition(":")[0] or None,
    )
    judge = JUDGES[api(request)]
    if api(request) is Api.OPENAI_CHAT:
        judge = CHAT_JUDGES.get(request.target.provider, judge)
    assert judge.key(facts) == "sk-test"
    return judge.read(msgspec.json.decode(http.body), facts)


def accepted(request: ModelRequest) -> Ask:
    """What the judge read. Fails with its words and the body where it refused."""
    read = verdict(request)
    assert isinstance(read, Ask), (read, msgspec.json.decode(built(request).body))
    return read


def signed(request: ModelRequest) -> ModelRequest:
    """The request with valid signatures on whatever its own target made."""
    target = request.target
    messages = [
        msgspec.structs.replace(
            message,
            content=[_signed(block, api(request), target.model) for block in message.content],
        )
        if (message.provider, message.model) == (target.provider, target.model)
        and isinstance(message.content, list)
        else message
        for message in request.messages
    ]
    return msgspec.structs.replace(request, messages=messages)


def _signed(block: ContentBlock, api: Api, model: str) -> ContentBlock:
    match block:
        case ThinkingBlock(thinking_signature=str()) | ThinkingBlock(redacted=True):
            return _signed_thinking(block, api, model)
        case TextBlock(text_signature=str()):
            return msgspec.structs.replace(
                block, text_signature=sign(VENDORS[api], model, block.text)
            )
        case ToolCallBlock(thought_signature=str()):
            return msgspec.structs.replace(
                block, thought_signature=sign(VENDORS[api], model, block.name)
            )
        case _:
            return block


def _signed_thinking(block: ThinkingBlock, api: Api, model: str) -> ThinkingBlock:
    # NUL never comes out of a normalizer, so nobody signs it.
    thinking = block.thinking.replace("\0", "").encode("utf-16", "surrogatepass")
    text = thinking.decode("utf-16", "replace")
    signature = sign(VENDORS[api], model, text)
    if api is Api.OPENAI_RESPONSES:
        item = {"id": "rs_1", "encrypted_content": signature}
        signature = msgspec.json.encode(item).decode()
    return msgspec.structs.replace(block, thinking=text, thinking_signature=signature)
