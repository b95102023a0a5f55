"""Chat completions as they are sent to each vendor."""

from typing import Any

import pytest

from shared.messages import ImageBlock, Message, OpaqueBlock, Role, TextBlock, ThinkingBlock
from shared.turns import Sampling
from tests.support.asked import TOOL, asked, body_of, built, call, result, said, user
from worker.providers.bodies import GO_ON, PLACEHOLDER
from worker.providers.openai_chat_request import BRIDGE, DUMMY_TOOL, IMAGES_NOTE, NO_OUTPUT
from worker.providers.requests import Endpoint

IMAGE = ImageBlock(mime_type="image/png", data="AAAA")
IMAGE_PART = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


def messages_of(*args: Any, **more: Any) -> Any:
    return body_of(asked(*args, **more))["messages"]


def test_a_plain_request_is_whole():
    request = built(asked("groq", "llama", system="Be kind.", tools=(TOOL,)))
    assert request.method == "POST"
    assert request.url == "https://provider.example/v1/chat/completions"
    assert dict(request.headers) == {
        "content-type": "application/json",
        "accept": "text/event-stream",
        "authorization": "Bearer sk-test",
    }
    assert body_of(asked("groq", "llama", system="Be kind.", tools=(TOOL,))) == {
        "model": "llama",
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "roll",
                    "description": "Rolls dice.",
                    "parameters": {"type": "object", "properties": {"n": {}}},
                },
            }
        ],
        "messages": [
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": "hi"},
        ],
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_completion_tokens": 2048,
    }


def test_the_key_is_not_in_the_repr():
    assert "sk-test" not in repr(built(asked("openai", "gpt-x")))


def test_azure_has_a_header_of_its_own():
    headers = dict(built(asked("azure", "gpt-x")).headers)
    assert headers["api-key"] == "sk-test"
    assert "authorization" not in headers


def test_a_server_without_a_key_gets_none():
    endpoint = Endpoint(base_url="http://127.0.0.1:8080/v1/")
    request = built(asked("my-box", "local"), endpoint)
    assert request.url == "http://127.0.0.1:8080/v1/chat/completions"
    assert "authorization" not in dict(request.headers)


class TestSampling:
    def test_settings_are_sent(self):
        sampling = Sampling(temperature=0.5, top_p=0.9, stop=("END",), max_tokens=7)
        body = body_of(asked("my-box", "local", sampling=sampling))
        assert (body["temperature"], body["top_p"], body["stop"]) == (0.5, 0.9, ["END"])
        assert body["max_tokens"] == 7

    def test_openais_reasoning_models_take_none(self):
        sampling = Sampling(temperature=0.5, top_p=0.9, stop=("END",))
        body = body_of(asked("openai", "gpt-5", sampling=sampling))
        assert not {"temperature", "top_p", "stop"} & body.keys()

    def test_deepseek_takes_none_while_it_thinks(self):
        sampling = Sampling(temperature=0.5, thinking="high")
        assert "temperature" not in body_of(asked("deepseek", "d", sampling=sampling))
        sampling = Sampling(temperature=0.5, thinking="off")
        assert body_of(asked("deepseek", "d", sampling=sampling))["temperature"] == 0.5

    def test_stops_beyond_the_vendors_number_are_left_out(self):
        body = body_of(asked("zai", "glm", sampling=Sampling(stop=("a", "b"))))
        assert body["stop"] == ["a"]

    @pytest.mark.parametrize(
        ("provider", "model", "thinking", "sent"),
        [
            ("openai", "gpt-5.1", "off", {"reasoning_effort": "none"}),
            ("openai", "gpt-5-mini", "off", {"reasoning_effort": "minimal"}),
            ("openai", "o3", "off", {"reasoning_effort": "low"}),
            ("openai", "gpt-4.1", "off", {}),
            ("groq", "openai/gpt-oss-20b", "off", {"reasoning_effort": "low"}),
            ("groq", "qwen3", "off", {"reasoning_effort": "none"}),
            ("xai", "grok", "high", {"reasoning_effort": "high"}),
            ("deepseek", "d", "low", {"thinking": {"type": "enabled"}}),
            ("zai", "glm", "off", {"thinking": {"type": "disabled"}}),
            ("qwen", "q", "off", {"enable_thinking": False}),
            ("vllm", "q", "low", {"chat_template_kwargs": {"enable_thinking": True}}),
            ("openrouter", "x/y", "medium", {"reasoning": {"effort": "medium"}}),
            ("openrouter", "x/y", "off", {"reasoning": {"enabled": False}}),
            ("mistral", "m", "high", {}),
            ("openai", "gpt-5", None, {}),
        ],
    )
    def test_reasoning_is_asked_for_in_the_vendors_words(
        self, provider: str, model: str, thinking: str | None, sent: dict[str, object]
    ):
        body = body_of(asked(provider, model, sampling=Sampling(thinking=thinking)))
        words = {"reasoning_effort", "thinking", "enable_thinking", "chat_template_kwargs"}
        assert {k: v for k, v in body.items() if k in words | {"reasoning"}} == sent

    def test_what_was_refused_before_is_left_out(self):
        sampling = Sampling(temperature=0.5)
        without = frozenset({"temperature", "stream_options"})
        body = body_of(asked("my-box", "local", sampling=sampling, without=without))
        assert not without & body.keys()

    def test_the_conversation_names_openais_cache(self):
        assert body_of(asked("openai", "gpt-x", conversation="c-1"))["prompt_cache_key"] == "c-1"
        assert "prompt_cache_key" not in body_of(asked("groq", "llama", conversation="c-1"))


