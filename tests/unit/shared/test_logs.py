"""The log pipeline: shape of a line, what is bound, what is silenced, what is never lost."""

import asyncio
import io
import json
import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import pytest

from shared import __version__
from shared.config import Settings
from shared.errors import ConfigError
from shared.harmless import plain
from shared.log_lines import JsonFormatter
from shared.logs import (
    DIAGNOSTICS,
    QUEUE_LINES,
    QUIET,
    OnCrash,
    bound,
    fields,
    start_logs,
    watch_loop,
)
from shared.secrets import Secret

log = logging.getLogger("turnfleet.test")


SECRETS = [Secret("hunter2")]


class Lines:
    """A running pipeline and, after `with`, its lines."""

    def __init__(self, stream: io.BytesIO) -> None:
        self._stream = stream

    @property
    def all(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self._stream.getvalue().splitlines()]

    @property
    def messages(self) -> list[object]:
        return [line["msg"] for line in self.all]


@contextmanager
def pipeline(
    level: str = "INFO", *, max_string_chars: int | None = None, on_crash: OnCrash | None = None
) -> Iterator[Lines]:
    stream = io.BytesIO()
    logs = start_logs(
        "worker-1",
        Settings(log_level=level, log_max_string_chars=max_string_chars),
        secrets=SECRETS,
        on_crash=on_crash,
        stream=stream,
    )
    try:
        yield Lines(stream)
    finally:
        logs.close()


def test_a_line_is_one_json_object_with_time_level_and_process():
    with pipeline() as lines:
        log.info("turn.finished", extra=fields(segments=3))
    (line,) = lines.all
    assert line["msg"] == "turn.finished"
    assert line["segments"] == 3
    assert line["level"] == "INFO"
    assert line["process"] == "worker-1"
    assert line["version"] == __version__
    assert str(line["ts"]).endswith("Z")
    assert len(str(line["ts"])) == len("2026-01-01T00:00:00.000Z")


def test_bound_facts_are_on_every_line_until_exit():
    with pipeline() as lines:
        with bound(turn_id="m1", guild_id=123456789012345678, model=None):
            log.info("inside")
            with bound(provider="openai"):
                log.info("deeper")
        log.info("outside")
    inside, deeper, outside = lines.all
    assert inside["turn_id"] == "m1"
    assert inside["guild_id"] == "123456789012345678"
    assert "model" not in inside
    assert (deeper["turn_id"], deeper["provider"]) == ("m1", "openai")
    assert "turn_id" not in outside


async def test_bound_facts_do_not_cross_tasks():
    async def turn(name: str) -> None:
        with bound(turn_id=name):
            await asyncio.sleep(0)
            log.info("here", extra=fields(expected=name))

    with pipeline() as lines:
        async with asyncio.TaskGroup() as group:
            for name in ("m1", "m2", "m3"):
                group.create_task(turn(name), name=name)
    assert len(lines.all) == 3
    assert all(line["turn_id"] == line["expected"] for line in lines.all)


class Facts(msgspec.Struct):
    name: str
    count: int


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param({"k": ["hunter2", 1]}, {"k": ["[redacted:key]", 1]}, id="nested"),
        pytest.param({"hunter2": 1}, {"[redacted:key]": 1}, id="keys_too"),
        pytest.param(b"secret", "<6 bytes>", id="bytes_are_counted"),
        pytest.param(
            Facts(name="hunter2", count=2), {"name": "[redacted:key]", "count": 2}, id="struct"
        ),
        pytest.param(ValueError("hunter2"), "ValueError: [redacted:key]", id="exception"),
        pytest.param("a\0\ud800", "a�", id="unstorable_text"),
        pytest.param(2**60, str(2**60), id="large_numbers_as_text"),
        pytest.param(float("nan"), None, id="nan_has_no_json"),
        pytest.param(True, True, id="bool"),
    ],
)
def test_a_field_becomes_clean_json(value: object, expected: object):
    with pipeline() as lines:
        log.info("x", extra=fields(value=value))
    assert lines.all[0]["value"] == expected


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("api_key", "[redacted:field]"),
        ("credential", "[redacted:field]"),
        ("credential_source", "x"),
    ],
)
def test_a_field_with_a_telling_name_goes_whole(name: str, shown: str):
    with pipeline() as lines:
        log.info("x", extra=fields(**{name: "x"}))
    assert lines.all[0][name] == shown


def test_a_field_that_holds_itself_ends():
    loop: list[object] = []
    loop.append(loop)
    with pipeline() as lines:
        log.info("x", extra=fields(value=loop))
    assert "<list>" in json.dumps(lines.all[0]["value"])


def test_extras_without_fields_are_kept_and_never_replace_our_own():
    with pipeline() as lines:
        log.info("x", extra={"turn": 7})
        log.info("y", extra=fields(msg="other", level="none"))
    assert lines.all[0]["turn"] == 7
    assert lines.all[1]["msg"] == "y"
    assert lines.all[1]["level"] == "INFO"


def test_an_exception_is_redacted_in_message_and_stack():
    with pipeline() as lines:
        try:
            raise RuntimeError("key hunter2")
        except RuntimeError:
            log.exception("failed")
    err = lines.all[0]["err"]
    assert isinstance(err, dict)
    assert err["type"] == "RuntimeError"
    assert err["message"] == "key [redacted:key]"
    assert "hunter2" not in err["stack"]
    assert "raise RuntimeError" in err["stack"]


