import msgspec
import pytest

from ops.replay.anonymous import CHANGED, KEPT, StandIns, anonymous, mark, said_in
from ops.replay.recorded import Playback, Tape, difference, play
from shared.history import Attachment, Reading
from shared.recording import Recording
from shared.turns import Front, Route, Speaker, Target, TurnRequest
from tests.support import wire
from tests.support.turns import turn

PROMPT, REPLIED, MERGED = 111222333444555666, 111222333444555001, 111222333444555665
ANN, BOB, FILE, EMOJI, OTHER_EMOJI = (
    175928847299117063,
    175928847299117064,
    5151515151515151515,
    7171717171717171717,
    7171717171717171718,
)
CHANNEL, THREAD, USER, GUILD = 2**60 + 1, 2**60 + 2, 2**60 + 3, 2**60 + 4
IDS = (PROMPT, REPLIED, MERGED, ANN, BOB, FILE, EMOJI, OTHER_EMOJI, CHANNEL, THREAD, USER, GUILD)
KEY = b"a key of one export"
DROPPED = {
    TurnRequest: {"system", "credential", "persona", "merged"},
    Route: {"reply_to", "interaction", "speaker"},
    Reading: {"author", "attachments", "reply_to"},
}
"""What nobody else may read, and no room does."""


def asked(reading: Reading | None = None) -> TurnRequest:
    request = turn(
        f"m{PROMPT}",
        reading=reading or read(),
        merged=(f"m{MERGED}",),
        replay_of=f"m{PROMPT}",
        continue_of=f"m{REPLIED}",
        target=Target(provider="custom", model="m"),
        system="Be secretive.",
        credential="a-sealed-key",
        persona="mia",
    )
    route = Route(
        front=Front.DISCORD,
        channel_id=THREAD,
        user_id=USER,
        guild_id=GUILD,
        reply_to=PROMPT,
        interaction="a-token-of-an-interaction",
        parent_id=CHANNEL,
        speaker=Speaker(name="Mia Persona", avatar="https://cdn.example/avatars/9.png"),
    )
    return msgspec.structs.replace(request, route=route)


def read(**changes: object) -> Reading:
    attachment = Attachment(
        id=FILE,
        name="my-diagnosis.txt",
        url=f"https://cdn.example/attachments/{CHANNEL}/{FILE}/my-diagnosis.txt?hm=abc",
    )
    reading = Reading(
        before=PROMPT,
        reply_to=REPLIED,
        author="Carol Author",
        own_name="Mia Persona",
        members=(("Ann", ANN), ("Bob Private", BOB)),
        speakers=("Ann", "Bob Private"),
        emoji=(("wave", f"<a:wave:{EMOJI}>"), ("secretparty", f"<:secretparty:{OTHER_EMOJI}>")),
        attachments=(attachment,),
        details_hours=2.0,
    )
    return msgspec.structs.replace(reading, **changes)


def recorded(*contents: str) -> bytes:
    recording = Recording()
    for number, content in enumerate(contents):
        recording.received(float(number), wire.sse(wire.chat({"content": content})))
    recording.received(9.0, wire.sse(wire.STOP, wire.DONE))
    return recording.dump()


def played(request: TurnRequest, recording: bytes) -> Playback:
    return play(Tape(request=request, attempt=1, recording=recording))


def exported(request: TurnRequest, recording: bytes) -> tuple[TurnRequest, StandIns]:
    stand_ins = StandIns(said_in(Tape(request=request, attempt=1, recording=recording)), KEY)
    return anonymous(request, stand_ins), stand_ins


@pytest.mark.parametrize("kind", [TurnRequest, Route, Reading])
def test_every_field_is_kept_on_purpose_changed_or_dropped(kind: type[msgspec.Struct]):
    judged = [*KEPT[kind], *CHANGED[kind], *DROPPED[kind]]
    assert sorted(judged) == sorted(field.name for field in msgspec.structs.fields(kind))


