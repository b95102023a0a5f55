"""Golden files: what a model of each format reads of a conversation.

`tests/data/conversations/*.json` has a channel's memory and a prompt (`in`) and the messages that
each target is asked with (`out`). To look at a change: TURNFLEET_TEST_GOLDEN=write.
"""

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from shared.history import Attachment, Reading, Remembered
from shared.messages import ImageBlock, Message, Role, TextBlock, ToolCallBlock
from shared.secrets import Secret
from shared.turns import Api, Target
from tests.support.turns import turn
from worker.providers.building import build_request
from worker.providers.conversation import BEFORE, Files, conversed, fitted, tokens_in
from worker.providers.requests import Endpoint, model_request

FOLDER = Path(__file__).parents[3] / "data" / "conversations"
CASES = sorted(path.stem for path in FOLDER.glob("*.json"))
TARGETS = {
    "anthropic": Target(provider="anthropic", model="claude-x"),
    "openai-chat": Target(provider="openai", model="gpt-x", api=Api.OPENAI_CHAT),
    "openai-responses": Target(provider="openai", model="gpt-x", api=Api.OPENAI_RESPONSES),
    "google": Target(provider="google", model="gemini-x"),
    "custom": Target(provider="somebody", model="llama"),
}
PARTS = ("system", "systemInstruction", "instructions", "messages", "input", "contents")
PLACE = Endpoint(base_url="https://host.invalid/v1", key=Secret("sk-test"))


class Case(msgspec.Struct, kw_only=True):
    about: str
    reading: Reading
    prompt: list[str]
    memory: list[Remembered] = []
    system: str | None = None
    merged: list[str] = []
    notes: list[str] = []
    texts: dict[int, str] = {}
    images: dict[int, ImageBlock] = {}
    refused: dict[int, str] = {}
    max_tokens: int = 8_000
    vision: bool = True


def asked(case: Case, target: Target) -> dict[str, Any]:
    """The parts of the request's body that hold what was said."""
    request = msgspec.structs.replace(
        turn(target=target),
        messages=[Message(role=Role.USER, content=text) for text in case.prompt],
        system=case.system,
        merged=tuple(case.merged),
        reading=case.reading,
    )
    files = Files(texts=case.texts, images=case.images, refused=case.refused)
    read = conversed(request, case.memory, files, max_tokens=case.max_tokens, notes=case.notes)
    question = msgspec.structs.replace(model_request(read), reads_images=case.vision)
    body: dict[str, Any] = json.loads(build_request(question, PLACE).body)
    return {name: body[name] for name in PARTS if name in body}


