"""WHATWG event-stream cases against `SSEDecoder`, whole and in every two-way cutting."""

import pytest

from tests.support import corpus, cuttings
from worker.normalize.sse import SSEDecoder


def decode(chunks: list[bytes]) -> list[list[str]]:
    decoder = SSEDecoder()
    events = [event for chunk in chunks for event in decoder.feed(chunk)]
    return [
        [event.name, event.data.decode("utf-8", "replace"), event.last_event_id] for event in events
    ]


@pytest.mark.parametrize("case", corpus.cases("sse_cases.json"))
def test_events_are_those_of_the_standard_in_every_cutting(case: corpus.Case):
    data = case["input_latin1"].encode("latin-1")
    for chunks in (*cuttings.common(data), *cuttings.two_way(data)):
        assert decode(chunks) == case["events"], chunks[:3]
