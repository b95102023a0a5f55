"""Recorded streams of real providers: text, reasoning and client calls are those of the SDKs."""

from collections import Counter
from typing import Any

import pytest

from shared.messages import OpaqueBlock, ThinkingBlock, ToolCallBlock
from shared.turns import Api
from tests.support import corpus, cuttings, streams
from worker.normalize.events import Done, StreamFailed
from worker.providers import normalizer_for

PROVIDERS = {
    "anthropic": ("anthropic", Api.ANTHROPIC),
    "google": ("google", Api.GOOGLE),
    "openai-chat": ("openai", Api.AUTO),
    "openai-responses": ("openai", Api.AUTO),
}


@pytest.mark.parametrize("case", corpus.recordings())
def test_recording_is_read_as_the_sdk_reads_it_in_every_cutting(case: corpus.Recording):
    data = case.path.read_bytes()
    whole = run(case, [data])
    check(whole, case.data["expected"])
    for size in (1, 7, 1024):
        assert run(case, cuttings.pieces(data, size)).events == whole.events


def run(case: corpus.Recording, chunks: list[bytes]) -> streams.Run:
    provider, api = PROVIDERS[case.data["dialect"]]
    normalizer = normalizer_for(provider, "req-model", case.data.get("tools", ()), api)
    events = [event for chunk in chunks for event in normalizer.feed(chunk)]
    return streams.Run(events + normalizer.flush(), normalizer.meta)


def check(whole: streams.Run, expected: dict[str, Any]) -> None:
    end = whole.end
    if "oracle_error" in expected:
        assert isinstance(end, StreamFailed)
        return
    assert isinstance(end, Done)
    assert whole.joined("text_delta") == expected["text"]
    if expected["thinking"]:  # empty where the SDK does not expose it
        assert thinking(end) == expected["thinking"]
    found = calls(end)
    for call, sdk_call in zip(found, expected["tool_calls"], strict=True):
        # Where the wire has no id (Gemini) ours is synthesised.
        assert call == {name: sdk_call[name] or call[name] for name in call}
    check_usage(whole.meta.usage, expected["usage"] or {})
    if expected["finish"] is not None:
        assert whole.meta.raw_stop_reason == expected["finish"]
    if "other_blocks" in expected:  # a note: the kinds that it names are there in full
        kept = opaque(end)
        assert {kind: kept[kind] for kind in expected["other_blocks"]} == expected["other_blocks"]


def check_usage(usage: dict[str, int | float], raw: dict[str, Any]) -> None:
    """Counts that need no arithmetic; sums and exclusive counters have their own tests."""
    for name in ("total_tokens", "totalTokenCount"):
        if isinstance(raw.get(name), int):
            assert usage["total"] == raw[name]
    if isinstance(raw.get("output_tokens"), int):
        assert usage["output"] == raw["output_tokens"]


def thinking(end: Done) -> str:
    return "".join(block.thinking for block in end.content if isinstance(block, ThinkingBlock))


def calls(end: Done) -> list[dict[str, Any]]:
    found = [block for block in end.content if isinstance(block, ToolCallBlock)]
    return [{"id": block.id, "name": block.name, "args": block.arguments} for block in found]


def opaque(end: Done) -> Counter[str]:
    """How many blocks of which type were kept for replay; redacted reasoning has its own block."""
    kinds = Counter(
        str(block.raw["type"])
        for block in end.content
        if isinstance(block, OpaqueBlock) and isinstance(block.raw, dict)
    )
    redacted = [b for b in end.content if isinstance(b, ThinkingBlock) and b.redacted]
    if redacted:
        kinds["redacted_thinking"] = len(redacted)
    return kinds
