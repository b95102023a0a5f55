"""Every stream again, each event with a flaw that the strict decoder refuses: it says the same.

The flaw is a raw control character in a member that nobody reads, so that the event goes through
the lenient decoder into the same handler.
"""

import re

import msgspec
import pytest

from tests.conformance import test_provider_streams, test_recordings
from tests.support import corpus, streams

BEGINNING = re.compile(rb'^(data: ?\{)(?=\s*")', re.MULTILINE)
ALL = [
    *corpus.cases("normalizer_cases.json"),
    *corpus.cases("provider_cases.jsonl", where=test_provider_streams.is_ours),
    *corpus.recordings(),
]


def flawed(body: bytes) -> bytes:
    return BEGINNING.sub(b'\\1"flaw":"\x01",', body)


def test_flaw_is_one():
    with pytest.raises(msgspec.DecodeError):
        msgspec.json.decode(flawed(b'data: {"a":1}')[6:], type=msgspec.Raw)


@pytest.mark.parametrize("case", ALL)
def test_lenient_way_gives_the_same_events(case: corpus.Case | corpus.Recording):
    if isinstance(case, corpus.Recording):
        body = case.path.read_bytes()
        strict, lenient = (test_recordings.run(case, [data]) for data in (body, flawed(body)))
    else:
        escaped = case.get("input_escaped")
        body = test_provider_streams.body(case) if escaped is None else escaped.encode("latin-1")
        tools = [tool["name"] for tool in case.get("context", {}).get("tools", [])]
        strict, lenient = (
            streams.run(case["provider"], [data], tools=tools) for data in (body, flawed(body))
        )
    assert lenient.events == strict.events
    assert lenient.meta.usage == strict.meta.usage
    assert lenient.meta.raw_stop_reason == strict.meta.raw_stop_reason
