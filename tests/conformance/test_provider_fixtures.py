"""One short stream for each vendor of chat completions, as that vendor frames it.

A fixture is `tests/data/providers/<name>.sse` with what must come out of it in `<name>.json`. The
contents are invented; the framing is the vendor's. A new vendor is one row and one fixture.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from shared.messages import TextBlock, ThinkingBlock, ToolCallBlock
from shared.turns import Api
from tests.support import cuttings
from worker.normalize.events import Done
from worker.providers import normalizer_for
from worker.providers.quirks import PROVIDERS

FIXTURES = Path(__file__).parent.parent / "data" / "providers"
NAMES = sorted(path.stem for path in FIXTURES.glob("*.sse"))


def test_every_vendor_of_chat_completions_has_a_fixture():
    rows = {name for name, row in PROVIDERS.items() if row.api is Api.OPENAI_CHAT}
    assert rows - {"rehearsal"} == set(NAMES)  # the rehearsal has tests of its own


@pytest.mark.parametrize("name", NAMES)
def test_a_fixture_is_read_in_every_cutting(name: str):
    data = (FIXTURES / f"{name}.sse").read_bytes()
    expected = json.loads((FIXTURES / f"{name}.json").read_text(encoding="utf-8"))
    for chunks in cuttings.common(data):
        assert outcome(name, chunks) == {"serving_provider": None, "signature": None, **expected}


def outcome(name: str, chunks: list[bytes]) -> dict[str, Any]:
    normalizer = normalizer_for(name, "some-model", ["look_up"])
    events = [event for chunk in chunks for event in normalizer.feed(chunk)] + normalizer.flush()
    done = events[-1]
    assert isinstance(done, Done), done
    thoughts = [block for block in done.content if isinstance(block, ThinkingBlock)]
    calls = [block for block in done.content if isinstance(block, ToolCallBlock)]
    read: dict[str, Any] = {
        "text": "".join(block.text for block in done.content if isinstance(block, TextBlock)),
        "thinking": "".join(block.thinking for block in thoughts),
        "signature": thoughts[-1].thinking_signature if thoughts else None,
        "calls": [[call.id, call.name, call.arguments] for call in calls],
        "stop_reason": done.stop_reason.value,
        "usage": done.usage,
        "serving_provider": normalizer.meta.serving_provider,
    }
    if signatures := [call.thought_signature for call in calls if call.thought_signature]:
        read["call_signatures"] = signatures
    return read
