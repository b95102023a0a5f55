"""What the rooms know of the channel: own name, people, emoji, and where somebody else begins."""

import json

import msgspec

from shared.history import Reading
from shared.segments import DeliveryMode
from shared.turns import StopReason
from tests.support.turns import turn
from worker.turn.pipeline import Pipeline, pipeline_for


def frame(text: str, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish}
    return b"data: " + json.dumps({"id": "c", "model": "m", "choices": [choice]}).encode() + b"\n\n"


def pipeline(**facts: object) -> Pipeline:
    given = {"before": 9, "own_name": "Ada", "members": (("Ann", 5),), **facts}
    reading = Reading(**given)  # type: ignore[arg-type]  # facts by name
    request = msgspec.structs.replace(
        turn(), reading=reading, delivery_mode=DeliveryMode.LINE.value
    )
    return pipeline_for(request, request.target, 1)


def test_the_own_name_is_no_label_and_names_become_mentions():
    rooms = pipeline(emoji=(("wave", "<:wave:7>"),))
    segments = rooms.feed(frame("Ada: hello @Ann :wave:\n", "stop") + b"data: [DONE]\n\n")
    segments += rooms.flush()
    assert [segment.text for segment in segments] == ["hello <@5> <:wave:7>"]


def test_a_reply_ends_where_the_model_speaks_for_somebody_else():
    rooms = pipeline(speakers=("Ann",))
    segments = rooms.feed(frame("My answer.\nAnn: thank you!\n"))
    segments += rooms.feed(frame("And more.\n"))
    assert rooms.end is not None  # the driver closes the stream
    segments += rooms.flush()
    assert [segment.text for segment in segments] == ["My answer."]
    assert rooms.stop_reason is StopReason.STOP
    assert not rooms.goes_on


def test_without_the_guard_another_name_is_text():
    rooms = pipeline()
    segments = rooms.feed(frame("My answer.\nAnn: thank you!\n", "stop") + b"data: [DONE]\n\n")
    segments += rooms.flush()
    assert "".join(segment.text for segment in segments) == "My answer.Ann: thank you!"