class TestMessages:
    def test_reasoning_models_of_openai_are_developed(self):
        assert messages_of("openai", "gpt-5", system="Be kind.")[0]["role"] == "developer"
        assert messages_of("xai", "gpt-5", system="Be kind.")[0]["role"] == "system"

    def test_instructions_at_the_front_are_one_message(self):
        front = Message(role=Role.SYSTEM, content="And brief.")
        messages = messages_of("groq", "llama", front, user("hi"), system="Be kind.")
        assert messages[0] == {"role": "system", "content": "Be kind.\n\nAnd brief."}

    def test_instructions_in_mid_history_stay_where_they_are(self):
        mid = Message(role=Role.DEVELOPER, content="Now in French.")
        assert messages_of("groq", "llama", user("hi"), mid)[1]["role"] == "system"
        assert messages_of("mistral", "m", user("hi"), mid)[1]["role"] == "user"

    def test_an_empty_history_still_says_something(self):
        message = Message(role=Role.USER, content=" ")
        assert messages_of("groq", "llama", message) == [{"role": "user", "content": PLACEHOLDER}]

    def test_images_make_a_list_of_parts(self):
        url = ImageBlock(mime_type="image/png", url="https://cdn.example/a.png")
        (message,) = messages_of("groq", "llama", user("look", IMAGE, url))
        assert message["content"] == [
            {"type": "text", "text": "look"},
            IMAGE_PART,
            {"type": "image_url", "image_url": {"url": "https://cdn.example/a.png"}},
        ]

    def test_images_go_where_they_were_refused(self):
        (message,) = messages_of("groq", "llama", user(IMAGE), without=frozenset({"images"}))
        assert message["content"] == "[image not shown: the model cannot read images]"

    def test_texts_of_one_answer_join_without_a_seam(self):
        answer = said("Hel", "lo.", by=("google", "gemini-x"))
        assert messages_of("groq", "llama", user("hi"), answer)[1]["content"] == "Hello."

    def test_foreign_reasoning_as_text_keeps_its_distance(self):
        answer = said(ThinkingBlock(thinking="hm"), "Hello.")
        messages = messages_of("groq", "llama", user("hi"), answer, foreign_thinking="text")
        assert messages[1]["content"] == "hm\n\nHello."

    def test_calls_alone_have_null_content(self):
        messages = messages_of("groq", "llama", user("hi"), said(call(n=6)), result("c1"))
        assert messages[1] == {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "roll", "arguments": '{"n":6}'},
                }
            ],
        }
        assert messages[2] == {"role": "tool", "tool_call_id": "c1", "content": NO_OUTPUT}

    def test_images_of_results_follow_in_a_users_message(self):
        history = [user("hi"), said(call("c1"), call("c2")), result("c1", IMAGE), result("c2", "x")]
        messages = messages_of("groq", "llama", *history)
        assert [message["role"] for message in messages] == [
            "user",
            "assistant",
            "tool",
            "tool",
            "user",
        ]
        assert messages[-1]["content"] == [{"type": "text", "text": IMAGES_NOTE}, IMAGE_PART]

    def test_images_of_results_stand_before_what_follows(self):
        history = [user("hi"), said(call()), result("c1", IMAGE), said("Nice."), user("more")]
        roles = [message["role"] for message in messages_of("groq", "llama", *history)]
        assert roles == ["user", "assistant", "tool", "user", "assistant", "user"]


