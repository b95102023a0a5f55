"""Requests as they are sent to Google."""

from typing import Any

import pytest

from shared.messages import ImageBlock, Message, OpaqueBlock, TextBlock, ThinkingBlock
from shared.turns import Sampling, ToolSpec
from tests.support.asked import TOOL, asked, body_of, built, call, result, said, user
from worker.providers.bodies import GO_ON, PLACEHOLDER
from worker.providers.google_request import UNSIGNED
from worker.providers.requests import Endpoint

IMAGE = ImageBlock(mime_type="image/png", data="AAAA")
IMAGE_PART = {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}
SIGNATURE = "U0lHTkVE"


def body(*messages: Message, model: str = "gemini-x", **more: Any) -> Any:
    return body_of(asked("google", model, *messages, **more))


def contents(*messages: Message, **more: Any) -> Any:
    return body(*messages, **more)["contents"]


def test_a_plain_request_is_whole():
    assert body(system="Be kind.", tools=(TOOL, ToolSpec(name="now"))) == {
        "tools": [
            {
                "functionDeclarations": [
                    {
                        "name": "roll",
                        "description": "Rolls dice.",
                        "parametersJsonSchema": {"type": "object", "properties": {"n": {}}},
                    },
                    {"name": "now", "description": ""},
                ]
            }
        ],
        "systemInstruction": {"parts": [{"text": "Be kind."}]},
        "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
        "generationConfig": {"maxOutputTokens": 2048},
    }


@pytest.mark.parametrize("model", ["gemini-x", "models/gemini-x"])
def test_the_model_stands_in_the_path(model: str):
    request = built(asked("google", model))
    assert request.url == (
        "https://provider.example/v1/models/gemini-x:streamGenerateContent?alt=sse"
    )
    assert dict(request.headers)["x-goog-api-key"] == "sk-test"


def test_without_a_key_there_is_no_header():
    request = built(asked("google", "gemini-x"), Endpoint(base_url="https://provider.example"))
    assert "x-goog-api-key" not in dict(request.headers)


def test_sampling_is_sent_in_googles_names():
    sampling = Sampling(temperature=0.5, top_p=0.9, stop=tuple("abcdef"), max_tokens=7)
    assert body(sampling=sampling)["generationConfig"] == {
        "maxOutputTokens": 7,
        "temperature": 0.5,
        "topP": 0.9,
        "stopSequences": ["a", "b", "c", "d", "e"],
    }


def test_what_was_refused_before_is_left_out():
    sent = body(
        sampling=Sampling(temperature=0.5),
        tools=(TOOL,),
        without=frozenset({"temperature", "tools"}),
    )
    assert sent["generationConfig"] == {"maxOutputTokens": 2048}
    assert "tools" not in sent


@pytest.mark.parametrize(
    ("model", "thinking", "sent"),
    [
        ("gemini-2.5-flash", "medium", {"thinkingBudget": 4096, "includeThoughts": True}),
        ("gemini-2.5-flash", "off", {"thinkingBudget": 0, "includeThoughts": False}),
        ("gemini-2.5-pro", "off", {"thinkingBudget": 128, "includeThoughts": False}),
        ("gemini-3-pro", "high", {"thinkingLevel": "HIGH", "includeThoughts": True}),
        ("gemini-3-pro", "off", {"thinkingLevel": "LOW", "includeThoughts": False}),
        ("gemini-2.0-flash", "high", None),
        ("gemini-3-pro", None, None),
    ],
)
def test_thinking_is_asked_for_as_the_model_knows_it(
    model: str, thinking: str | None, sent: object
):
    config = body(model=model, sampling=Sampling(thinking=thinking))["generationConfig"]
    assert config.get("thinkingConfig") == sent


def test_gemma_reads_its_instructions_from_the_user():
    sent = body(model="gemma-3", system="Be kind.")
    assert "systemInstruction" not in sent
    assert sent["contents"][0]["parts"] == [{"text": "Be kind."}, {"text": "hi"}]


