"""Segment cases against `SegmentBuffer`: every check of the corpus, in every cutting.

By default texts up to 1,000 characters are cut in two at every place, longer ones at every 13th;
with `--every-cut` (`make conformance`) all of them are cut everywhere.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from shared.segments import DeliveryMode
from tests.support import corpus, segment_checks
from tests.support.segmenting import Run, cuttings

FULLY_CUT_CHARS = 1000
CASES = corpus.cases("segment_cases.json")


def swept(case: corpus.Case) -> Iterator[list[str]]:
    """The chunks of a case, with each of its paddings in front."""
    sweep = case["expect"].get("sweep")
    if sweep is None:
        yield case["chunks"]
        return
    first, *rest = case["chunks"]
    for count in range(sweep["from"], sweep["to"], sweep["step"]):
        yield [sweep["pad"] * count + first, *rest]


def run(case: corpus.Case, chunks: list[str]) -> Run:
    return Run(chunks, DeliveryMode(case["mode"]), end=case["end"])


@pytest.mark.parametrize("case", CASES)
def test_segments_are_those_of_the_case(case: corpus.Case):
    for chunks in swept(case):
        result = run(case, chunks)
        failures = list(segment_checks.failures(case["expect"], result))
        assert failures == [], (failures, result.texts[:5])


@pytest.mark.parametrize("case", CASES)
def test_every_cutting_gives_the_same_segments(case: corpus.Case):
    everywhere = corpus.cuts_everywhere()
    for chunks in swept(case):
        text = "".join(chunks)
        expected = run(case, chunks)
        many = "sweep" in case["expect"] and not everywhere
        step = 1 if everywhere or len(text) <= FULLY_CUT_CHARS else 13
        for pieces in cuttings(text, len(text) if many else step):
            cut = run(case, pieces)
            assert cut.segments == expected.segments, [len(piece) for piece in pieces][:3]
            assert cut.buffer.thoughts == expected.buffer.thoughts
            assert cut.buffer.details == expected.buffer.details


@pytest.mark.parametrize("case", CASES)
def test_segments_are_out_as_early_as_the_case_says(case: corpus.Case):
    for at, count in case["expect"].get("early", []):
        text = "".join(case["chunks"])
        buffer = Run([], DeliveryMode(case["mode"]), end="none").buffer
        out: list[Any] = [segment for char in text[:at] for segment in buffer.feed(char)]
        assert len(out) >= count, (at, [segment.text for segment in out])
