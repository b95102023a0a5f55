"""Every history, to every target, is a request that the target's judge accepts."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ops.rehearsal.judges.chat_dialects import DIALECTS
from shared.messages import Message
from shared.turns import Api, Sampling, Target, ToolSpec
from tests.support.asked import call, result, said, user
from tests.support.histories import histories
from tests.support.judged import accepted, built, signed
from worker.providers.requests import ModelRequest

TARGETS = [
    Target(provider="anthropic", model="claude-a"),
    Target(provider="anthropic", model="claude-opus-4-7"),
    Target(provider="openai", model="gpt-x"),
    Target(provider="openai", model="gpt-5.1"),
    Target(api=Api.OPENAI_RESPONSES, provider="openai", model="gpt-x"),
    Target(api=Api.OPENAI_RESPONSES, provider="openai-responses", model="gpt-x"),
    Target(provider="google", model="gemini-x"),
    Target(provider="google", model="gemini-3-pro"),
    Target(provider="google", model="gemma-3"),
    Target(provider="vertex", model="gemini-2.5-pro"),
    *(
        Target(provider=dialect.name, model="some-model")
        for dialect in DIALECTS
        if dialect.name != "custom"
    ),
    Target(provider="my-box", model="local"),
    Target(provider="openrouter", model="anthropic/claude-a"),
]
TOOLS = (
    ToolSpec(name="roll"),
    ToolSpec(name="look_up", parameters={"properties": {"q": {"type": "string"}}}),
)
samplings = st.builds(
    Sampling,
    max_tokens=st.integers(1, 4096),
    temperature=st.sampled_from([None, 0.0, 1.0, 1.7]),
    top_p=st.sampled_from([None, 0.9]),
    stop=st.sampled_from([(), ("END",), (" ", "a", "b", "c", "d", "e")]),
    thinking=st.sampled_from([None, "off", "low", "medium", "high"]),
)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: f"{target.provider}-{target.model}")
@settings(max_examples=40)  # for each of the targets
@given(
    history=histories,
    tools=st.sampled_from([(), TOOLS]),
    system=st.sampled_from([None, "Be kind.", " "]),
    sampling=samplings,
    mode=st.sampled_from(["drop", "text"]),
)
def test_a_sanitized_history_is_accepted(
    target: Target,
    history: list[Message],
    tools: tuple[ToolSpec, ...],
    system: str | None,
    sampling: Sampling,
    mode: str,
):
    request = signed(
        ModelRequest(
            target=target,
            messages=history,
            system=system,
            tools=tools,
            sampling=sampling,
            conversation="c-1",
            foreign_thinking=mode,  # type: ignore[arg-type]  # one of its two words
        )
    )
    accepted(request)
    assert built(request) == built(request)


words = st.sampled_from(["Hello.", "And then?", "Yes, why not.", "x" * 50])
rounds = st.lists(st.tuples(words, st.booleans(), words), min_size=2, max_size=5)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: f"{target.provider}-{target.model}")
@settings(max_examples=20)
@given(rounds=rounds)
def test_a_conversation_that_grows_keeps_its_prefix(
    target: Target, rounds: list[tuple[str, bool, str]]
):
    """Prompt caches compare prefixes: what was sent once is sent again as it was."""
    history: list[Message] = []
    before: tuple[str, ...] = ()
    for number, (asks, calls, says) in enumerate(rounds):
        history.append(user(asks))
        request = ModelRequest(
            target=target, messages=list(history), system="Be kind.", tools=TOOLS
        )
        blocks = accepted(request).blocks
        assert blocks[: len(before)] == before
        before = blocks
        by = (target.provider, target.model)
        if calls:
            history.extend((said(call(f"c{number}"), by=by), result(f"c{number}", "6")))
        history.append(said(says, by=by))