class TestReasoningBack:
    SIGNED = ThinkingBlock(thinking="hm", thinking_signature="U0lH")

    def test_the_running_round_has_it(self):
        by = ("vllm", "q")
        history = [
            said(ThinkingBlock(thinking="old"), "a", by=by),
            user("q"),
            said(ThinkingBlock(thinking="hm"), call(), by=by),
            result("c1", "6"),
        ]
        messages = messages_of("vllm", "q", user("hi"), *history)
        assert "reasoning" not in messages[1]
        assert messages[3]["reasoning"] == "hm"

    def test_deepseek_wants_it_everywhere(self):
        by = ("deepseek", "d")
        messages = messages_of(
            "deepseek",
            "d",
            user("hi"),
            said(ThinkingBlock(thinking="hm"), "a", by=by),
            user("q"),
            said("b", by=by),
            user("r"),
        )
        assert [m.get("reasoning_content") for m in messages] == [None, "hm", None, "", None]

    def test_openai_takes_none(self):
        answer = said(ThinkingBlock(thinking="hm"), "a", by=("openai", "gpt-5"))
        assert messages_of("openai", "gpt-5", user("hi"), answer)[1] == {
            "role": "assistant",
            "content": "a",
        }

    def test_openrouter_has_a_list_with_signatures(self):
        answer = said(
            self.SIGNED,
            ThinkingBlock(thinking="unsigned"),
            call("c1", "RU5D"),
            by=("openrouter", "x/y"),
        )
        messages = messages_of("openrouter", "x/y", user("hi"), answer, result("c1", "6"))
        assert messages[1]["reasoning_details"] == [
            {"type": "reasoning.text", "text": "hm", "signature": "U0lH"},
            {"type": "reasoning.text", "text": "unsigned"},
            {"type": "reasoning.encrypted", "data": "RU5D", "id": "c1"},
        ]

    @pytest.mark.parametrize("model", ["anthropic/claude-a", "google/gemini-x"])
    def test_openrouter_drops_unsigned_texts_of_vendors_that_sign(self, model: str):
        answer = said(
            self.SIGNED, ThinkingBlock(thinking="unsigned"), "a", by=("openrouter", model)
        )
        messages = messages_of("openrouter", model, user("hi"), answer)
        assert [entry["text"] for entry in messages[1]["reasoning_details"]] == ["hm"]

    def test_openrouter_gets_its_encrypted_entries_back_in_order(self):
        entry = {"type": "reasoning.encrypted", "data": "RU5D", "format": "x", "index": 0}
        own = OpaqueBlock(provider="openrouter", raw=entry)
        search = OpaqueBlock(provider="openrouter", raw={"type": "web_search"})
        answer = said(self.SIGNED, own, search, "a", by=("openrouter", "x/y"))
        details = messages_of("openrouter", "x/y", user("hi"), answer)[1]["reasoning_details"]
        assert [detail["type"] for detail in details] == ["reasoning.text", "reasoning.encrypted"]
        assert details[1] == entry

    def test_openrouter_keeps_an_empty_list_for_deepseek(self):
        model = "deepseek/deepseek-v4"
        answer = said("a", by=("openrouter", model))
        messages = messages_of("openrouter", model, user("hi"), answer, user("more"))
        assert messages[1]["reasoning_details"] == []

    def test_openrouter_without_reasoning_has_no_list(self):
        answer = said("a", by=("openrouter", "x/y"))
        messages = messages_of("openrouter", "x/y", user("hi"), answer)
        assert "reasoning_details" not in messages[1]

    def test_geminis_compatible_endpoint_signs_calls(self):
        answer = said(call("c1", "RU5D"), by=("gemini-compatible", "gemini-x"))
        messages = messages_of("gemini-compatible", "gemini-x", user("hi"), answer, result("c1"))
        (sent,) = messages[1]["tool_calls"]
        assert sent["extra_content"] == {"google": {"thought_signature": "RU5D"}}


