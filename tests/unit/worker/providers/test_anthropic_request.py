"""Messages as they are sent to Anthropic."""

from typing import Any

import pytest

from shared.messages import (
    ImageBlock,
    Message,
    OpaqueBlock,
    Role,
    TextBlock,
    ThinkingBlock,
)
from shared.turns import Sampling
from tests.support.asked import TOOL, asked, body_of, built, call, result, said, user
from worker.providers.anthropic_request import is_adaptive
from worker.providers.bodies import GO_ON, PLACEHOLDER
from worker.providers.requests import Endpoint

BY = ("anthropic", "claude-haiku-4-5")
MARK = {"type": "ephemeral"}
SIGNED = ThinkingBlock(thinking="hm", thinking_signature="U0lH")


def body(*messages: Message, model: str = "claude-haiku-4-5", **more: Any) -> Any:
    return body_of(asked("anthropic", model, *messages, **more))


def messages_of(*messages: Message, **more: Any) -> Any:
    """The messages, without cache breakpoints."""
    built = body(*messages, **more)["messages"]
    for message in built:
        for block in message["content"]:
            block.pop("cache_control", None)
    return built


def text(value: str) -> dict[str, str]:
    return {"type": "text", "text": value}


def test_a_plain_request_is_whole():
    assert body(system="Be kind.", tools=(TOOL,)) == {
        "model": "claude-haiku-4-5",
        "tools": [
            {
                "name": "roll",
                "description": "Rolls dice.",
                "input_schema": {"type": "object", "properties": {"n": {}}},
            }
        ],
        "system": [{**text("Be kind."), "cache_control": MARK}],
        "messages": [{"role": "user", "content": [{**text("hi"), "cache_control": MARK}]}],
        "stream": True,
        "max_tokens": 2048,
    }


@pytest.mark.parametrize(
    "base_url",
    ["https://api.anthropic.com", "https://proxy.example/v1", "https://proxy.example/v1/"],
)
def test_the_version_stands_once_in_the_url(base_url: str):
    request = built(asked("anthropic", "claude-haiku-4-5"), Endpoint(base_url=base_url))
    assert request.url.count("/v1/messages") == 1
    headers = dict(request.headers)
    assert headers["anthropic-version"] == "2023-06-01"
    assert "x-api-key" not in headers


def test_the_key_has_its_own_header():
    assert dict(built(asked("anthropic", "claude-haiku-4-5")).headers)["x-api-key"] == "sk-test"


class TestCacheMarks:
    def test_without_instructions_the_last_tool_is_marked(self):
        assert body(tools=(TOOL,))["tools"][-1]["cache_control"] == MARK

    def test_the_last_two_user_messages_are_marked(self):
        sent = body(user("a"), said("b"), user("c"), said("d"), user("e"))["messages"]
        marked = [message["content"][-1].get("cache_control") for message in sent]
        assert marked == [None, None, MARK, None, MARK]

    def test_never_more_than_four(self):
        sent = body(user("a"), said("b"), user("c"), system="Be kind.", tools=(TOOL,))
        assert str(sent).count("cache_control") == 3


class TestSampling:
    def test_temperature_ends_at_one_and_wins_over_top_p(self):
        sent = body(sampling=Sampling(temperature=1.7, top_p=0.9))
        assert sent["temperature"] == 1.0
        assert "top_p" not in sent

    def test_top_p_alone_is_sent(self):
        assert body(sampling=Sampling(top_p=0.9))["top_p"] == 0.9

    def test_blank_stops_are_left_out(self):
        assert body(sampling=Sampling(stop=("\n", "END")))["stop_sequences"] == ["END"]
        assert "stop_sequences" not in body(sampling=Sampling(stop=("\n",)))

    def test_what_was_refused_before_is_left_out(self):
        sampling = Sampling(temperature=0.5)
        assert "temperature" not in body(sampling=sampling, without=frozenset({"temperature"}))


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("claude-3-7-sonnet-20250219", False),
        ("claude-sonnet-4-20250514", False),
        ("claude-opus-4-1-20250805", False),
        ("claude-sonnet-4-5", False),
        ("us.anthropic.claude-haiku-4-5-20251001-v1:0", False),
        ("claude-opus-4-6", True),
        ("claude-opus-4-8", True),
        ("claude-sonnet-5", True),
        ("claude-fable-5-2", True),
        ("glm-4.6", False),
    ],
)
def test_claude_since_4_6_is_adaptive(model: str, expected: bool):
    assert is_adaptive(model) is expected


