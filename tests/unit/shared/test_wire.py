"""The wire form: frozen messages of every version stay readable, and bad bytes are refused.

`tests/data/wire/v1/` is never edited. A new field gets a default, and a new frozen message.
"""

import pickle
from pathlib import Path

import msgspec
import pytest

from shared import wire
from shared.errors import RequestTooLarge, WireError, WireVersionError
from shared.failures import ErrorReport, Fault, ReportCategory, Severity
from shared.messages import (
    ImageBlock,
    Message,
    OpaqueBlock,
    Role,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from shared.segments import (
    AttemptSuperseded,
    Segment,
    SegmentKind,
    SegmentReady,
    TurnDone,
    TurnFailed,
)
from shared.turns import (
    MAX_REQUEST_BYTES,
    Api,
    CredentialSource,
    Front,
    Route,
    Sampling,
    StopReason,
    Target,
    ToolSpec,
    TurnOutcome,
    TurnRequest,
    TurnState,
    Usage,
)

FROZEN = Path(__file__).parents[2] / "data" / "wire" / "v1"
SNOWFLAKE = 1187001234567890123
TOO_DEEP = b'{"new":' + b"[" * 5_000 + b"]" * 5_000 + b"}"

ROUTE = Route(
    front=Front.DISCORD,
    channel_id=SNOWFLAKE,
    user_id=SNOWFLAKE + 1,
    guild_id=SNOWFLAKE + 2,
    reply_to=SNOWFLAKE + 3,
    interaction="token",
    locale="de",
)
HISTORY = [
    Message(role=Role.SYSTEM, content="Be brief."),
    Message(
        role=Role.USER,
        content=[TextBlock(text="Look: 日本 🎉"), ImageBlock(mime_type="image/png", url="u")],
    ),
    Message(
        role=Role.ASSISTANT,
        provider="anthropic",
        model="claude-x",
        stop_reason="tool_use",
        content=[
            ThinkingBlock(thinking="hm", thinking_signature="SIG"),
            TextBlock(text="I look."),
            ToolCallBlock(id="call_1", name="look", arguments={"at": "it"}),
            OpaqueBlock(provider="anthropic", raw={"type": "server_tool_use"}),
        ],
    ),
    Message(
        role=Role.TOOL,
        tool_call_id="call_1",
        tool_name="look",
        is_error=False,
        content=[TextBlock(text="a cat")],
    ),
]
FULL_REQUEST = TurnRequest(
    turn_id="m1187001234567890126.2",
    route=ROUTE,
    target=Target(api=Api.ANTHROPIC, provider="anthropic", model="claude-x"),
    messages=HISTORY,
    created_ms=1_796_065_906_889,
    fallbacks=(Target(provider="openrouter", model="m"),),
    system="You are a bot.",
    tools=(ToolSpec(name="look", description="Looks.", parameters={"type": "object"}),),
    sampling=Sampling(max_tokens=512, temperature=0.5, top_p=0.9, stop=("X",), thinking="low"),
    credential_source=CredentialSource.PERSONAL,
    credential="cred_1",
    delivery_mode="line",
    replay_of="m1187001234567890126",
    persona="pirate",
)
SMALL_REQUEST = TurnRequest(
    turn_id="l1",
    route=Route(front=Front.LOCAL, channel_id=1, user_id=2),
    target=Target(provider="rehearsal", model="plain"),
    messages=[Message(role=Role.USER, content="hi")],
    created_ms=1,
)
USAGE = Usage(input=10, output=20, reasoning=5, cache_read=1, cache_write=0, total=30, cost=0.0)
EVENTS = {
    "event_segment": SegmentReady(
        segment=Segment(
            turn_id="l1", attempt=1, seq=1, kind=SegmentKind.TEXT, text="Hi 🎉", start=0, end=4
        )
    ),
    "event_table": SegmentReady(
        segment=Segment(
            turn_id="l1",
            attempt=2,
            seq=3,
            kind=SegmentKind.TABLE,
            text="| a |\n|---|\n| 1 |",
            start=4,
            end=21,
            filename="table.md",
            fallback=("```\na\n-\n1\n```",),
        )
    ),
    "event_superseded": AttemptSuperseded(attempt=1, by=2),
    "event_done": TurnDone(count=3, stop_reason=StopReason.LENGTH, usage=USAGE, notes=("length",)),
    "event_cancelled": TurnDone(count=0, state=TurnState.CANCELLED),
    "event_failed": TurnFailed(
        cause="rate_limited",
        category="rate_limit",
        count=1,
        headline="Too many requests.",
        tips=("Wait a little.",),
        fault="provider",
        code="429",
        report_id="r1",
        retryable=True,
    ),
}
REPORT = ErrorReport(
    id="01a22dde-d0c9-7e60-8e3a-4d93db054a8a",
    created_ms=1_796_065_906_889,
    severity=Severity.ERROR,
    category=ReportCategory.API_ERROR,
    error_type="invalid_key",
    stage="request",
    fault=Fault.CONFIG,
    message="bad key",
    http_status=401,
    turn_id="l1",
    attempt=1,
    guild_id=SNOWFLAKE,
    credential_source=CredentialSource.SERVER,
    metadata={"roles": ["user"]},
)
OUTCOME = TurnOutcome(
    state=TurnState.DONE,
    segments=2,
    stop_reason=StopReason.STOP,
    usage=USAGE,
    serving_provider="host",
    details=("a detail",),
    first_byte_ms=1,
    first_segment_ms=2,
    elapsed_ms=3,
)
VALUES: dict[str, msgspec.Struct] = {
    "request_full": FULL_REQUEST,
    "request_small": SMALL_REQUEST,
    "route": ROUTE,
    "report": REPORT,
    "outcome": OUTCOME,
    **EVENTS,
}
READERS = {
    "request": wire.decode_turn_request,
    "route": wire.decode_route,
    "report": wire.decode_report,
    "outcome": wire.decode_outcome,
    "event": wire.decode_turn_event,
}


def read(name: str, payload: bytes) -> msgspec.Struct:
    return READERS[name.partition("_")[0]](payload)


@pytest.mark.parametrize("name", VALUES)
def test_a_frozen_message_reads_as_its_value(name):
    assert read(name, (FROZEN / f"{name}.json").read_bytes()) == VALUES[name]


@pytest.mark.parametrize("name", VALUES)
def test_what_is_written_now_is_read_back(name):
    assert read(name, wire.encode_json(VALUES[name])) == VALUES[name]


def test_every_frozen_message_has_its_value_here():
    assert sorted(path.stem for path in FROZEN.iterdir()) == sorted(VALUES)


@pytest.mark.parametrize("name", VALUES)
def test_a_field_of_a_newer_writer_is_ignored(name):
    payload = (FROZEN / f"{name}.json").read_bytes()
    assert read(name, payload[:-1] + b',"new_in_2027":{"a":1}}') == VALUES[name]


@pytest.mark.parametrize("name", ["request_small", *READERS])
@pytest.mark.parametrize(
    "payload",
    [b"", b"\x00\xff", b"[]", b"null", b'{"cut":', pickle.dumps({"a": 1}), TOO_DEEP],
    ids=["nothing", "bytes", "array", "null", "cut", "pickle", "too_deep"],
)
def test_what_is_no_message_is_refused_and_not_run(name, payload):
    with pytest.raises(WireError, match="not a"):
        read(name, payload)


def test_a_request_of_another_version_says_what_to_do():
    payload = wire.encode_json(msgspec.structs.replace(SMALL_REQUEST, version=2))
    with pytest.raises(WireVersionError, match=r"version 2.*finish the deploy.*replay"):
        wire.decode_turn_request(payload)


def test_a_field_of_a_wrong_type_names_its_place():
    with pytest.raises(WireError, match=r"\$\.route"):
        wire.decode_turn_request(
            wire.encode_json(SMALL_REQUEST).replace(b'"channel_id":1', b'"channel_id":"x"')
        )


def test_a_request_at_the_limit_passes_and_one_byte_more_does_not():
    size = len(wire.encode_json(SMALL_REQUEST))
    fill = MAX_REQUEST_BYTES - size + len("hi")
    message = Message(role=Role.USER, content="x" * fill)
    fits = msgspec.structs.replace(SMALL_REQUEST, messages=[message])
    assert len(wire.encode_turn_request(fits)) == MAX_REQUEST_BYTES
    over = msgspec.structs.replace(fits, system="")
    with pytest.raises(RequestTooLarge, match=r"at most 262144.*send less history"):
        wire.encode_turn_request(over)


def test_snowflakes_keep_every_digit():
    decoded = wire.decode_turn_request(wire.encode_turn_request(FULL_REQUEST))
    assert decoded.route.channel_id == SNOWFLAKE
