"""The rules of `sanitize_messages_for_target` that the corpus leaves open."""

import re

import pytest

from shared.messages import (
    ContentBlock,
    ImageBlock,
    Message,
    OpaqueBlock,
    Role,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from worker.normalize.call_ids import CHAT_IDS
from worker.normalize.history import (
    MAX_DEPTH,
    NO_RESULT,
    RAW_ARGUMENTS,
    TargetRules,
    sanitize_messages_for_target,
)


def user(text: str) -> Message:
    return Message(role=Role.USER, content=text)


def said(*blocks: ContentBlock, stop_reason: str = "stop", model: str = "claude-a") -> Message:
    return Message(
        role=Role.ASSISTANT,
        content=list(blocks),
        provider="anthropic",
        model=model,
        stop_reason=stop_reason,
    )


def call(call_id: str, arguments: object = None) -> ToolCallBlock:
    return ToolCallBlock(id=call_id, name="roll", arguments={} if arguments is None else arguments)


def result(call_id: str | None, text: str, *, synthetic: bool | None = None) -> Message:
    return Message(
        role=Role.TOOL,
        content=[TextBlock(text=text)],
        tool_call_id=call_id,
        tool_name="roll",
        synthetic=synthetic,
    )


def ids(messages: list[Message]) -> list[str]:
    return [
        block.id
        for message in messages
        for block in message.content
        if isinstance(block, ToolCallBlock)
    ]


def texts(messages: list[Message]) -> list[str]:
    return [
        block.text
        for message in messages
        for block in message.content
        if isinstance(block, TextBlock)
    ]


def test_a_string_becomes_one_block():
    (message,) = sanitize_messages_for_target([user("hi")], "openai", "gpt-x")
    assert message.content == [TextBlock(text="hi")]


def test_a_block_from_elsewhere_in_a_message_of_the_target_is_foreign():
    block = ThinkingBlock(
        thinking="hm", thinking_signature="SIG", provider="openrouter", model="claude-a"
    )
    history = [said(block, TextBlock(text="a"))]
    assert texts(sanitize_messages_for_target(history, "anthropic", "claude-a")) == ["hm", "a"]


def test_a_message_of_unknown_origin_is_foreign():
    thinking = ThinkingBlock(thinking="hm", thinking_signature="SIG")
    message = Message(role=Role.ASSISTANT, content=[thinking])
    fitted = sanitize_messages_for_target([message], "anthropic", "claude-a")
    assert texts(fitted) == ["hm"]


def test_unsigned_thinking_that_cannot_go_back_is_dropped_where_foreign_thinking_is():
    history = [said(ThinkingBlock(thinking="hm"), TextBlock(text="a"))]
    fitted = sanitize_messages_for_target(history, "anthropic", "claude-a", foreign_thinking="drop")
    assert texts(fitted) == ["a"]


@pytest.mark.parametrize(
    ("model", "kept"), [("claude-a", 1), ("claude-b", 0)], ids=["same", "another model"]
)
def test_opaque_blocks_go_back_to_their_model_only(model: str, kept: int):
    block = OpaqueBlock(provider="anthropic", raw={"type": "server_tool_use"})
    fitted = sanitize_messages_for_target([said(block)], "anthropic", model)
    assert len(fitted) == kept


def test_a_blank_text_with_a_signature_of_the_target_is_kept():
    block = TextBlock(text="", text_signature="SIG")
    message = Message(role=Role.ASSISTANT, content=[block], provider="google", model="gemini-x")
    assert sanitize_messages_for_target([message], "google", "gemini-x") == [message]


def test_a_blank_text_without_a_signature_is_dropped_even_of_the_target():
    history = [user("q"), said(TextBlock(text=" \n")), user("again")]
    kept = sanitize_messages_for_target(history, "anthropic", "claude-a")
    assert [message.role for message in kept] == [Role.USER, Role.USER]


def test_unsigned_thinking_goes_back_to_its_own_model_where_the_format_takes_it():
    message = Message(
        role=Role.ASSISTANT,
        content=[ThinkingBlock(thinking="hm"), TextBlock(text="a")],
        provider="deepseek",
        model="m",
        stop_reason="stop",
    )
    (_, kept) = sanitize_messages_for_target([user("q"), message], "deepseek", "m")
    assert kept.content == message.content


def test_of_another_model_blank_text_and_hidden_thinking_are_dropped():
    message = said(
        TextBlock(text=" "),
        ThinkingBlock(thinking="", thinking_signature="S", redacted=True),
        ThinkingBlock(thinking=" "),
        TextBlock(text="a"),
    )
    (_, kept) = sanitize_messages_for_target([user("q"), message], "openai", "m")
    assert kept.content == [TextBlock(text="a")]


def test_hidden_thinking_goes_back_to_its_own_model_byte_for_byte():
    hidden = ThinkingBlock(thinking="", thinking_signature="S", redacted=True)
    message = said(hidden, TextBlock(text="a"))
    (_, kept) = sanitize_messages_for_target([user("q"), message], "anthropic", "claude-a")
    assert kept.content == [hidden, TextBlock(text="a")]


def test_a_run_of_images_becomes_one_note_for_a_model_without_eyes():
    image = ImageBlock(mime_type="image/png", data="AA==")
    shown = Message(role=Role.USER, content=[image, image, TextBlock(text="both?"), image])
    (seen,) = sanitize_messages_for_target([shown], "openai", "m", vision=False)
    texts = [block.text for block in seen.content if isinstance(block, TextBlock)]
    assert len(texts) == len(seen.content) == 3
    assert texts[1] == "both?"
    assert texts[0] == texts[2]


def test_calls_outside_assistant_messages_are_dropped():
    message = Message(role=Role.USER, content=[TextBlock(text="x"), call("c1")])
    fitted = sanitize_messages_for_target([message, result("c1", "6")], "openai", "gpt-x")
    assert fitted == [Message(role=Role.USER, content=[TextBlock(text="x")])]


class TestResults:
    def test_a_late_result_replaces_a_synthetic_one(self):
        history = [said(call("c1")), result("c1", NO_RESULT, synthetic=True), result("c1", "6")]
        assert texts(sanitize_messages_for_target(history, "openai", "gpt-x")) == ["6"]

    def test_a_second_synthetic_result_changes_nothing(self):
        history = [
            said(call("c1")),
            result("c1", "first", synthetic=True),
            result("c1", "second", synthetic=True),
        ]
        assert texts(sanitize_messages_for_target(history, "openai", "gpt-x")) == ["first"]

    def test_a_result_belongs_to_the_nearest_open_call_of_its_id(self):
        history = [
            said(call("call_0")),
            result("call_0", "one"),
            user("again"),
            said(call("call_0")),
            result("call_0", "two"),
        ]
        fitted = sanitize_messages_for_target(history, "openai", "gpt-x")
        assert texts(fitted) == ["one", "again", "two"]
        first, second = ids(fitted)
        assert first == "call_0"
        assert second.startswith("call_0_")

    def test_equal_ids_in_one_message_are_answered_in_their_order(self):
        history = [said(call("c"), call("c")), result("c", "one"), result("c", "two")]
        fitted = sanitize_messages_for_target(history, "openai", "gpt-x")
        assert texts(fitted) == ["one", "two"]
        assert len(set(ids(fitted))) == 2

    def test_a_result_without_an_id_is_dropped(self):
        assert sanitize_messages_for_target([result(None, "6")], "openai", "gpt-x") == []

    def test_results_of_a_broken_turn_do_not_reach_an_older_call(self):
        history = [
            said(call("c1"), model="claude-b"),
            said(call("c1"), stop_reason="aborted"),
            result("c1", "6"),
        ]
        fitted = sanitize_messages_for_target(history, "anthropic", "claude-a")
        assert texts(fitted) == [NO_RESULT]


class TestIds:
    @pytest.mark.parametrize(
        ("provider", "given", "shape"),
        [
            ("mistral", "ABCdef123", "ABCdef123"),
            ("google", "any id: at all", "any id: at all"),
            ("anthropic", "x" * 64, "x" * 64),
            ("openai-responses", "x" * 64, "x" * 64),
        ],
        ids=["mistral", "google", "anthropic", "responses"],
    )
    def test_a_legal_id_stays(self, provider: str, given: str, shape: str):
        assert ids(sanitize_messages_for_target([said(call(given))], provider, "m")) == [shape]

    @pytest.mark.parametrize(
        ("provider", "given", "pattern"),
        [
            ("openai", "x" * 64, r"x{31}_[0-9a-f]{8}"),
            ("openai", "tool.1", r"tool_1_[0-9a-f]{8}"),
            ("openai", "", r"call_[0-9a-f]{8}"),
            ("google", "", r"call_[0-9a-f]{8}"),
            ("mistral", "call_1", r"[0-9a-f]{9}"),
        ],
        ids=["too long", "a dot", "empty", "empty for google", "mistral"],
    )
    def test_an_illegal_id_is_derived(self, provider: str, given: str, pattern: str):
        (derived,) = ids(sanitize_messages_for_target([said(call(given))], provider, "m"))
        assert re.fullmatch(pattern, derived)

    def test_a_derived_id_that_is_taken_is_derived_again(self):
        # The history already holds what would be derived for the second call.
        (taken,) = ids(sanitize_messages_for_target([said(call("a.b"))], "openai", "m"))
        fitted = sanitize_messages_for_target([said(call(taken), call("a.b"))], "openai", "m")
        first, second = ids(fitted)
        assert first == taken
        assert second != taken
        assert second.startswith("a_b_")

    def test_the_rules_of_a_format_can_be_given(self):
        rules = TargetRules(ids=CHAT_IDS)
        (derived,) = ids(
            sanitize_messages_for_target([said(call("x" * 50))], "anthropic", "m", rules=rules)
        )
        assert len(derived) == 40


class TestArguments:
    @pytest.mark.parametrize("given", ["oops", ["a"], 7, None], ids=repr)
    def test_what_is_no_object_is_wrapped(self, given: object):
        block = ToolCallBlock(id="c1", name="roll", arguments=given)
        fitted = sanitize_messages_for_target([said(block)], "openai", "gpt-x")
        (kept,) = [b for m in fitted for b in m.content if isinstance(b, ToolCallBlock)]
        assert kept.arguments == {RAW_ARGUMENTS: given}

    def test_surrogates_and_nul_go_from_keys_and_values(self):
        block = call("c1", {"k\0": ["\ud83d\ude00", "\ud83d"]})
        fitted = sanitize_messages_for_target([said(block)], "openai", "gpt-x")
        (kept,) = [b for m in fitted for b in m.content if isinstance(b, ToolCallBlock)]
        assert kept.arguments == {"k": ["\U0001f600", "\ufffd"]}

    def test_nesting_ends_at_the_limit(self):
        deep: object = "x"
        for _ in range(MAX_DEPTH + 5):
            deep = [deep]
        fitted = sanitize_messages_for_target([said(call("c1", {"a": deep}))], "openai", "gpt-x")
        (kept,) = [b for m in fitted for b in m.content if isinstance(b, ToolCallBlock)]
        assert isinstance(kept.arguments, dict)
        depth, inner = 1, kept.arguments["a"]
        while inner:
            depth, inner = depth + 1, inner[0]
        assert depth == MAX_DEPTH