class TestThinking:
    def test_a_budget_comes_on_top_of_the_answer(self):
        sent = body(sampling=Sampling(max_tokens=500, thinking="medium", temperature=0.5))
        assert sent["thinking"] == {"type": "enabled", "budget_tokens": 4096}
        assert sent["max_tokens"] == 4596
        assert "temperature" not in sent

    def test_the_newest_models_think_by_effort(self):
        sent = body(model="claude-opus-4-7", sampling=Sampling(thinking="low", temperature=0.5))
        assert sent["thinking"] == {"type": "adaptive"}
        assert sent["output_config"] == {"effort": "low"}
        assert sent["max_tokens"] == 2048 + 1024
        assert "temperature" not in sent

    @pytest.mark.parametrize("thinking", [None, "off"])
    def test_without_an_effort_nothing_is_said(self, thinking: str | None):
        assert "thinking" not in body(sampling=Sampling(thinking=thinking))

    def test_a_history_without_a_user_has_no_round(self):
        assert "thinking" in body(said("a"), sampling=Sampling(thinking="low"))

    def test_it_goes_back_signed(self):
        redacted = ThinkingBlock(thinking="", thinking_signature="RU5D", redacted=True)
        sent = messages_of(user("q"), said(SIGNED, redacted, "a", by=BY), user("r"))
        assert sent[1]["content"] == [
            {"type": "thinking", "thinking": "hm", "signature": "U0lH"},
            {"type": "redacted_thinking", "data": "RU5D"},
            text("a"),
        ]

    def test_a_round_that_another_model_began_ends_without_it(self):
        history = [user("q"), said(call()), result("c1", "6")]
        assert "thinking" not in body(*history, sampling=Sampling(thinking="low"))
        history = [user("q"), said(SIGNED, call(), by=BY), result("c1", "6")]
        assert "thinking" in body(*history, sampling=Sampling(thinking="low"))
        # Words behind a result are part of the same user message: the round still runs.
        history = [user("q"), said(call()), result("c1", "6"), user("and?")]
        assert "thinking" not in body(*history, sampling=Sampling(thinking="low"))
        history = [user("q"), said(call()), result("c1", "6"), said("a"), user("and?")]
        assert "thinking" in body(*history, sampling=Sampling(thinking="low"))


class TestMessages:
    def test_results_come_first_in_the_next_user_message(self):
        history = [
            user("q"),
            said("I roll.", call("c1", n=6), call("c2")),
            result("c1", "6"),
            result("c2", is_error=True),
            user("and?"),
        ]
        sent = messages_of(*history)
        assert sent[1]["content"] == [
            text("I roll."),
            {"type": "tool_use", "id": "c1", "name": "roll", "input": {"n": 6}},
            {"type": "tool_use", "id": "c2", "name": "roll", "input": {}},
        ]
        assert sent[2]["content"] == [
            {"type": "tool_result", "tool_use_id": "c1", "content": [text("6")]},
            {"type": "tool_result", "tool_use_id": "c2", "is_error": True},
            text("and?"),
        ]

    def test_calls_stand_behind_the_texts_of_their_segment(self):
        own = OpaqueBlock(provider="anthropic", raw={"type": "server_tool_use"})
        history = [user("q"), said(call("c1"), "a", own, call("c2"), "b", by=BY)]
        sent = messages_of(*history, result("c1"), result("c2"))
        kinds = [block["type"] for block in sent[1]["content"]]
        assert kinds == ["text", "tool_use", "server_tool_use", "text", "tool_use"]

    def test_own_blocks_that_are_no_objects_are_left_out(self):
        own = OpaqueBlock(provider="anthropic", raw="?")
        assert messages_of(user("q"), said(own, by=BY), user("r")) == [
            {"role": "user", "content": [text("q"), text("r")]}
        ]

    def test_images_are_bytes_or_addresses(self):
        images = [
            ImageBlock(mime_type="image/png", data="AAAA"),
            ImageBlock(mime_type="image/png", url="https://cdn.example/a.png"),
        ]
        (message,) = messages_of(user(*images))
        assert message["content"] == [
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"},
            },
            {"type": "image", "source": {"type": "url", "url": "https://cdn.example/a.png"}},
        ]

    def test_citations_go_back(self):
        cited = TextBlock(text="a", citations=[{"type": "char_location"}])
        sent = messages_of(user("q"), said(cited, by=BY), user("r"))
        assert sent[1]["content"][0]["citations"] == [{"type": "char_location"}]

    def test_a_blank_text_is_left_out_whoever_signed_it(self):
        blank = TextBlock(text=" ", text_signature="U0lH")
        sent = messages_of(user("q"), said(blank, "a", by=BY), user("r"))
        assert sent[1]["content"] == [text("a")]

    def test_instructions_in_mid_history_are_the_users_words(self):
        mid = Message(role=Role.SYSTEM, content="Now in French.")
        assert messages_of(user("q"), mid)[0]["content"] == [text("q"), text("Now in French.")]

    def test_a_conversation_begins_with_the_user(self):
        sent = messages_of(said("a"), user("b"))
        assert sent[0] == {"role": "user", "content": [text(PLACEHOLDER)]}

    def test_an_empty_history_still_says_something(self):
        assert messages_of(user(" ")) == [{"role": "user", "content": [text(PLACEHOLDER)]}]


class TestPrefill:
    def test_it_has_no_trailing_white_space(self):
        assert messages_of(user("q"), said("Dear \n"))[-1]["content"] == [text("Dear")]

    def test_it_may_be_a_block_without_text(self):
        own = OpaqueBlock(provider="anthropic", raw={"type": "server_tool_use"})
        sent = messages_of(user("q"), said(own, by=BY))
        assert sent[-1]["content"] == [{"type": "server_tool_use"}]

    def test_the_newest_models_are_asked_to_go_on(self):
        sent = messages_of(user("q"), said("Dear"), model="claude-opus-4-7")
        assert sent[-1] == {"role": "user", "content": [text(GO_ON)]}

    def test_a_paused_turn_is_sent_back_as_it_is(self):
        own = OpaqueBlock(provider="anthropic", raw={"type": "server_tool_use"})
        paused = Message(
            role=Role.ASSISTANT,
            content=[own],
            provider="anthropic",
            model="claude-opus-4-7",
            stop_reason="pause",
        )
        sent = messages_of(user("q"), paused, model="claude-opus-4-7")
        assert sent[-1]["content"] == [{"type": "server_tool_use"}]

    def test_thinking_models_are_asked_to_go_on(self):
        sent = messages_of(user("q"), said("Dear"), sampling=Sampling(thinking="low"))
        assert sent[-1]["role"] == "user"
