"""Pictures that a model made: read, bounded, and shown below its text."""

import base64
import json
from collections.abc import Mapping

import pytest

from shared.messages import ContentBlock, OpaqueBlock, TextBlock
from shared.recording import MAX_RECORDING_BYTES
from shared.segments import SegmentKind, TurnDone
from shared.turns import Api, StopReason, Target, TurnState
from tests.support.tool_case import ToolCase
from tests.support.turn_ports import BREAK, ScriptedResponse
from worker.edges.http import MAX_BODY_BYTES
from worker.normalize.sse import MAX_LINE_BYTES, MAX_RESPONSE_BYTES
from worker.turn.pictures import MAX_PICTURE_BYTES, MAX_PICTURES, pictures_of

PNG = b"\x89PNG\r\n\x1a\n" + bytes(40)
JPG = b"\xff\xd8\xff\xe0" + bytes(40)
LONG_TEXT_BYTES = 100_000 * 300
"""Tokens that a model can give, in the envelope that each has."""
WEBP = b"RIFF\x04\x00\x00\x00WEBPVP8 "


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def inline(data: str, mime: str = "image/png") -> OpaqueBlock:
    return OpaqueBlock(provider="google", raw={"inlineData": {"mimeType": mime, "data": data}})


def generated(data: object) -> OpaqueBlock:
    raw = {"type": "image_generation_call", "status": "completed", "result": data}
    return OpaqueBlock(provider="openai", raw=raw)


def routed(url: str) -> OpaqueBlock:
    return OpaqueBlock(provider="openrouter", raw={"type": "image_url", "image_url": {"url": url}})


READ = {
    "an image of OpenRouter": (
        [routed(f"data:image/png;base64,{encoded(PNG)}")],
        ["picture-1.png"],
    ),
    "an address that is not to be followed": ([routed("https://host.example/cat.png")], []),
    "data that is no image": ([routed(f"data:text/html;base64,{encoded(PNG)}")], []),
    "inline data of Google": ([inline(encoded(PNG))], ["picture-1.png"]),
    "a generation of OpenAI": ([generated(encoded(WEBP))], ["picture-1.webp"]),
    "several in order": (
        [TextBlock(text="a"), inline(encoded(JPG)), generated(encoded(PNG))],
        ["picture-1.jpg", "picture-2.png"],
    ),
    "the same twice": ([inline(encoded(PNG)), inline(encoded(PNG))], ["picture-1.png"]),
    "a program under a picture's name": ([inline(encoded(b"MZ" + bytes(60)))], []),
    "no base64": ([inline("\x00!")], []),
    "cut base64": ([inline(encoded(PNG)[:-3])], []),
    "nothing yet": ([generated(None)], []),
    "another block of the vendor": (
        [OpaqueBlock(provider="google", raw={"executableCode": 1})],
        [],
    ),
    "no object at all": ([OpaqueBlock(provider="google", raw=[1])], []),
    "as large as a line holds": (
        [inline(encoded(PNG.ljust(MAX_PICTURE_BYTES, b"\0")))],
        ["picture-1.png"],
    ),
    "too large": ([inline(encoded(PNG.ljust(MAX_PICTURE_BYTES + 1, b"\0")))], []),
}


@pytest.mark.parametrize(("content", "names"), READ.values(), ids=READ)
def test_what_is_a_picture(content: list[ContentBlock], names: list[str]):
    assert [picture.name for picture in pictures_of(content)] == names


def test_only_some_pictures_of_an_answer_are_shown():
    content = [inline(encoded(PNG + bytes([n]))) for n in range(MAX_PICTURES + 2)]
    assert len(pictures_of(content[:MAX_PICTURES])) == MAX_PICTURES
    assert pictures_of(content) == pictures_of(content[:MAX_PICTURES])


