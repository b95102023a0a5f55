"""The rows of what the room changes: each example in both directions."""

import pytest

from tests.support.segmenting import texts
from worker.segments.rewrites import REWRITES, Rewrite, undone

NAMES = [rewrite.name for rewrite in REWRITES]


@pytest.mark.parametrize("rewrite", REWRITES, ids=NAMES)
def test_the_room_makes_the_change(rewrite: Rewrite):
    assert tuple(texts(rewrite.written)) == rewrite.sent


@pytest.mark.parametrize("rewrite", REWRITES, ids=NAMES)
def test_the_change_can_be_undone(rewrite: Rewrite):
    assert undone("\n".join(rewrite.sent)) == undone(rewrite.written)


def test_nothing_else_is_undone():
    assert undone("words (and) [links](https://e.org) `code` 1 > 0") == (
        "words(and)[links](https://e.org)`code`1>0"
    )
