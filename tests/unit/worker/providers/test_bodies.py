"""The pieces that every builder uses."""

import pytest

from shared.messages import ImageBlock, Message, Role, TextBlock
from shared.turns import Sampling
from tests.support.asked import TOOL, asked, body_of, user
from worker.providers.bodies import blocks_of, without_refused

SAMPLING = Sampling(temperature=0.5, top_p=0.9, stop=("END",), thinking="low")


def test_a_string_is_one_block_and_a_blank_one_is_none():
    assert blocks_of(Message(role=Role.USER, content="hi")) == [TextBlock(text="hi")]
    assert blocks_of(Message(role=Role.USER, content=" ")) == []


@pytest.mark.parametrize(
    ("provider", "refused", "gone"),
    [
        ("groq", "temperature", "temperature"),
        ("groq", "stream_options.include_usage", "stream_options"),
        ("groq", "tools[0].function.parameters", "tools"),
        ("openrouter", "reasoning.effort", "reasoning"),
        ("deepseek", "thinking.type", "thinking"),
        ("anthropic", "stop_sequences", "stop_sequences"),
    ],
)
def test_what_was_refused_is_left_out_however_it_was_named(provider: str, refused: str, gone: str):
    whole = body_of(asked(provider, "m", sampling=SAMPLING, tools=(TOOL,)))
    rest = body_of(
        asked(provider, "m", sampling=SAMPLING, tools=(TOOL,), without=frozenset({refused}))
    )
    assert whole.keys() - rest.keys() <= {gone}
    assert gone not in rest


@pytest.mark.parametrize("refused", ["generation_config.top_p", "generationConfig.topP", "top_p"])
def test_googles_settings_have_two_spellings(refused: str):
    rest = body_of(asked("google", "gemini-x", sampling=SAMPLING, without=frozenset({refused})))
    config = rest["generationConfig"]
    assert "topP" not in config
    assert config["temperature"] == 0.5


@pytest.mark.parametrize("name", ["model", "messages[0].content", "max_tokens", "stream"])
def test_what_makes_a_request_one_stays(name: str):
    body = {"model": "m", "messages": [], "stream": True, "max_tokens": 1}
    assert without_refused(dict(body), frozenset({name})) == body


def test_a_refused_name_of_the_cap_is_changed_for_the_other():
    without = frozenset({"max_tokens"})
    body = body_of(asked("my-box", "m", without=without))
    assert body["max_completion_tokens"] == 2048
    assert "max_tokens" not in body
    body = body_of(asked("openai", "m", without=frozenset({"max_completion_tokens"})))
    assert body["max_tokens"] == 2048


@pytest.mark.parametrize("refused", ["images", "messages[0].content[1].image_url"])
def test_refused_images_become_a_note(refused: str):
    image = ImageBlock(mime_type="image/png", data="AAAA")
    body = body_of(asked("groq", "m", user("look", image), without=frozenset({refused})))
    assert "image not shown" in body["messages"][0]["content"]


def test_a_vendor_without_eyes_reads_a_note():
    image = ImageBlock(mime_type="image/png", data="AAAA")
    body = body_of(asked("deepseek", "d", user("look", image)))
    assert body["messages"][0]["content"].startswith("look\n\n[image not shown")
