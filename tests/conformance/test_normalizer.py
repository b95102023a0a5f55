"""Byte streams with their exact canonical events, cut in two and into small pieces.

By default each is cut in two at every eleventh place, with `--every-cut` at every one.
"""

from typing import Any

import pytest

from tests.support import corpus, cuttings, streams


def comparable(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Events with synthesised ids by order of appearance, and the raw facts of errors only."""
    names: dict[str, str] = {}

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(item) for key, item in value.items()}
        if isinstance(value, list):
            return [plain(item) for item in value]
        if isinstance(value, str) and value.startswith("call_") and len(value) == 17:
            return names.setdefault(value, f"synthesised {len(names)}")
        return value

    return [plain(event) for event in events]


@pytest.mark.parametrize("case", corpus.cases("normalizer_cases.json"))
def test_events_are_exactly_these_in_every_cutting(case: corpus.Case):
    data = case["input_escaped"].encode("latin-1")
    whole = streams.run(case["provider"], [data], model=case["requested_model"])
    assert comparable(whole.fields()) == comparable(case["events"])
    for name, value in case.get("meta", {}).items():
        assert getattr(whole.meta, name) == value
    step = 1 if corpus.cuts_everywhere() else 11
    for chunks in (*cuttings.common(data), *cuttings.two_way(data, step=step)):
        run = streams.run(case["provider"], chunks, model=case["requested_model"])
        assert run.events == whole.events, chunks[:3]
        assert run.meta == whole.meta
