import msgspec
import pytest

from ops.replay.export import without_secrets
from ops.replay.recorded import Layer, Tape, bodies_of, difference, play
from shared.errors import WireError
from shared.messages import Message, Role
from shared.recording import Recording
from shared.secrets import Secret
from shared.turns import Front, Route, Target, TurnRequest
from tests.support import wire

HALVES = [
    wire.sse(wire.chat({"content": "One sentence. And"})),
    wire.sse(wire.chat({"content": " one more."}), wire.STOP, wire.DONE),
]
REQUEST = TurnRequest(
    turn_id="l1",
    route=Route(front=Front.LOCAL, channel_id=1234567, user_id=7654321, guild_id=None, reply_to=1),
    target=Target(provider="custom", model="m"),
    messages=[Message(role=Role.USER, content="what I asked")],
    created_ms=1,
    system="be secretive",
    persona="Mia",
)


def recorded(*bodies: bytes, limit: int = 1 << 20) -> bytes:
    recording = Recording(limit)
    for number, body in enumerate(bodies):
        recording.received(float(number), body)
    return recording.dump()


def test_bytes_events_chunks_and_segments_come_in_their_order():
    playback = play(Tape(request=REQUEST, attempt=2, recording=recorded(*HALVES)))
    layers = [step.layer for step in playback.steps]
    assert layers[:2] == [Layer.BYTES, Layer.EVENT]
    assert layers.index(Layer.CHUNK) < layers.index(Layer.SEGMENT)
    assert Layer.END in layers
    (segment,) = playback.segments
    assert (segment.text, segment.attempt) == ("One sentence. And one more.", 2)
    assert playback.is_whole


def test_a_recording_gives_the_same_steps_every_time():
    tape = Tape(request=REQUEST, attempt=1, recording=recorded(*HALVES))
    assert play(tape) == play(tape)


def test_the_target_that_was_really_asked_decides_the_dialect():
    recording = Recording()
    recording.asked(0.0, REQUEST.target)
    recording.received(1.0, b"".join(HALVES))
    other = msgspec.structs.replace(REQUEST, target=Target(provider="anthropic", model="m"))
    tape = Tape(request=other, attempt=1, recording=recording.dump())
    assert [one.text for one in play(tape).segments] == ["One sentence. And one more."]
    assert play(tape, lambda _: other.target).segments == []


def test_what_was_delivered_is_compared_by_lines():
    playback = play(Tape(request=REQUEST, attempt=1, recording=recorded(*HALVES)))
    assert difference(["One sentence. And one more."], playback.segments) == []
    assert "-One sentence." in difference(["One sentence."], playback.segments)


def test_each_answer_of_an_attempt_is_a_body_of_its_own():
    recording = Recording()
    for at_s, body in enumerate(HALVES):
        recording.asked(float(at_s), REQUEST.target)
        recording.received(float(at_s), body)
    assert bodies_of(recording.dump()) == HALVES


def test_a_gap_is_told():
    noise = [bytes([number % 251]) * 70_000 for number in range(60)]
    body = recorded(*HALVES, *noise, limit=600)
    assert not play(Tape(request=REQUEST, attempt=1, recording=body)).is_whole


def test_no_recording_is_an_error_of_ours():
    with pytest.raises(WireError):
        play(Tape(request=REQUEST, attempt=1, recording=b"rubbish"))


def test_an_export_keeps_bytes_unless_they_hold_a_key():
    clean = recorded(*HALVES)
    assert without_secrets(clean, [Secret("k-not-in-there-1234")]) == clean
    key = "sk-ant-api03-" + "a1B2" * 20
    echo = wire.sse(wire.chat({"content": f"your key is {key}"}), wire.STOP, wire.DONE)
    leaked = recorded(HALVES[0], echo[:60], echo[60:])
    (body,) = bodies_of(without_secrets(leaked, []))
    assert key.encode() not in body
    assert b"One sentence." in body
