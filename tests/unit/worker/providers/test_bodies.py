"""The pieces that every builder uses."""

from shared.messages import Message, Role, TextBlock
from worker.providers.bodies import blocks_of


def test_a_string_is_one_block_and_a_blank_one_is_none():
    assert blocks_of(Message(role=Role.USER, content="hi")) == [TextBlock(text="hi")]
    assert blocks_of(Message(role=Role.USER, content=" ")) == []
