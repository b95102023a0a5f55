import json
from pathlib import Path

import msgspec
import pytest

from ops.replay.export import FACTS, Exported
from shared.recording import Recording
from shared.turns import Target, ToolSpec
from tests.support import wire
from tests.support.cli import Command
from tests.support.turns import turn

CHAT = wire.sse(wire.chat({"content": "Hi"}), wire.STOP, wire.DONE)


@pytest.fixture
def turnfleet(tmp_path: Path) -> Command:
    return Command(tmp_path, {})


@pytest.fixture
def recording(tmp_path: Path) -> str:
    path = tmp_path / "reply.sse"
    path.write_bytes(CHAT)
    return str(path)


def test_a_line_per_file_has_its_events_and_its_side_data(turnfleet: Command, recording: str):
    arguments = ["normalize", recording, recording, "--provider", "custom", "--model", "m"]
    result = turnfleet(*arguments, "-o", "ndjson")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert len(lines) == 2
    assert json.loads(lines[0]) == json.loads(lines[1])
    assert json.loads(lines[0]) == {
        "file": recording,
        "events": [
            {"type": "start", "model": "gpt-x", "provider": "custom"},
            {"type": "text_delta", "index": 0, "delta": "Hi"},
            {
                "type": "done",
                "stop_reason": "stop",
                "content": [{"type": "text", "text": "Hi"}],
                "usage": {},
            },
        ],
        "meta": {"response_id": "c1", "raw_stop_reason": "stop"},
    }


def test_pieces_change_nothing(turnfleet: Command, recording: str):
    whole = turnfleet("normalize", recording, "--provider", "custom", "-o", "json")
    cut = turnfleet("normalize", recording, "--provider", "custom", "-o", "json", "--cut", "3")
    assert cut.stdout == whole.stdout


def test_table_and_csv_have_a_row_per_event(turnfleet: Command, recording: str):
    table = turnfleet("normalize", recording, "--provider", "custom").stdout
    assert [word for word in ("text_delta", "Hi", "raw_stop_reason") if word not in table] == []
    rows = turnfleet("normalize", recording, "--provider", "custom", "-o", "csv").stdout
    assert len(rows.splitlines()) == 4


def test_tools_and_format_are_told(turnfleet: Command, tmp_path: Path):
    split = wire.sse(
        wire.chat_call("get_", "", index=0, id="c"),
        wire.chat_call("weather", "{}", index=0),
        wire.STOP,
    )
    (tmp_path / "split.sse").write_bytes(split)
    arguments = ["normalize", str(tmp_path / "split.sse"), "--provider", "openai", "-o", "ndjson"]
    plain = json.loads(turnfleet(*arguments).stdout)
    told = json.loads(turnfleet(*arguments, "--tool", "get_weather").stdout)
    assert plain["events"][-1]["content"][0]["name"] == "get_"
    assert told["events"][-1]["content"][0]["name"] == "get_weather"
    other = json.loads(turnfleet(*arguments, "--api", "google").stdout)
    assert other["events"][-1]["reason"]["code"] == "empty_stream"


def test_stream_may_come_on_stdin(turnfleet: Command):
    result = turnfleet("normalize", "-", "--provider", "custom", "-o", "json", stdin=CHAT.decode())
    assert json.loads(result.stdout)["file"] == "-"


def test_empty_stream_is_an_answer_and_a_missing_file_is_not(turnfleet: Command, tmp_path: Path):
    (tmp_path / "empty").touch()
    empty = turnfleet("normalize", str(tmp_path / "empty"), "--provider", "x", "-o", "ndjson")
    assert json.loads(empty.stdout)["events"][0]["reason"]["code"] == "empty_stream"
    missing = turnfleet("normalize", str(tmp_path / "missing"), "--provider", "x")
    assert missing.exit_code == 2
    assert "cannot read" in missing.stderr


def test_the_folder_of_an_export_says_itself_whose_words_it_has(turnfleet: Command, tmp_path: Path):
    """One request was answered with nothing, the next one by another provider."""
    split = wire.sse(
        wire.chat_call("get_", "", index=0, id="c"),
        wire.chat_call("weather", "{}", index=0),
        wire.STOP,
    )
    recording = Recording()
    recording.asked(0.0, Target(provider="anthropic", model="silent"))
    weather = ToolSpec(name="get_weather", description="", parameters={})
    recording.asked(0.1, Target(provider="openai", model="m"), (weather,))
    recording.received(0.2, split)
    (tmp_path / "attempt-1.rec").write_bytes(recording.dump())
    request = turn(target=Target(provider="anthropic", model="silent"))
    facts = Exported(
        format=1,
        version="1",
        turn_id="l7",
        request=msgspec.Raw(msgspec.json.encode(request)),
        record={},
        timeline=[],
        attempts=[1],
    )
    (tmp_path / FACTS).write_bytes(msgspec.json.encode(facts))
    result = turnfleet("normalize", str(tmp_path), "-o", "ndjson")
    assert result.exit_code == 0, result.stderr
    reading = json.loads(result.stdout)
    assert reading["file"].endswith("attempt-1-1.sse")
    assert reading["events"][0]["provider"] == "openai"
    assert reading["events"][-1]["content"][0]["name"] == "get_weather"


def test_an_export_without_an_answer_says_so(turnfleet: Command, tmp_path: Path):
    facts = Exported(
        format=1,
        version="1",
        turn_id="l7",
        request=msgspec.Raw(msgspec.json.encode(turn())),
        record={},
        timeline=[],
        attempts=[],
    )
    (tmp_path / FACTS).write_bytes(msgspec.json.encode(facts))
    result = turnfleet("normalize", str(tmp_path))
    assert (result.exit_code, "no bytes of an answer" in result.stderr) == (0, True)


def test_a_file_needs_a_provider_and_a_folder_an_export(
    turnfleet: Command, recording: str, tmp_path: Path
):
    for words in (("normalize", recording), ("normalize", str(tmp_path))):
        assert turnfleet(*words).exit_code == 2
