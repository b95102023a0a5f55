"""Segment cases against `SegmentBuffer`: every check of the corpus, in every cutting.

By default texts up to 1,000 characters are cut in two at every place, longer ones at every 13th;
with `--every-cut` (`make conformance`) all of them are cut everywhere. A case that sweeps is
hundreds of texts: they are cut at every 29th place then, and otherwise read whole, by one character
and by four.
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


def step_of(case: corpus.Case, text: str) -> int:
    """The distance of the places at which a text of the case is cut in two."""
    if "sweep" in case["expect"]:
        return 29 if corpus.cuts_everywhere() else len(text)
    return 1 if corpus.cuts_everywhere() or len(text) <= FULLY_CUT_CHARS else 13


@pytest.mark.parametrize("case", CASES)
def test_segments_are_those_of_the_case(case: corpus.Case):
    for chunks in swept(case):
        result = run(case, chunks)
        failures = list(segment_checks.failures(case["expect"], result))
        assert failures == [], (failures, result.texts[:5])


@pytest.mark.parametrize("case", CASES)
def test_every_cutting_gives_the_same_segments(case: corpus.Case):
    for chunks in swept(case):
        text = "".join(chunks)
        expected = run(case, chunks)
        for pieces in cuttings(text, step_of(case, text)):
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
