"""Calls for the turn loop: what may run, and what the model hears about the rest."""

import pytest

from shared.messages import ArgumentState, ToolCallBlock
from worker.chunks.pieces import Called
from worker.chunks.tool_arguments import REFUSALS, call_of_block, call_of_prose, refusal


def block(arguments: object = None, **facts: object) -> ToolCallBlock:
    return ToolCallBlock(id="c", name="n", arguments=arguments or {}, **facts)  # type: ignore[arg-type]  # facts vary


def test_every_state_but_ok_is_refused_in_words_that_say_nothing_ran():
    assert set(REFUSALS) == set(ArgumentState) - {ArgumentState.OK}
    for text in REFUSALS.values():
        assert "not executed" in text
        assert "nothing was changed" in text


@pytest.mark.parametrize(
    ("given", "states", "state"),
    [
        (block({"a": 1}), {}, ArgumentState.OK),
        (block(arguments_truncated=True), {}, ArgumentState.TRUNCATED),
        (block(arguments_truncated=True), {"c": ArgumentState.INVALID}, ArgumentState.INVALID),
        (block([1]), {}, ArgumentState.NOT_OBJECT),
    ],
)
def test_state_of_a_block(given, states, state):
    call = call_of_block(given, states)
    assert (call.state, call.arguments_truncated) == (state, state is not ArgumentState.OK)
    assert refusal(call) == REFUSALS.get(state)


def test_a_block_keeps_its_signature():
    assert call_of_block(block(thought_signature="s"), {}).thought_signature == "s"


def test_a_call_of_the_prose_has_the_same_id_when_it_is_read_again():
    called = Called("n", {"a": 1}, ArgumentState.OK)
    first, again = (call_of_prose(called, 0, "resp") for _ in range(2))
    assert first == again
    assert first.id not in {call_of_prose(called, 1, "resp").id, call_of_prose(called, 0, None).id}
    assert first.id.startswith("call_")


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (ArgumentState.OK, ArgumentState.TRUNCATED),
        (ArgumentState.INVALID, ArgumentState.INVALID),
    ],
)
def test_a_call_of_a_prose_with_a_hole_counts_as_cut(state, expected):
    called = Called("n", {"a": 1}, state)
    assert call_of_prose(called, 0, None, has_hole=True).state is expected
    assert call_of_prose(called, 0, None).state is state