class TestContents:
    def test_neighbours_are_merged(self):
        sent = contents(user("a"), user("b", IMAGE), said("c"), said("d"), user("e"))
        assert [content["role"] for content in sent] == ["user", "model", "user"]
        assert sent[0]["parts"] == [{"text": "a"}, {"text": "b"}, IMAGE_PART]

    def test_results_have_a_content_of_their_own(self):
        history = [
            user("q"),
            said(call("c1", n=6), call("c2")),
            result("c1", "6"),
            result("c2", "7", is_error=True),
            user("and?"),
        ]
        sent = contents(*history)
        assert sent[1]["parts"] == [
            {"functionCall": {"name": "roll", "args": {"n": 6}, "id": "c1"}},
            {"functionCall": {"name": "roll", "args": {}, "id": "c2"}},
        ]
        assert sent[2] == {
            "role": "user",
            "parts": [
                {"functionResponse": {"name": "roll", "response": {"output": "6"}, "id": "c1"}},
                {"functionResponse": {"name": "roll", "response": {"error": "7"}, "id": "c2"}},
            ],
        }
        assert sent[3]["parts"] == [{"text": "and?"}]

    def test_vertex_takes_no_ids(self):
        history = [user("q"), said(call("c1")), result("c1", "6")]
        sent = body_of(asked("vertex", "gemini-x", *history))["contents"]
        assert "id" not in sent[1]["parts"][0]["functionCall"]
        assert "id" not in sent[2]["parts"][0]["functionResponse"]

    @pytest.mark.parametrize("follower", [[], [user("and?")], [said("a"), user("and?")]])
    def test_images_of_results_follow_as_the_users(self, follower: list[Message]):
        sent = contents(user("q"), said(call()), result("c1", "see", IMAGE), *follower)
        assert "parts" not in sent[2]["parts"][0]["functionResponse"]
        assert sent[3]["role"] == "user"
        assert sent[3]["parts"][0] == IMAGE_PART

    def test_gemini_3_sees_images_in_results(self):
        history = [user("q"), said(call()), result("c1", "see", IMAGE)]
        sent = contents(*history, model="gemini-3-pro")
        assert sent[2]["parts"][0]["functionResponse"]["parts"] == [IMAGE_PART]

    def test_addresses_of_images_are_files(self):
        image = ImageBlock(mime_type="image/png", url="https://cdn.example/a.png")
        assert contents(user(image))[0]["parts"] == [
            {"fileData": {"fileUri": "https://cdn.example/a.png", "mimeType": "image/png"}}
        ]

    def test_the_user_begins_and_ends(self):
        sent = contents(said("a"))
        assert [content["parts"][0]["text"] for content in sent] == [PLACEHOLDER, "a", GO_ON]

    def test_own_parts_go_back_as_they_came(self):
        own = OpaqueBlock(provider="google", raw={"executableCode": {"code": "1"}})
        broken = OpaqueBlock(provider="google", raw="?")
        by = ("google", "gemini-x")
        sent = contents(user("q"), said(own, broken, by=by), said(broken, by=by), user("r"))
        assert sent[1]["parts"] == [{"executableCode": {"code": "1"}}]


class TestSignatures:
    BY = ("google", "gemini-3-pro")

    def parts(self, *blocks: Any, by: tuple[str, str] | None = BY) -> Any:
        calls = [block.id for block in blocks if hasattr(block, "arguments")]
        results = [result(call_id, "6") for call_id in calls]
        history = [user("q"), said(*blocks, by=by), *results, user("r")]
        return contents(*history, model="gemini-3-pro")[1]["parts"]

    def test_they_go_back_where_they_came_from(self):
        sent = self.parts(
            ThinkingBlock(thinking="hm", thinking_signature=SIGNATURE),
            TextBlock(text="a", text_signature=SIGNATURE),
            call("c1", SIGNATURE),
            call("c2"),
        )
        assert [part.get("thoughtSignature") for part in sent] == [SIGNATURE] * 3 + [None]
        assert sent[0]["thought"] is True

    def test_unsigned_thoughts_are_forgotten(self):
        assert self.parts(ThinkingBlock(thinking="hm"), "a") == [{"text": "a"}]

    def test_what_is_no_base64_is_no_signature(self):
        assert self.parts(TextBlock(text="a", text_signature="?")) == [{"text": "a"}]

    def test_the_first_call_of_a_foreign_turn_is_marked(self):
        sent = self.parts("a", call("c1"), call("c2"), by=None)
        assert [part.get("thoughtSignature") for part in sent] == [None, UNSIGNED, None]

    def test_older_models_need_no_mark(self):
        history = [user("q"), said(call("c1")), result("c1", "6")]
        assert "thoughtSignature" not in contents(*history)[1]["parts"][0]
