"""Requests as they are sent to OpenAI's Responses API."""

from typing import Any

import pytest

from shared.messages import ImageBlock, Message, OpaqueBlock, Role, TextBlock, ThinkingBlock
from shared.turns import Api, Sampling
from tests.support.asked import TOOL, asked, body_of, built, call, result, said, user
from worker.providers.bodies import PLACEHOLDER

BY = ("openai", "gpt-5")
SIGNED = ThinkingBlock(thinking="hm", thinking_signature='{"id":"rs_1","encrypted_content":"RU5D"}')
REASONING = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "hm"}],
    "encrypted_content": "RU5D",
}
IMAGE = ImageBlock(mime_type="image/png", data="AAAA")


def body(*messages: Message, model: str = "gpt-5", **more: Any) -> Any:
    return body_of(asked("openai", model, *messages, api=Api.OPENAI_RESPONSES, **more))


def items(*messages: Message, **more: Any) -> Any:
    return body(*messages, **more)["input"]


def test_a_plain_request_is_whole():
    assert body(system="Be kind.", tools=(TOOL,), conversation="c-1") == {
        "model": "gpt-5",
        "tools": [
            {
                "type": "function",
                "name": "roll",
                "description": "Rolls dice.",
                "parameters": {"type": "object", "properties": {"n": {}}},
                "strict": False,
            }
        ],
        "instructions": "Be kind.",
        "input": [{"role": "user", "content": [{"type": "input_text", "text": "hi"}]}],
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "max_output_tokens": 2048,
        "prompt_cache_key": "c-1",
    }


def test_the_path_and_the_key():
    request = built(asked("openai", "gpt-5", api=Api.OPENAI_RESPONSES))
    assert request.url == "https://provider.example/v1/responses"
    assert dict(request.headers)["authorization"] == "Bearer sk-test"


def test_the_least_output_is_the_apis():
    assert body(sampling=Sampling(max_tokens=1))["max_output_tokens"] == 16


@pytest.mark.parametrize(
    ("model", "thinking", "reasoning"),
    [
        ("gpt-5", "high", {"effort": "high", "summary": "auto"}),
        ("gpt-5", "off", {"effort": "minimal", "summary": "auto"}),
        ("gpt-4.1", "off", None),
        ("gpt-5", None, None),
    ],
)
def test_reasoning_is_asked_for(model: str, thinking: str | None, reasoning: object):
    sent = body(model=model, sampling=Sampling(thinking=thinking))
    assert sent.get("reasoning") == reasoning


def test_sampling_is_for_models_that_do_not_reason():
    sampling = Sampling(temperature=0.5)
    assert body(model="gpt-4.1", sampling=sampling)["temperature"] == 0.5
    assert "temperature" not in body(model="gpt-5", sampling=sampling)


def test_what_was_refused_before_is_left_out():
    assert "include" not in body(without=frozenset({"include"}))


def test_a_round_goes_back_item_by_item():
    history = [
        user("q", IMAGE),
        said(
            SIGNED,
            TextBlock(text="I roll.", item_id="msg_1", phase="commentary"),
            call("c1", n=6),
            by=BY,
        ),
        result("c1", "6"),
    ]
    sent = items(*history)
    assert sent[0]["content"][1] == {
        "type": "input_image",
        "image_url": "data:image/png;base64,AAAA",
        "detail": "auto",
    }
    assert sent[1:] == [
        REASONING,
        {
            "type": "message",
            "role": "assistant",
            "id": "msg_1",
            "status": "completed",
            "content": [{"type": "output_text", "text": "I roll.", "annotations": []}],
            "phase": "commentary",
        },
        {"type": "function_call", "call_id": "c1", "name": "roll", "arguments": '{"n":6}'},
        {"type": "function_call_output", "call_id": "c1", "output": "6"},
    ]


def test_texts_of_other_models_are_the_short_form():
    assert items(user("q"), said("a"), user("r"))[1] == {"role": "assistant", "content": "a"}


def test_a_text_without_a_phase_has_none():
    block = TextBlock(text="a", item_id="msg_1")
    assert "phase" not in items(user("q"), said(block, by=BY), user("r"))[1]


@pytest.mark.parametrize(("item_id", "sent_id"), [("fc_1", "fc_1"), ("other", None), (None, None)])
def test_ids_of_call_items_go_back_where_they_are_legal(item_id: str | None, sent_id: str | None):
    block = call("c1")
    block = type(block)(id="c1", name="roll", arguments={}, item_id=item_id)
    sent = items(user("q"), said(block, by=BY), result("c1", "6"))
    assert sent[1].get("id") == sent_id


def test_results_with_images_are_parts():
    sent = items(user("q"), said(call()), result("c1", "see", IMAGE))
    assert [part["type"] for part in sent[-1]["output"]] == ["input_text", "input_image"]


def test_instructions_in_mid_history_are_the_developers():
    mid = Message(role=Role.SYSTEM, content="Now in French.")
    assert items(user("q"), mid)[1] == {"role": "developer", "content": "Now in French."}


def test_own_items_go_back_as_they_came():
    raw = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    own = OpaqueBlock(provider="openai", raw=raw)
    broken = OpaqueBlock(provider="openai", raw="?")
    assert items(user("q"), said(own, broken, by=BY), user("r"))[1] == raw


def test_reasoning_without_what_it_led_to_is_left_out():
    assert len(items(user("q"), said("a", SIGNED, by=BY), user("r"))) == 3


@pytest.mark.parametrize(
    "signature", ["U0lH", '{"id":"rs_1"}', None], ids=["plain", "half", "none"]
)
def test_reasoning_that_came_another_way_is_left_out(signature: str | None):
    block = ThinkingBlock(thinking="hm", thinking_signature=signature)
    sent = items(user("q"), said(block, "a", by=BY), user("r"))
    assert [item.get("type") for item in sent] == [None, None, None]


def test_reasoning_that_shows_nothing_has_no_summary():
    block = ThinkingBlock(thinking="", thinking_signature=SIGNED.thinking_signature)
    assert items(user("q"), said(block, "a", by=BY), user("r"))[1]["summary"] == []


def test_an_empty_history_still_says_something():
    assert items(user(" ")) == [{"role": "user", "content": PLACEHOLDER}]
