"""The table of providers, and the one way to a request."""

import msgspec
import pytest

from shared.messages import Message, Role
from shared.redaction import redact
from shared.secrets import Secret
from shared.turns import Api, Front, Route, Target, ToolSpec, TurnRequest
from tests.support.asked import ENDPOINT, asked, body_of, built, call, result, said, user
from worker.normalize.history import RULES
from worker.providers.building import BUILDERS, build_request
from worker.providers.quirks import CUSTOM, PROVIDERS, ProviderRow, Quirks, is_custom, resolve
from worker.providers.requests import Endpoint, model_request

ROUTE = Route(front=Front.LOCAL, channel_id=1, user_id=2)


def test_every_format_has_a_builder():
    assert set(BUILDERS) == set(Api) - {Api.AUTO}


@pytest.mark.parametrize("row", PROVIDERS.values(), ids=lambda row: row.name)
def test_every_row_builds_a_request(row: ProviderRow):
    request = built(asked(row.name, "some-model", system="Be kind."))
    assert request.url.startswith("https://provider.example/v1/")
    assert row.id_rule is None or row.id_rule in RULES
    assert row.base_url is None or not row.base_url.endswith("/")


def test_the_vendors_of_the_promise_are_rows():
    assert PROVIDERS.keys() >= {
        "openrouter",
        "deepseek",
        "groq",
        "mistral",
        "xai",
        "zai",
        "moonshot",
        "qwen",
        "nvidia",
        "azure",
        "perplexity",
        "ollama",
        "lmstudio",
        "vllm",
        "llamacpp",
    }


def test_a_name_without_a_row_is_a_custom_endpoint():
    row = resolve("my-box")
    assert row == msgspec.structs.replace(CUSTOM, name="my-box")
    assert is_custom(row)
    assert not is_custom(resolve("OpenAI"))


def test_a_row_can_be_added_at_run_time():
    row = ProviderRow(
        name="new-vendor",
        base_url="https://new.example/v1",
        key_env="NEW_KEY",
        quirks=Quirks(max_tokens_field="max_output"),
    )
    request = build_request(asked("new-vendor", "m"), ENDPOINT, {**PROVIDERS, row.name: row})
    assert msgspec.json.decode(request.body)["max_output"] == 2048


def test_the_target_may_choose_its_format():
    request = built(asked("openrouter", "x/y", api=Api.OPENAI_RESPONSES))
    assert request.url.endswith("/responses")


def test_the_rehearsal_has_a_key_of_its_own():
    request = built(asked("rehearsal", "plain"), Endpoint(base_url="http://127.0.0.1:1"))
    assert dict(request.headers)["authorization"] == "Bearer rehearsal"


def test_headers_of_an_endpoint_are_sent():
    endpoint = Endpoint(
        base_url="https://provider.example/v1", headers=(("X-Tenant", Secret("t-1")),)
    )
    request = built(asked("my-box", "m"), endpoint)
    assert dict(request.headers)["x-tenant"] == "t-1"
    assert "t-1" not in repr(endpoint)
    assert redact(repr(request)) == repr(request)


def test_ids_follow_the_vendors_rule():
    sent = body_of(asked("mistral", "m", user("q"), said(call("call_1")), result("call_1", "6")))
    (sent_call,) = sent["messages"][1]["tool_calls"]
    assert len(sent_call["id"]) == 9
    assert sent["messages"][2]["tool_call_id"] == sent_call["id"]


def test_instructions_are_cleaned_too():
    sent = body_of(asked("groq", "m", system="Be\0 kind \ud83d."))
    assert sent["messages"][0]["content"] == "Be kind \ufffd."


def test_a_turn_becomes_a_question_to_its_target_or_a_fallback():
    turn = TurnRequest(
        turn_id="l1",
        route=ROUTE,
        target=Target(provider="rehearsal", model="plain"),
        messages=[Message(role=Role.USER, content="hi")],
        created_ms=0,
        system="Be kind.",
        tools=(ToolSpec(name="roll"),),
    )
    question = model_request(turn)
    assert (question.target, question.messages) == (turn.target, turn.messages)
    assert (question.system, question.tools) == (turn.system, turn.tools)
    assert question.conversation == model_request(turn).conversation
    other = model_request(msgspec.structs.replace(turn, persona="Ann"))
    assert question.conversation != other.conversation
    assert len(question.conversation or "") == 32
    fallback = Target(provider="openai", model="gpt-x")
    assert model_request(turn, fallback).target == fallback
