import pytest

from shared.messages import ArgumentState
from shared.turns import Api
from tests.support import streams, wire
from worker.normalize.events import Done, StreamFailed, TextDelta, event_fields
from worker.normalize.normalizer import MAX_UNDECODABLE_IN_A_ROW, feed_chunk
from worker.normalize.sse import MAX_LINE_BYTES, MAX_RESPONSE_BYTES
from worker.providers import normalizer_for
from worker.providers.streams import new


def failure(run: streams.Run) -> str | None:
    assert isinstance(run.end, StreamFailed)
    return run.end.reason.code


def test_feed_after_flush_is_misuse_and_a_second_flush_is_empty():
    normalizer = normalizer_for("custom", "m")
    assert len(normalizer.flush()) == 1
    assert normalizer.flush() == []
    with pytest.raises(RuntimeError):
        normalizer.feed(b"")


def test_nothing_comes_after_the_terminal_event():
    normalizer = normalizer_for("custom", "m")
    events = normalizer.feed(wire.sse(wire.STOP, wire.DONE, wire.chat({"content": "late"})))
    assert isinstance(events[-1], Done)
    assert normalizer.feed(wire.sse(wire.chat({"content": "late"}))) == []
    assert normalizer.flush() == []


def test_list_that_was_returned_is_the_callers():
    normalizer = normalizer_for("custom", "m")
    events = normalizer.feed(b"")
    assert len(normalizer.flush()) == 1
    assert events == []


def test_marker_without_its_blank_line_ends_the_stream():
    run = streams.run("custom", [wire.sse(wire.STOP) + b"data: [DONE]"])
    assert isinstance(run.end, Done)


def test_seeds_form_returns_events_and_state():
    state = new("custom", "m")
    events, state = feed_chunk(state, wire.sse(wire.chat({"content": "a"})))
    assert events[-1] == TextDelta(index=0, delta="a")
    assert state.meta.response_id == "c1"


@pytest.mark.parametrize(
    ("provider", "body", "code"),
    [
        ("custom", b"", "empty_stream"),
        ("custom", b": keepalive\n\n", "empty_stream"),
        ("custom", b"data: [DONE]\n\n", "empty_stream"),
        ("custom", wire.sse(wire.chat({"content": "a"})), "stream_truncated"),
        ("anthropic", b"data: [DONE]\n\n", "empty_stream"),
        ("google", wire.sse(wire.gemini({"text": "a"})), "stream_truncated"),
        ("custom", b"<html>502</html>", "empty_stream"),
        ("custom", b"{not json", "empty_stream"),
        ("custom", b"{not json}", "empty_stream"),
        ("custom", b"[not json", "empty_stream"),
        ("custom", b'"text"', "empty_stream"),
    ],
)
def test_end_without_a_finish_signal_is_a_failure(provider: str, body: bytes, code: str):
    run = streams.run(provider, [body])
    assert failure(run) == code
    assert run.meta.error_body is not None


def test_page_instead_of_a_stream_is_kept_for_the_report():
    assert streams.run("custom", [b"<html>\n502</html>"]).meta.stray == "<html>\n502</html>"


@pytest.mark.parametrize("lost", [b"data: {broken\n\n", b"data: [broken\n\n", b'data: {"a":"\n\n'])
def test_lost_event_is_skipped_and_its_open_calls_may_not_run(lost: bytes):
    body = (
        wire.sse(wire.chat_call("f", '{"a":1', index=0, id="c"))
        + lost
        + wire.sse(wire.chat_call(None, "}", index=0), wire.STOP, wire.DONE)
    )
    run = streams.run("custom", [body])
    assert isinstance(run.end, Done)
    assert run.meta.skipped == 1
    assert run.meta.argument_states == {"c": ArgumentState.TRUNCATED}


def test_three_lost_events_in_a_row_end_the_stream():
    lost = "{broken"
    good = wire.chat({"content": "a"})
    assert MAX_UNDECODABLE_IN_A_ROW == 3
    kept = wire.sse(good, lost, lost, "ping", good, lost, lost, [good], wire.STOP, wire.DONE)
    run = streams.run("custom", [kept])
    assert isinstance(run.end, Done)
    assert (run.joined("text_delta"), run.meta.skipped) == ("aaa", 4)
    run = streams.run("custom", [wire.sse(good, lost, "null", lost, lost, good)])
    assert failure(run) == "malformed_event"


def test_event_that_came_as_a_list_is_read_element_by_element():
    good, ragged = wire.chat({"content": "a"}), wire.chat({"content": "\ud83d"})
    run = streams.run("custom", [wire.sse([good, 5, good], [ragged, []], wire.STOP, wire.DONE)])
    assert run.joined("text_delta") == "aa\ufffd"


@pytest.mark.parametrize("data", ["plain words", '{"message":"m"}', '{"error":"m"}'])
def test_event_named_error_is_one(data: str):
    run = streams.run("custom", [b"event: error\ndata: " + data.encode() + b"\n\n"])
    assert isinstance(run.end, StreamFailed)
    assert run.end.reason.message in ("plain words", "m")


