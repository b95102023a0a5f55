"""The floor: what nobody who reads these streams in CPython can go below.

The body is split at blank lines, the data lines of each block are taken out, and one typed decoder
reads them. No cutting, no canonical events, no rules.
"""

import msgspec

from benchmarks.streams import DIALECTS


class _Delta(msgspec.Struct, gc=False):
    type: str = ""
    text: str = ""
    thinking: str = ""
    partial_json: str = ""
    signature: str = ""
    stop_reason: str | None = None


class _Block(msgspec.Struct, gc=False):
    type: str = ""
    id: str = ""
    name: str = ""


class _Message(msgspec.Struct, gc=False):
    model: str = ""
    usage: dict[str, object] | None = None


class _Anthropic(msgspec.Struct, gc=False):
    type: str = ""
    index: int = 0
    delta: _Delta | None = None
    content_block: _Block | None = None
    message: _Message | None = None
    usage: dict[str, object] | None = None
    error: dict[str, object] | None = None


class _Function(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: str | None = None


class _Call(msgspec.Struct, gc=False):
    index: int = 0
    id: str | None = None
    function: _Function | None = None


class _ChatDelta(msgspec.Struct, gc=False):
    content: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[_Call] | None = None


class _Choice(msgspec.Struct, gc=False):
    delta: _ChatDelta | None = None
    finish_reason: str | None = None


class _Chat(msgspec.Struct, gc=False):
    model: str = ""
    choices: list[_Choice] = msgspec.field(default_factory=list)
    usage: dict[str, object] | None = None
    error: object = None


class _Item(msgspec.Struct, gc=False):
    type: str = ""
    call_id: str = ""
    name: str = ""


class _Responses(msgspec.Struct, gc=False):
    type: str = ""
    output_index: int = 0
    delta: object = None
    item: _Item | None = None
    response: _Message | None = None


class _GoogleCall(msgspec.Struct, gc=False):
    name: str = ""
    args: msgspec.Raw = msgspec.Raw(b"{}")


class _Part(msgspec.Struct, gc=False, rename="camel"):
    text: str | None = None
    thought: bool = False
    function_call: _GoogleCall | None = None
    thought_signature: str | None = None


class _Content(msgspec.Struct, gc=False):
    parts: list[_Part] = msgspec.field(default_factory=list)


class _Candidate(msgspec.Struct, gc=False, rename="camel"):
    content: _Content | None = None
    finish_reason: str | None = None


class _Google(msgspec.Struct, gc=False, rename="camel"):
    candidates: list[_Candidate] = msgspec.field(default_factory=list)
    usage_metadata: dict[str, object] | None = None
    model_version: str = ""


_TYPES = (_Chat, _Responses, _Anthropic, _Google)
_DECODERS = {
    name: msgspec.json.Decoder(type_).decode for name, type_ in zip(DIALECTS, _TYPES, strict=True)
}


def read(dialect: str, body: bytes) -> int:
    """Reads a whole body and returns how many events it held."""
    decode, count = _DECODERS[dialect], 0
    if dialect == "google":
        body = body.replace(b"\r\n", b"\n")
    for block in body.split(b"\n\n"):
        data = data_of(block)
        if data and data != b"[DONE]":
            decode(data)
            count += 1
    return count


def data_of(block: bytes) -> bytes:
    """The data of a block: the two shapes that providers send, then the general way."""
    if block[:6] == b"data: ":
        if b"\n" not in block:
            return block[6:]
    elif block[:7] == b"event: ":
        at = block.find(b"\ndata: ")
        if at > 0 and block.find(b"\n", at + 7) < 0:
            return block[at + 7 :]
    lines = []
    for line in block.split(b"\n"):
        name, _, value = line.partition(b":")
        if name == b"data":
            lines.append(value.removeprefix(b" "))
    return b"\n".join(lines)
