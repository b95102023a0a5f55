"""What a finished stream becomes in the history."""

from shared.messages import ContentBlock, Message, OpaqueBlock, Role, TextBlock, ThinkingBlock
from shared.turns import StopReason, Target
from tests.support.asked import asked, body_of, call, user
from worker.normalize.events import Done
from worker.providers.rounds import answer_message, result_message

TARGET = Target(provider="openrouter", model="x/y")
SIGNED = ThinkingBlock(thinking="hm", thinking_signature="U0lH")
SAID = TextBlock(text="I roll.", text_signature="U0lH")


def answered(*content: ContentBlock, **more: object) -> Message:
    done = Done(stop_reason=StopReason.TOOL_USE, content=list(content), usage={})
    return answer_message(TARGET, done, **more)  # type: ignore[arg-type]  # passed on


def test_an_answer_goes_back_byte_for_byte():
    message = answered(SIGNED, SAID, call("c1", n=6))
    assert message.content == [SIGNED, SAID, call("c1", n=6)]
    assert (message.role, message.stop_reason) == (Role.ASSISTANT, "tool_use")
    assert (message.provider, message.model) == ("openrouter", "x/y")


def test_text_that_stands_unchanged_keeps_its_signature():
    assert answered(SAID, shown={0: "I roll."}).content == [SAID]


def test_text_that_was_changed_keeps_its_place_and_all_but_its_signature():
    said = TextBlock(text="a b", text_signature="U0lH", item_id="m1", phase="p", citations=[{}])
    message = answered(SIGNED, said, call("c1"), SAID, shown={1: "a", 3: "I roll."})
    changed = TextBlock(text="a", item_id="m1", phase="p", citations=[{}])
    assert message.content == [SIGNED, changed, call("c1"), SAID]


def test_text_of_which_nothing_was_shown_is_left_out():
    assert answered(SIGNED, SAID, call("c1"), shown={1: ""}).content == [SIGNED, call("c1")]


def test_encrypted_reasoning_stands_behind_the_reasoning():
    entry = {"type": "reasoning.encrypted", "data": "RU5D"}
    message = answered(SIGNED, SAID, call("c1"), encrypted=[entry])
    own = OpaqueBlock(provider="openrouter", model="x/y", raw=entry)
    assert message.content == [SIGNED, own, SAID, call("c1")]
    history = [user("q"), message, result_message(call("c1"), "6")]
    sent = body_of(asked("openrouter", "x/y", *history))["messages"]
    assert sent[1]["reasoning_details"][1] == entry


def test_a_result_names_its_call():
    result = result_message(call("c1"), "no dice", is_error=True)
    assert (result.tool_call_id, result.tool_name, result.is_error) == ("c1", "roll", True)
    assert result.content == [TextBlock(text="no dice")]