def test_error_behind_the_stream_without_a_data_field_is_read():
    body = wire.sse(wire.chat({"content": "a"})) + b'{"error":{"code":"overloaded","message":"m"}}'
    assert failure(streams.run("custom", [body])) == "overloaded"
    body = wire.sse(wire.chat({"content": "a"})) + b'{"hint":1}'
    assert failure(streams.run("custom", [body])) == "stream_truncated"


COMPLETION = {
    "id": "c1",
    "model": "gpt-x",
    "choices": [{"index": 0, "message": {"content": "Hi"}, "finish_reason": "length"}],
}
MESSAGE = {
    "type": "message",
    "id": "m1",
    "model": "claude-x",
    "content": [
        {"type": "text", "text": "Hi"},
        {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}},
        5,
    ],
    "stop_reason": "max_tokens",
}
RESPONSE = {
    "object": "response",
    "id": "r1",
    "model": "gpt-x",
    "status": "incomplete",
    "output": [{"type": "message", "content": [{"type": "output_text", "text": "Hi"}]}],
}
ANSWER = wire.gemini({"text": "Hi"}, finish="MAX_TOKENS")


@pytest.mark.parametrize(
    ("provider", "body"),
    [
        ("custom", COMPLETION),
        ("openai", RESPONSE),
        ("anthropic", MESSAGE),
        ("google", ANSWER),
        ("google", [wire.gemini({"text": "H"}), wire.gemini({"text": "i"}, finish="MAX_TOKENS")]),
    ],
    ids=["chat", "responses", "anthropic", "google", "google as an array"],
)
@pytest.mark.parametrize("indent", [None, 2])
def test_body_instead_of_a_stream_is_one_completion(provider: str, body: object, indent: int):
    run = streams.run(provider, [wire.body(body, indent=indent)])
    assert isinstance(run.end, Done)
    assert run.joined("text_delta") == "Hi"
    assert run.end.stop_reason == "length"


def test_body_that_does_not_say_why_it_stopped_is_complete():
    body = wire.body({"choices": [{"message": {"content": "Hi"}}]})
    assert isinstance(streams.run("custom", [body]).end, Done)


@pytest.mark.parametrize("provider", ["custom", "anthropic", "google", "openai-responses"])
def test_error_instead_of_a_stream_is_that_error(provider: str):
    error = {"error": {"code": "overloaded", "message": "m"}}
    for body in (wire.body(error), wire.body([error, error])):
        assert failure(streams.run(provider, [body])) == "overloaded"


@pytest.mark.parametrize(
    "body",
    [b"data: " + b"x" * MAX_LINE_BYTES + b"\n\n", (b":" * 2**20 + b"\n") * 65],
    ids=["line", "response"],
)
def test_limits_of_the_transport_end_the_stream(body: bytes):
    assert len(body) > min(MAX_LINE_BYTES, MAX_RESPONSE_BYTES)
    run = streams.run("custom", [wire.sse(wire.chat({"content": "a"})), body])
    assert failure(run) == "limit_exceeded"
    assert run.joined("text_delta") == "a"


def test_dialect_is_sniffed_from_the_first_object_that_shows_it():
    responses = wire.named(
        {"type": "response.created", "response": {"model": "gpt-x"}},
        {"type": "response.output_text.delta", "output_index": 0, "delta": "a"},
        {"type": "response.completed", "response": {"status": "completed"}},
    )
    chat = wire.sse(wire.chat({"content": "a"}), wire.STOP, wire.DONE)
    for body in (responses, b"data: ping\n\ndata: {}\n\n" + responses, chat):
        run = streams.run("custom", [body])
        assert isinstance(run.end, Done)
        assert run.joined("text_delta") == "a"


def test_explicit_format_is_not_sniffed():
    normalizer = normalizer_for("openai", "m", api=Api.ANTHROPIC)
    normalizer.feed(wire.claude({"type": "ping"}))
    assert normalizer.meta.raw_stop_reason == "end_turn"


@pytest.mark.parametrize(
    "data",
    ["{" * 100_000, '{"choices":' + "[" * 100_000, '{"id":"x","a":' + "[" * 980 + "]" * 980 + "}"],
)
def test_deep_nesting_is_an_undecodable_event(data: str):
    run = streams.run("custom", [wire.sse(wire.chat({"content": "a"}), data, wire.STOP)])
    assert run.joined("text_delta") == "a"


def test_terminal_event_is_written_as_the_seed_has_it():
    run = streams.run("custom", [wire.sse(wire.chat_call("f", "", index=0, id="c"), wire.STOP)])
    assert event_fields(run.end) == {
        "type": "done",
        "stop_reason": "tool_use",
        "content": [{"type": "toolCall", "id": "c", "name": "f", "arguments": {}}],
        "usage": {},
    }
    error = streams.run("custom", [wire.sse({"error": "m"})]).end
    assert event_fields(error) == {"type": "error", "reason": {"code": None, "message": "m"}}