def test_what_the_limits_let_through_fits_into_the_next_one():
    """A picture into a line, four of them and a long text into a body, and that into the rooms."""
    assert len(encoded(bytes(MAX_PICTURE_BYTES))) == MAX_LINE_BYTES
    assert MAX_PICTURES * MAX_LINE_BYTES <= MAX_RESPONSE_BYTES - LONG_TEXT_BYTES
    assert MAX_BODY_BYTES == MAX_RESPONSE_BYTES
    assert MAX_PICTURE_BYTES < 10 * 1024 * 1024 - 64 * 1024  # Discord's request, with its JSON
    assert MAX_RECORDING_BYTES < MAX_PICTURE_BYTES  # a recording leaves out what is in the middle


def google(*parts: Mapping[str, object], finish: str | None = "STOP") -> ScriptedResponse:
    candidate: dict[str, object] = {"index": 0, "content": {"parts": list(parts)}}
    if finish is not None:
        candidate["finishReason"] = finish
    body = json.dumps({"candidates": [candidate]})
    return ScriptedResponse([f"data: {body}\r\n\r\n".encode()])


CAT = {"inlineData": {"mimeType": "image/png", "data": encoded(PNG)}}
GOOGLE = Target(provider="google", model="gemini-image")


async def test_a_picture_follows_the_text_and_is_kept_before_it_is_sent():
    case = ToolCase(google({"text": "Here is your cat:"}, CAT), target=GOOGLE)
    await case.run()
    said, picture = case.outbox.segments
    assert said.text == "Here is your cat:"
    assert (picture.kind, picture.text, picture.filename) == (
        SegmentKind.FILE,
        "",
        "picture-1.png",
    )
    assert picture.fallback == ("reply.picture:en",)
    assert (picture.seq, picture.start, picture.end) == (2, said.end, said.end)
    assert case.outbox.pictures == {picture.picture: PNG}
    assert case.end == TurnDone(count=2, stop_reason=StopReason.STOP)


async def test_a_picture_alone_is_a_reply():
    case = ToolCase(google(CAT), target=GOOGLE)
    outcome = await case.run()
    assert (outcome.state, outcome.segments) == (TurnState.DONE, 1)
    assert case.reporter.reports == []


async def test_a_picture_that_cannot_be_kept_is_told_of():
    case = ToolCase(google({"text": "Here:"}, CAT), target=GOOGLE)
    case.outbox.refuses_pictures = True
    await case.run()
    assert case.outbox.texts == ["Here:", "reply.picture:en"]
    assert case.outbox.segments[1].kind is SegmentKind.TEXT
    assert case.outbox.segments[1].picture is None


async def test_a_picture_of_a_completed_round_is_shown_again_by_the_next_attempt():
    call = {"functionCall": {"name": "echo", "args": {"text": "x"}}}
    broken = ScriptedResponse([BREAK])
    case = ToolCase(
        google({"text": "Look:"}, CAT, call),
        broken,
        google({"text": "Done."}),
        target=GOOGLE,
    )
    await case.run()
    assert len(case.tools.ran) == 1
    assert [(one.text, one.picture is not None) for one in case.outbox.segments] == [
        ("Look:", False),
        ("", True),
        ("Done.", False),
    ]
    assert {one.attempt for one in case.outbox.segments} == {2}


async def test_a_picture_of_a_blocked_answer_is_not_shown():
    case = ToolCase(google(CAT, finish="IMAGE_SAFETY"), target=GOOGLE)
    await case.run()
    assert case.outbox.segments == []
    assert case.outbox.pictures == {}


async def test_a_generated_picture_of_the_responses_api():
    item = {
        "type": "image_generation_call",
        "id": "ig_1",
        "status": "completed",
        "result": encoded(PNG),
    }
    events = [
        {"type": "response.created", "response": {"id": "r", "model": "gpt"}},
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "result": None}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {
            "type": "response.completed",
            "response": {"id": "r", "status": "completed", "output": [item], "usage": {}},
        },
    ]
    steps = [f"data: {json.dumps(event)}\n\n".encode() for event in events]
    target = Target(api=Api.OPENAI_RESPONSES, provider="openai", model="gpt")
    case = ToolCase(ScriptedResponse(steps), target=target)
    await case.run()
    (picture,) = case.outbox.segments
    assert picture.picture in case.outbox.pictures
