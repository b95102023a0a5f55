"""Streams from bug reports against the normalizer alone: what later rooms do is tested there."""

import base64
import zlib
from typing import Any

import pytest

from shared.messages import ArgumentState, ToolCallBlock
from tests.support import corpus, cuttings, streams
from worker.normalize.events import Done, StreamFailed

AREAS = ("sse", "usage", "other", "toolcall")


def is_ours(case: corpus.Case) -> bool:
    """Streams of our areas; calls that are recovered from prose belong to the chunk room."""
    by_prose = case.get("context", {}).get("verbatim_tools", False)
    return case["kind"] == "stream" and case.area in AREAS and not by_prose


@pytest.mark.parametrize("case", corpus.cases("provider_cases.jsonl", where=is_ours))
def test_stream_is_read_as_expected_in_every_cutting(case: corpus.Case):
    data = body(case)
    tools = [tool["name"] for tool in case.get("context", {}).get("tools", [])]
    whole = streams.run(case["provider"], [data], tools=tools)
    assert seen(whole, case["expect"]) == wanted(case["expect"])
    check_extra(case.get("extra", {}), whole)
    for size in (1, 7):
        run = streams.run(case["provider"], cuttings.pieces(data, size), tools=tools)
        assert run.events == whole.events


def body(case: corpus.Case) -> bytes:
    """The bytes as the normalizer is fed them: the transport has undone the content encoding."""
    coded = case.get("input_b64")
    data = base64.b64decode(coded) if coded else case["input"].encode()
    if case.get("extra", {}).get("content_encoding") == "gzip":
        return zlib.decompress(data, wbits=31)
    return data


def wanted(expect: dict[str, Any]) -> dict[str, Any]:
    """`expect` in the terms of this room: whether it failed, and not what the cause is called."""
    facts = dict(expect)
    if "error" in facts:
        facts["error"] = facts["error"] is not None
    for name in ("text", "thinking"):
        if facts.get(name) is not None:
            facts[name] = facts[name].strip()
    return facts


def seen(run: streams.Run, expect: dict[str, Any]) -> dict[str, Any]:
    """The same keys from a run."""
    end = run.end
    facts: dict[str, Any] = {
        "text": run.joined("text_delta").strip(),
        "thinking": run.joined("thinking_delta").strip(),
        "error": isinstance(end, StreamFailed),
        "stop_reason": end.stop_reason if isinstance(end, Done) else "error",
        "tool_calls": calls(run),
        "usage": usage(run, expect.get("usage")),
    }
    return {name: facts[name] for name in expect}


def calls(run: streams.Run) -> list[dict[str, Any]]:
    """The calls as the tool loop sees them; a stream that failed releases none."""
    if not isinstance(run.end, Done):
        return []
    states = run.meta.argument_states
    return [
        {
            "name": block.name,
            "args": block.arguments,
            "truncated": states.get(block.id, ArgumentState.OK) is not ArgumentState.OK,
        }
        for block in run.end.content
        if isinstance(block, ToolCallBlock)
    ]


def usage(run: streams.Run, expected: dict[str, Any] | None) -> dict[str, Any] | None:
    """The counts that are asked for; none at all is None."""
    if expected is None:
        return run.meta.usage or None
    return {name: run.meta.usage.get(name) for name in expected}


def check_extra(extra: dict[str, Any], run: streams.Run) -> None:
    if "serving_provider" in extra:
        assert run.meta.serving_provider == extra["serving_provider"]
    if "raw_finish_reason" in extra:
        assert run.meta.raw_stop_reason == extra["raw_finish_reason"]
    if "tool_call_ids" in extra:
        blocks = run.end.content if isinstance(run.end, Done) else []
        ids = [block.id for block in blocks if isinstance(block, ToolCallBlock)]
        assert ids == extra["tool_call_ids"]
    if "done_events" in extra:
        assert [type(event) for event in run.events].count(Done) == extra["done_events"]
