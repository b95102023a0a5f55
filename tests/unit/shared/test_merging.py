"""Two prompts as one turn: what both of them bring is in it."""

import msgspec
import pytest

from shared.history import Attachment, Reading
from shared.merging import MAX_MERGED, merged
from shared.turns import Sampling, TurnRequest
from tests.support.turns import turn


def reading(before: int, *, reply_to: int | None = None, file: int | None = None) -> Reading:
    files = () if file is None else (Attachment(id=file, name=f"{file}.txt", url="https://x/"),)
    return Reading(before=before, reply_to=reply_to, attachments=files)


def both(older: TurnRequest, newer: TurnRequest) -> TurnRequest:
    found = merged(older, newer)
    assert found is not None
    return found


def test_files_of_both_prompts_and_what_the_first_one_answers_are_read():
    older = turn("m1", reading=reading(1, reply_to=77, file=10))
    newer = turn("m2", reading=reading(2, file=20))
    found = both(older, newer).reading
    assert found is not None
    assert [one.id for one in found.attachments] == [10, 20]
    assert (found.before, found.reply_to) == (2, 77)


def test_the_newer_prompt_says_what_is_answered():
    older = turn("m1", reading=reading(1, reply_to=77))
    newer = turn("m2", reading=reading(2, reply_to=78))
    found = both(older, newer).reading
    assert found is not None
    assert found.reply_to == 78


def test_turns_that_read_nothing_else_are_merged_all_the_same():
    found = both(turn("m1"), turn("m2"))
    assert found.reading is None
    assert len(found.messages) == 2


@pytest.mark.parametrize(
    "change",
    [
        {"tool_names": ("calculate",)},
        {"sampling": Sampling(max_tokens=9)},
        {"persona": "poet"},
        {"credential": "server/1/openai"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_what_wants_another_answer_stays_apart(change: dict[str, object]):
    newer = msgspec.structs.replace(turn("m2"), **change)
    assert merged(turn("m1"), newer) is None


def test_an_answer_comes_after_some_prompts():
    full = turn("m1", merged=tuple(f"m{n}" for n in range(2, 1 + MAX_MERGED)))
    assert merged(full, turn("m99")) is None
