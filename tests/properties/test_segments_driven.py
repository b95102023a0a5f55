"""What holds when a driver ticks, stops for tools, and cleans: the room's other inputs."""

from hypothesis import given
from hypothesis import strategies as st

from shared.segments import DeliveryMode, Segment
from tests.properties.test_segments import bare, check_bounds
from tests.support.markdown_texts import wild
from tests.support.segmenting import MODES, in_pieces
from worker.segments.buffer import SegmentBuffer
from worker.segments.cleaning import Cleaning

modes = st.sampled_from(MODES)
CLEANING = Cleaning(
    own_names=("word", "B"),
    speakers=("xx", "これはペン"),
    emoji={"smile": "<:smile:123456789012345678>"},
    members={"word": 42},
)


def shown(segments: list[Segment]) -> str:
    return "".join(bare(segment.text) for segment in segments)


@given(wild(private=True), modes, st.lists(st.floats(0, 20), min_size=1, max_size=30))
def test_ticks_lose_nothing_and_keep_the_bounds(text: str, mode: DeliveryMode, pauses: list[float]):
    plain, ticked = SegmentBuffer("l1", 1, mode=mode), SegmentBuffer("l1", 1, mode=mode)
    expected = plain.feed(text) + plain.flush()
    now, found = 0.0, []
    for at, piece in enumerate(in_pieces(text, max(len(text) // len(pauses), 1))):
        now += pauses[at % len(pauses)]
        found += ticked.feed(piece) + ticked.tick(now)
    found += ticked.flush()
    check_bounds(found)
    assert shown(found) == shown(expected)
    assert ticked.thoughts == plain.thoughts


@given(st.lists(wild(private=True), max_size=4), modes, st.booleans(), st.integers(1, 9))
def test_a_reply_goes_on_behind_tool_calls(
    texts: list[str], mode: DeliveryMode, tool: bool, size: int
):
    whole, cut = SegmentBuffer("l1", 1, mode=mode), SegmentBuffer("l1", 1, mode=mode)
    expected, found = [], []
    for text in texts:
        expected += whole.feed(text) + whole.flush_pending(for_tool_call=tool)
        for piece in in_pieces(text, size):
            found += cut.feed(piece)
        found += cut.flush_pending(for_tool_call=tool)
    assert found == expected
    check_bounds(found)
    assert "".join(cut.history) == "".join(texts)


@given(wild(private=True), modes, st.integers(1, 9))
def test_cleaning_does_not_depend_on_the_cutting(text: str, mode: DeliveryMode, size: int):
    whole = SegmentBuffer("l1", 1, mode=mode, cleaning=CLEANING)
    cut = SegmentBuffer("l1", 1, mode=mode, cleaning=CLEANING)
    text = text.replace("word", "word: @word ").replace("x" * 50, "\nxx: ")
    expected = whole.feed(text) + whole.flush()
    found = [segment for piece in in_pieces(text, size) for segment in cut.feed(piece)]
    assert found + cut.flush() == expected
    check_bounds(expected)