class TestStrictTemplates:
    def test_roles_alternate(self):
        history = [said("hello"), user("a"), user("b", IMAGE), user("c")]
        messages = messages_of("my-box", "local", *history, system="Be kind.")
        assert [message["role"] for message in messages] == ["system", "user", "assistant", "user"]
        assert messages[1]["content"] == PLACEHOLDER
        assert messages[3]["content"] == [
            {"type": "text", "text": "a"},
            {"type": "text", "text": "b"},
            IMAGE_PART,
            {"type": "text", "text": "c"},
        ]

    def test_neighbouring_texts_are_one(self):
        messages = messages_of("my-box", "local", user("a"), user("b"))
        assert messages == [{"role": "user", "content": "a\n\nb"}]

    def test_a_text_and_a_call_of_two_messages_are_one(self):
        history = [user("a"), said("b"), said(call()), result("c1", "6")]
        messages = messages_of("my-box", "local", *history)
        assert messages[1]["content"] == "b"
        assert messages[1]["tool_calls"][0]["id"] == "c1"

    def test_an_answer_bridges_results_and_the_user(self):
        history = [user("a"), said(call()), result("c1", "6"), user("b")]
        messages = messages_of("my-box", "local", *history)
        assert messages[3] == {"role": "assistant", "content": BRIDGE}

    def test_a_user_speaks_last(self):
        messages = messages_of("my-box", "local", user("a"), said("b"))
        assert messages[-1] == {"role": "user", "content": GO_ON}


class TestPrefill:
    def test_mistral_marks_it(self):
        messages = messages_of("mistral", "m", user("a"), said("Dear"))
        assert messages[-1] == {"role": "assistant", "content": "Dear", "prefix": True}

    def test_others_get_it_as_it_is(self):
        messages = messages_of("groq", "m", user("a"), said("Dear"))
        assert messages[-1] == {"role": "assistant", "content": "Dear"}

    def test_llama_cpp_continues_by_itself(self):
        messages = messages_of("llamacpp", "m", user("a"), said("Dear"))
        assert messages[-1] == {"role": "assistant", "content": "Dear"}


def test_proxies_that_want_tools_for_old_calls_get_one():
    history = [user("a"), said(call()), result("c1", "6"), user("b")]
    assert body_of(asked("litellm", "m", *history))["tools"] == [DUMMY_TOOL]
    assert "tools" not in body_of(asked("groq", "m", *history))
    assert "tools" not in body_of(asked("litellm", "m", user("a")))


class TestCacheMarks:
    def test_instructions_and_the_last_user_message_are_marked(self):
        history = [user("a"), said("b"), user(TextBlock(text="c"), IMAGE)]
        messages = messages_of("openrouter", "anthropic/claude-a", *history, system="Be kind.")
        mark = {"type": "ephemeral"}
        assert messages[0]["content"] == [
            {"type": "text", "text": "Be kind.", "cache_control": mark}
        ]
        assert messages[1]["content"] == [{"type": "text", "text": "a"}]
        assert messages[3]["content"] == [
            {"type": "text", "text": "c", "cache_control": mark},
            IMAGE_PART,
        ]

    def test_a_message_of_images_alone_is_not_marked(self):
        messages = messages_of("openrouter", "anthropic/claude-a", user(IMAGE))
        assert messages[0]["content"] == [IMAGE_PART]

    def test_other_models_cache_by_themselves(self):
        messages = messages_of("openrouter", "openai/gpt-x", user("a"))
        assert messages[0]["content"] == "a"
