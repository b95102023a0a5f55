"""What Google's door refuses, and in which words."""

from typing import Any

import msgspec
import pytest

from ops.rehearsal.judges.google import GoogleJudge
from ops.rehearsal.signatures import sign
from ops.rehearsal.values import Ask, Facts, Fault

JUDGE = GoogleJudge()
MODEL = "gemini-3-pro"
CALL = {"functionCall": {"name": "roll", "args": {}, "id": "c1"}}
SIGNED = {**CALL, "thoughtSignature": sign("google", MODEL, "roll")}
ANSWER = {"functionResponse": {"name": "roll", "response": {"output": "6"}, "id": "c1"}}


def user(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "parts": list(parts)}


def model(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": "model", "parts": list(parts)}


def text(value: str, **more: Any) -> dict[str, Any]:
    return {"text": value, **more}


HI = user(text("hi"))


def read(*contents: dict[str, Any], name: str = MODEL, **more: Any) -> Ask | Fault:
    body = {"contents": list(contents) or [HI], **more}
    return JUDGE.read(body, Facts(headers={}, model=name))


REFUSED: list[tuple[str, list[dict[str, Any]], dict[str, Any]]] = [
    ("unknown field", [], {"messages": []}),
    ("of length >= 1", [user()], {}),
    ("of length <= 5", [], {"generationConfig": {"stopSequences": list("abcdef")}}),
    (
        "matching regex",
        [],
        {"tools": [{"functionDeclarations": [{"name": "1", "description": ""}]}]},
    ),
    ("required oneof field 'data'", [user({})], {}),
    ("required oneof field 'data'", [user(text(""))], {}),
    ("required oneof field 'data'", [user({**text("a"), **ANSWER})], {}),
    ("beginning with a user turn", [model(text("a")), HI], {}),
    ("end with a user turn", [HI, model(text("a"))], {}),
    ("must be in a model turn", [user(CALL)], {}),
    ("must be in a user turn", [HI, model(ANSWER), HI], {}),
    ("number of function response parts", [HI, model(SIGNED), HI], {}),
    ("number of function response parts", [HI, model(text("a")), user(ANSWER)], {}),
    ("cannot be mixed", [HI, model(SIGNED), user(ANSWER, text("a"))], {}),
    (
        "'roll' was called, 'look_up' answered",
        [
            HI,
            model(SIGNED),
            user({"functionResponse": {**ANSWER["functionResponse"], "name": "look_up"}}),
        ],
        {},
    ),
    ("missing a thought_signature", [HI, model(CALL), user(ANSWER)], {}),
    ("Base64 decoding failed", [HI, model({**CALL, "thoughtSignature": "?"}), user(ANSWER)], {}),
    (
        "Corrupted thought signature",
        [HI, model({**CALL, "thoughtSignature": "U0lH"}), user(ANSWER)],
        {},
    ),
]


@pytest.mark.parametrize(("words", "contents", "more"), REFUSED)
def test_it_refuses(words: str, contents: list[dict[str, Any]], more: dict[str, Any]):
    fault = read(*contents, **more)
    assert isinstance(fault, Fault)
    assert words in fault.message
    error = msgspec.json.decode(JUDGE.error_body(fault))["error"]
    assert (error["code"], error["status"]) == (400, "INVALID_ARGUMENT")


@pytest.mark.parametrize(
    ("contents", "name"),
    [
        ([HI, model(SIGNED, CALL), user(ANSWER, ANSWER)], MODEL),
        (
            [
                HI,
                model({**CALL, "thoughtSignature": "skip_thought_signature_validator"}),
                user(ANSWER),
            ],
            MODEL,
        ),
        ([HI, model(CALL), user(ANSWER)], "gemini-2.5-flash"),
        ([HI, model(CALL), user(ANSWER), model(text("a")), HI], MODEL),
        ([HI, model(text("", thoughtSignature=sign("google", MODEL, ""))), HI], MODEL),
    ],
    ids=["signed", "mark of google's", "older model", "older turn", "signed empty text"],
)
def test_it_accepts(contents: list[dict[str, Any]], name: str):
    assert isinstance(read(*contents, name=name), Ask)


def test_it_tells_what_was_asked():
    ask = read(
        HI,
        model(SIGNED),
        user(ANSWER),
        systemInstruction={"parts": [text("Be kind.")]},
        tools=[{"functionDeclarations": [{"name": "roll", "description": ""}]}],
        generationConfig={"thinkingConfig": {"includeThoughts": True}},
    )
    assert isinstance(ask, Ask)
    assert (ask.model, ask.prompt, ask.tool_results) == (MODEL, "hi", ("6",))
    assert ask.tools == ("roll",)
    assert ask.wants_thinking


@pytest.mark.parametrize(
    ("facts", "key"),
    [
        (Facts(headers={"x-goog-api-key": "k"}), "k"),
        (Facts(headers={}, query={"key": "k"}), "k"),
        (Facts(headers={}), None),
    ],
)
def test_the_key_stands_in_a_header_or_in_the_query(facts: Facts, key: str | None):
    assert JUDGE.key(facts) == key