def test_nobody_of_whom_the_reply_does_not_speak_is_in_a_request():
    request, _ = exported(asked(), recorded("Hello."))
    body = msgspec.json.encode(request).decode()
    names = ("Ann", "Bob", "Private", "Carol", "Mia", "diagnosis", "secretparty", "wave")
    more = ("hello", "secretive", "sealed", "mia", "cdn.example", "a-token-of", "avatars")
    for private in (*map(str, IDS), *names, *more):
        assert private not in body, private
    assert request.turn_id == mark(f"m{PROMPT}", KEY) != mark(f"m{PROMPT}", b"another")


def test_names_of_the_reply_stay_with_other_ids():
    request, _ = exported(asked(), recorded("Hi @a", "nn, see :wa", "ve: "))
    reading = request.reading
    assert reading is not None
    ((name, user_id),) = reading.members
    assert (name, user_id != ANN, len(str(user_id))) == ("Ann", True, len(str(ANN)))
    assert reading.speakers == ("Ann",)
    ((emoji, form),) = reading.emoji
    assert (emoji, str(EMOJI) in form, len(form)) == ("wave", False, len(f"<a:wave:{EMOJI}>"))


REPLIES = [
    ("Hi @[Ann|3] and @{bob private}, look: :wave:\n\nMore.",),
    ("Mia Persona: Hi @An", "n.\n\n**Mia Persona:** and @[Bob Priv", "ate]"),
    ("Hi.\n\nAnn: I ask", " something else."),
    (f"Hi @[Nobody|{ANN}] and <@{BOB}>, a number: {GUILD}.",),
    ("Annabel and @Annabel say :waves: to @everyone.",),
    (*("Long words. " * 100 for _ in range(3)), "@Ann " * 90),
]


@pytest.mark.parametrize("contents", REPLIES, ids=lambda contents: contents[0][:20])
def test_an_anonymous_case_is_cut_and_cleaned_as_the_real_one(contents: tuple[str, ...]):
    recording = recorded(*contents)
    request, stand_ins = exported(asked(), recording)
    real, other = played(asked(), recording), played(request, recording)
    assert [one.text for one in other.segments] == [
        stand_ins.text(one.text) for one in real.segments
    ]
    assert [len(one.text) for one in other.segments] == [len(one.text) for one in real.segments]
    delivered = [stand_ins.text(one.text) for one in real.segments]
    assert difference(delivered, other.segments) == []


CALLED = wire.sse(wire.chat_call("look", "{}", index=0, id="c"), wire.STOP, wire.DONE)
ENDED = wire.sse(wire.STOP, wire.DONE)


@pytest.mark.parametrize("end", [CALLED, ENDED], ids=["called", "rooms crash on what follows"])
def test_a_name_at_the_start_of_a_later_answer_is_one_of_the_reply(end: bytes):
    recording = Recording()
    for at_s, content in enumerate(["So it is. And", "Ann: I ask something."]):
        recording.asked(float(at_s), Target(provider="custom", model="m"))
        recording.received(float(at_s), wire.sse(wire.chat({"content": content})) + end)
    tape = Tape(request=asked(), attempt=1, recording=recording.dump())
    assert StandIns(said_in(tape), KEY).is_said("Ann")


def test_a_number_has_one_stand_in_and_no_other_has_it():
    stand_ins = StandIns("", KEY)
    numbers = {stand_ins.number(real) for real in IDS}
    assert numbers == {stand_ins.number(real) for real in IDS}
    assert (len(numbers), numbers & set(IDS)) == (len(IDS), set())


def test_ids_in_the_words_of_an_error_become_others():
    stand_ins = StandIns("", KEY)
    kept = f"1700000000000, 0.12345678901234567, {'c0ffee' * 3}{ANN}"
    text = f"guild{CHANNEL} user.{ANN}: m{PROMPT}.2 of <@{ANN}>b at {kept}"
    other = stand_ins.text(text).replace(kept, "kept")
    for number in (CHANNEL, PROMPT, ANN):
        assert str(number) not in other
        assert str(stand_ins.number(number)) in other
    assert other.endswith(" at kept")


def test_a_request_without_a_reading_has_none():
    request, _ = exported(msgspec.structs.replace(asked(), reading=None), recorded("Hi."))
    assert request.reading is None
