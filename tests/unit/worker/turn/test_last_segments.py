"""The mark of a reply's last segment: a front then knows that nothing follows."""

import pytest

from tests.support.tool_case import DONE, ToolCase, call, calling, frame, saying
from tests.support.turn_ports import BREAK, ScriptedResponse

ECHO = call("echo", '{"text": "a result"}')
CUT = ScriptedResponse([frame(content="One.\n\nTwo, and"), BREAK])
ENDS = {
    "one paragraph": ([saying("Short.")], [True]),
    "several": ([saying("One.\n\nTwo.\n\nThree.")], [False, False, True]),
    "a blank line at its end": ([saying("One.\n\n")], [True]),
    "a tool is called first": (
        [calling(ECHO, say="Let me look."), saying("Found it.")],
        [False, True],
    ),
    "cut at its length": (
        [ScriptedResponse([frame(content="So far"), frame("length"), DONE])],
        [True],
    ),
}


@pytest.mark.parametrize(("answers", "marks"), ENDS.values(), ids=ENDS)
async def test_the_last_segment_says_that_it_is(answers: list[ScriptedResponse], marks: list[bool]):
    case = ToolCase(*answers)
    await case.run()
    assert [segment.is_last for segment in case.outbox.segments] == marks


async def test_nothing_of_a_reply_that_broke_is_its_last():
    case = ToolCase(CUT, CUT, CUT, CUT)
    await case.run()
    assert not any(segment.is_last for segment in case.outbox.segments)