@pytest.mark.parametrize("name", CASES)
def test_what_a_model_reads(name: str):
    path = FOLDER / f"{name}.json"
    golden = json.loads(path.read_text(encoding="utf-8"))
    case = msgspec.convert(golden["in"], Case, strict=False)
    found = {kind: asked(case, target) for kind, target in TARGETS.items()}
    if os.environ.get("TURNFLEET_TEST_GOLDEN") == "write":
        golden["out"] = found
        path.write_text(json.dumps(golden, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    assert found == golden.get("out")


def said(number: int, text: str = "x" * 400, *, own: bool = False) -> Remembered:
    return Remembered(id=number, user_id=number, text=text, author="Ann", is_own=own)


def test_the_newest_stays_within_the_budget_and_what_is_answered_with_it():
    memory = [said(number) for number in range(1, 50)]
    reading = Reading(before=99, messages=40, reply_to=2, author="Bea")
    request = msgspec.structs.replace(turn(), reading=reading)
    read = conversed(request, memory, Files(), max_tokens=1_000)
    text = str(read.messages[0].content)
    assert text.count("x" * 400) == 9
    assert sum(tokens_in(str(one.content)) for one in read.messages[:-1]) < 1_050
    assert str(read.messages[-1].content).startswith('Bea: [in reply to Ann: "xxx')


def test_a_ring_of_replies_ends():
    one = Remembered(id=1, user_id=1, text="a", reply_to=2)
    two = Remembered(id=2, user_id=1, text="b", reply_to=1)
    request = msgspec.structs.replace(turn(), reading=Reading(before=9, reply_to=1))
    read = conversed(request, [one, two], Files(), max_tokens=100)
    assert len(read.messages) == 2


def test_a_turn_that_reads_nothing_is_as_it_was():
    assert conversed(turn(), [said(1)], Files(), max_tokens=100) == turn()


def test_a_reply_whose_question_is_gone_has_a_person_before_it():
    request = msgspec.structs.replace(turn(), reading=Reading(before=9))
    read = conversed(request, [said(1, own=True)], Files(), max_tokens=1_000)
    assert [message.role for message in read.messages] == [Role.USER, Role.ASSISTANT, Role.USER]
    assert read.messages[0].content == BEFORE


def test_a_question_is_shortened_by_whole_exchanges_until_its_answer_has_room():
    exchanges = [
        Message(role=role, content="x" * 400)
        for _ in range(5)
        for role in (Role.USER, Role.ASSISTANT)
    ]
    last = Message(role=Role.USER, content="and now?")
    request = msgspec.structs.replace(turn(), messages=[*exchanges, last])
    question = model_request(request)
    assert fitted(question, 100_000) is question
    shorter = fitted(question, 500)
    assert len(shorter.messages) == 5
    assert shorter.messages[0].role is Role.USER
    assert fitted(question, 1).messages == [last]


def test_a_reply_that_goes_on_keeps_its_own_words():
    """The name, the quotation and the files belong to the prompt, wherever it stands."""
    messages = [
        Message(role=Role.USER, content="Count."),
        Message(role=Role.ASSISTANT, content="One, two, th"),
        Message(role=Role.USER, content="Go on."),
    ]
    file = Attachment(id=9, name="n.txt", url="https://x/")
    reading = Reading(before=5, author="Ann", attachments=(file,))
    request = msgspec.structs.replace(turn(), messages=messages, reading=reading)
    read = conversed(request, [], Files(texts={9: "numbers"}), max_tokens=100)
    prompt, said, go_on = read.messages
    assert isinstance(prompt.content, list)
    assert isinstance(prompt.content[0], TextBlock)
    assert prompt.content[0].text == "Ann: Count."
    assert len(prompt.content) == 2
    assert (said, go_on) == (messages[1], messages[2])


def test_what_is_answered_and_does_not_fit_leaves_room_for_what_does():
    memory = [said(1, "y" * 40_000), said(2, "short"), said(3, "newest")]
    reading = Reading(before=99, messages=10, reply_to=1)
    request = msgspec.structs.replace(turn(), reading=reading)
    read = conversed(request, memory, Files(), max_tokens=200)
    text = " ".join(str(one.content) for one in read.messages)
    assert ("short" in text, "newest" in text, "y" * 1_000 in text) == (True, True, False)


PICTURE = ImageBlock(data="aGk=", mime_type="image/png")


def test_a_file_that_nobody_fetched_is_left_out():
    reading = Reading(before=9, attachments=(Attachment(id=5, name="a.txt", url="https://a"),))
    request = msgspec.structs.replace(turn(), reading=reading)
    (message,) = conversed(request, [], Files(), max_tokens=100).messages
    assert "a.txt" not in str(message.content)


@pytest.mark.parametrize(
    ("author", "files", "content"),
    [
        ("", Files(images={5: PICTURE}), [PICTURE]),
        ("Ann", Files(images={5: PICTURE}), [TextBlock(text="Ann: "), PICTURE]),
        ("", Files(), "[Picture a.png]"),
    ],
    ids=["in private", "among people", "it could not be fetched"],
)
def test_a_picture_alone_is_a_prompt_without_an_empty_text(author, files, content):
    file = Attachment(id=5, name="a.png", url="https://a", mime_type="image/png")
    reading = Reading(before=9, attachments=(file,), author=author)
    silent = [Message(role=Role.USER, content="")]
    request = msgspec.structs.replace(turn(), reading=reading, messages=silent)
    (message,) = conversed(request, [], files, max_tokens=100).messages
    assert message.content == content


def test_blocks_weigh_what_they_hold_and_a_picture_much():
    picture = ImageBlock(data="aGk=", mime_type="image/png")
    parted = Message(role=Role.USER, content=[TextBlock(text="x" * 400), picture])
    called = Message(role=Role.ASSISTANT, content=[ToolCallBlock(id="1", name="a", arguments={})])
    last = Message(role=Role.USER, content="and now?")
    request = msgspec.structs.replace(turn(), messages=[parted, called, parted, called, last])
    question = model_request(request)
    assert fitted(question, 100_000) is question
    assert fitted(question, 1_800).messages == [parted, called, last]