def test_strings_are_whole_unless_a_limit_is_set_and_are_redacted_before_the_cut():
    with pipeline() as whole:
        log.info("x", extra=fields(text="a" * 50_000))
    assert whole.all[0]["text"] == "a" * 50_000
    with pipeline(max_string_chars=8) as cut:
        log.info("x", extra=fields(text="abcdhunter2efgh"))
    assert cut.all[0]["text"] == "abcd…"


@pytest.mark.parametrize("level", ["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"])
def test_expected_failures_pass_at_every_level(level: str):
    with pipeline(level) as lines:
        logging.getLogger(DIAGNOSTICS).warning("attempt.failed")
        logging.getLogger(DIAGNOSTICS).info("chatter")
    assert lines.messages == ["attempt.failed"]


@pytest.mark.parametrize("name", QUIET)
def test_libraries_that_leak_stay_silent_at_debug(name: str):
    with pipeline("DEBUG") as lines:
        logging.getLogger(f"{name}.child").info("GET https://user:hunter2@host/?key=1")
        logging.getLogger(f"{name}.child").warning("hunter2")
    assert lines.messages == ["[redacted:key]"]


def test_secrets_of_the_settings_are_in_no_line():
    stream = io.BytesIO()
    settings = Settings(
        redis_url="redis://:correct-horse-1@localhost/0",
        database_url="postgresql://u:correct-horse-2@localhost/d",
        endpoints={"custom": "https://u:correct-horse-3@host/v1"},
        discord_token="correct-horse-4",
    )
    logs = start_logs("x", settings, stream=stream)
    log.info("x", extra=fields(text="correct-horse-1 correct-horse-2", settings=settings))
    log.info("correct-horse-3 and correct-horse-4")
    logs.close()
    assert b"horse" not in stream.getvalue()


def test_a_wrong_level_is_a_config_error():
    with pytest.raises(ConfigError, match="TURNFLEET_LOG_LEVEL=LOUD"):
        start_logs("x", Settings(log_level="LOUD"), stream=io.BytesIO())


class Stuck(io.BytesIO):
    """A stdout that nobody reads until it is opened."""

    def __init__(self) -> None:
        super().__init__()
        self.opened = threading.Event()

    def write(self, data: object, /) -> int:
        self.opened.wait(10)
        return super().write(data)  # type: ignore[arg-type]  # what the base class takes


def test_a_blocked_stdout_drops_lines_counts_them_and_never_blocks_the_caller():
    stream = Stuck()
    logs = start_logs("x", Settings(), stream=stream)
    started = time.monotonic()
    for number in range(QUEUE_LINES + 500):
        log.info("line", extra=fields(number=number))
    took_s = time.monotonic() - started
    dropped = logs.dropped
    stream.opened.set()
    logs.close()
    assert took_s < 5
    assert 499 <= dropped <= 500
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    (told,) = [line for line in lines if line["msg"] == "log.dropped"]
    assert told["lines"] == dropped
    assert len(lines) == QUEUE_LINES + 501 - dropped


def test_a_closed_stdout_is_counted_and_harms_nobody():
    stream = io.BytesIO()
    logs = start_logs("x", Settings(), stream=stream)
    stream.close()
    log.info("line")
    logs.close()
    assert logs.dropped == 1


class Hostile:
    def __str__(self) -> str:
        raise RuntimeError("no text")


def test_a_record_that_cannot_be_written_says_so():
    with pipeline() as lines:
        log.info("x", extra=fields(value=Hostile()))
    assert lines.messages == ["log.failed"]
    assert lines.all[0]["why"] == "RuntimeError"


def test_uncaught_exceptions_become_lines_and_reports():
    crashes: list[tuple[str, str]] = []

    def on_crash(error: BaseException, where: str) -> None:
        crashes.append((str(error), where))

    def fail() -> None:
        raise ValueError("thread hunter2")

    with pipeline(on_crash=on_crash) as lines:
        thread = threading.Thread(target=fail)
        thread.start()
        thread.join()
        loop = asyncio.new_event_loop()
        watch_loop(loop, on_crash)
        loop.call_soon(fail)
        loop.call_soon(loop.stop)
        loop.run_forever()
        loop.call_exception_handler({"message": "slow"})
        loop.close()
    assert crashes == [("thread hunter2", "thread"), ("thread hunter2", "loop")]
    assert lines.messages == ["process.crashed", "process.crashed", "loop.complained"]
    assert "hunter2" not in json.dumps(lines.all)


def test_close_puts_everything_back():
    root = logging.getLogger()
    before = (root.level, root.handlers[:], logging.getLogger("httpx").level)
    with pipeline("ERROR"):
        pass
    assert (root.level, root.handlers[:], logging.getLogger("httpx").level) == before


def test_the_formatter_serves_handlers_of_the_stdlib():
    record = logging.makeLogRecord({"msg": "x %d", "args": (1,), "name": "n"})
    assert json.loads(JsonFormatter("p").format(record))["msg"] == "x 1"


@pytest.mark.parametrize(
    "hostile",
    ["\x1b]8;;http://evil.example\x1b\\", "\x9d52;c;eA==\x9c", "\u202e\u2066", "\u200b\U000e0041"],
    ids=["escape", "c1", "bidi", "invisible"],
)
def test_a_line_harms_no_terminal_that_it_is_read_on(hostile: str):
    """`kubectl logs` shows lines as they are."""
    record = logging.makeLogRecord({"msg": hostile, "name": "n", "fields": {hostile: hostile}})
    try:
        raise ValueError(hostile)
    except ValueError as exc:
        record.exc_info = (ValueError, exc, exc.__traceback__)
    line = JsonFormatter("p").format(record)
    assert plain(line) == line
    assert "\n" not in line
    assert (json.loads(line)["msg"], json.loads(line)[hostile]) == (hostile, hostile)
