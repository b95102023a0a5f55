"""A failed turn as a folder that someone can attach to a bug report, and read back from it.

Comes in: what Redis knows of a turn. Goes out: `turn.json` and, for each recorded attempt, its
recording (`attempt-1.rec`, for `turns replay --recorded`) and the plain bytes of each answer of the
provider (`attempt-1-1.sse`, for `turnfleet normalize`). Keys, prompts, names and the ids of people,
channels, servers and messages are not in it (`ops.replay.anonymous`); the model's reply is, since
the bug is in that.
"""

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from ops.replay.anonymous import StandIns, anonymous, said_in
from ops.replay.recorded import Tape, answers_of, bodies_of
from shared import __version__
from shared.edges.local_channel import LocalChannel
from shared.edges.records import TimelineEntry, TurnRecord, TurnRecords
from shared.errors import ConfigError, WireError
from shared.recording import Carried, Recording, read_recording
from shared.redaction import MAX_TEXT_CHARS, redact, redact_value
from shared.secrets import Secret
from shared.turns import Front, Target, TurnOutcome
from shared.wire import UNREADABLE, decode_turn_request

FACTS: Final = "turn.json"
FORMAT: Final = 1
_PIECE_CHARS: Final = MAX_TEXT_CHARS // 2
"""Bytes that are redacted together: redaction cuts what is longer than its bound."""


class Exported(msgspec.Struct, frozen=True, kw_only=True):
    """`turn.json`."""

    format: int
    version: str
    turn_id: str
    request: msgspec.Raw
    record: dict[str, object]
    timeline: list[dict[str, object]]
    attempts: list[int]
    delivered: list[str] | None = None
    errors: list[dict[str, object]] = msgspec.field(default_factory=list)


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a provider answered to one request of an exported attempt, and who was asked."""

    file: str
    target: Target
    tools: tuple[str, ...]
    body: bytes


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """Where turns are read from."""

    records: TurnRecords
    channel: LocalChannel


async def tape_of(source: Source, turn_id: str, attempt: int | None) -> Tape | None:
    """The recorded attempt of a turn, the last one if none is named; None where there is none.

    Raises:
        WireError: this version cannot read the request.
    """
    record = await source.records.turn(turn_id)
    request = await source.records.request(turn_id)
    if record is None or request is None:
        return None
    for number in _numbers(record, attempt):
        recording = await source.records.load_recording(turn_id, number)
        if recording is not None:
            shown = await delivered(source, record) if number == record.attempt else None
            return Tape(request=request, attempt=number, recording=recording, delivered=shown)
    return None


async def delivered(source: Source, record: TurnRecord) -> tuple[str, ...] | None:
    """What the channel shows of a turn; None where it cannot be seen from here (Discord)."""
    if record.route.front is not Front.LOCAL:
        return None
    ids = await source.records.message_ids(record.turn_id)
    found = [await source.channel.message(record.route.channel_id, number) for number in ids]
    return tuple(one.text for one in found if one is not None and not one.is_notice)


async def export(
    source: Source,
    turn_id: str,
    folder: Path,
    *,
    key: bytes,
    secrets: Iterable[Secret] = (),
    errors: Sequence[dict[str, object]] = (),
) -> list[str] | None:
    """Writes a turn into a folder. Returns the names of the files; None for an unknown turn.

    Args:
        source: where it is read.
        turn_id: the turn.
        folder: where it is written.
        key: random bytes, from which the marks of this export are made.
        secrets: what must not be in it.
        errors: its rows of the database.

    Raises:
        ConfigError: the folder cannot be written.
        WireError: this version cannot read the request.
    """
    known = list(secrets)
    record = await source.records.turn(turn_id)
    request = await source.records.request(turn_id)
    if record is None or request is None:
        return None
    files: dict[str, bytes] = {}
    attempts, said = [], []
    for number in _numbers(record, None):
        recording = await source.records.load_recording(turn_id, number)
        if recording is not None:
            attempts.append(number)
            clean = without_secrets(recording, known)
            files[f"attempt-{number}.rec"] = clean
            said.append(said_in(Tape(request=request, attempt=number, recording=clean)))
            for at, body in enumerate(bodies_of(clean), 1):
                files[f"attempt-{number}-{at}.sse"] = body
    stand_ins = StandIns("\n".join(said), key)
    shown = await delivered(source, record)
    if shown is not None:
        shown = tuple(stand_ins.text(redact(text, known)) for text in shown)
    facts = Exported(
        format=FORMAT,
        version=__version__,
        turn_id=stand_ins.mark(turn_id),
        request=msgspec.Raw(msgspec.json.encode(anonymous(request, stand_ins))),
        record=stand_ins.facts(_record_facts(record, known)),
        timeline=[_entry_facts(one) for one in await source.records.timeline(turn_id)],
        attempts=sorted(attempts),
        delivered=None if shown is None else list(shown),
        errors=[stand_ins.facts(_error_facts(one, known)) for one in errors],
    )
    files[FACTS] = msgspec.json.format(msgspec.json.encode(facts), indent=2)
    _write(folder, files)
    return sorted(files)


def tape_in(folder: Path, attempt: int | None) -> Tape:
    """The recorded attempt in an exported folder, the last one if none is named.

    Raises:
        ConfigError: it is no export, or has no such attempt.
    """
    with _reading(folder):
        facts = msgspec.json.decode((folder / FACTS).read_bytes(), type=Exported)
        number = attempt or max(facts.attempts, default=0)
        recording = (folder / f"attempt-{number}.rec").read_bytes()
        request = decode_turn_request(bytes(facts.request))
    is_last = number == max(facts.attempts, default=0)
    shown = tuple(facts.delivered) if facts.delivered is not None and is_last else None
    return Tape(request=request, attempt=number, recording=recording, delivered=shown)


def answers_in(folder: Path) -> list[Answer]:
    """Every answer in an exported folder, attempt by attempt.

    Raises:
        ConfigError: it is no export.
    """
    found = []
    with _reading(folder):
        facts = msgspec.json.decode((folder / FACTS).read_bytes(), type=Exported)
        request = decode_turn_request(bytes(facts.request))
        for number in facts.attempts:
            recording = (folder / f"attempt-{number}.rec").read_bytes()
            for at, (asked, body) in enumerate(answers_of(recording), 1):
                target = request.target if asked is None else asked.target
                tools = () if asked is None else tuple(tool.name for tool in asked.tools)
                file = f"attempt-{number}-{at}.sse"
                found.append(Answer(file=file, target=target, tools=tools, body=body))
    return found


@contextlib.contextmanager
def _reading(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        raise ConfigError(f"{folder} has no recorded attempt: {exc.strerror}") from exc
    except (*UNREADABLE, WireError) as exc:
        raise ConfigError(f"{folder / FACTS} is no export of a turn: {exc}") from exc


def without_secrets(recording: bytes, secrets: Sequence[Secret]) -> bytes:
    """The recording, byte for byte the same unless something in it looks like a credential.

    Then its bytes come as one piece without it: a key may lie across two of them.
    """
    answers = answers_of(recording)
    bodies = [body for _, body in answers]
    cleaned = [_clean(body, secrets) for body in bodies]
    carried = [one for one in read_recording(recording) if isinstance(one, Carried)]
    said = [redact(one.text, secrets) for one in carried]
    if cleaned == bodies and said == [one.text for one in carried]:
        return recording
    rewritten = Recording(limit_bytes=2 * sum(map(len, [*cleaned, *said])) + 1024)
    for one, text in zip(carried, said, strict=True):
        rewritten.carried(text, trims=one.trims)
    for (asked, _), body in zip(answers, cleaned, strict=True):
        if asked is not None:
            rewritten.asked(0.0, asked.target, asked.tools)
        rewritten.received(0.0, body)
    return rewritten.dump()


def _clean(body: bytes, secrets: Sequence[Secret]) -> bytes:
    pieces = _pieces(body.decode("utf-8", "surrogateescape"))
    clean = "".join(redact(piece, secrets) for piece in pieces)
    return clean.encode("utf-8", "surrogateescape")


def _pieces(text: str) -> list[str]:
    """The text in pieces that end with a line where they can, so that no key is cut in two."""
    pieces, start = [], 0
    while len(text) - start > _PIECE_CHARS:
        cut = text.rfind("\n", start, start + _PIECE_CHARS) + 1
        end = cut if cut > start else start + _PIECE_CHARS
        pieces.append(text[start:end])
        start = end
    return [*pieces, text[start:]]


def _numbers(record: TurnRecord, attempt: int | None) -> list[int]:
    return [attempt] if attempt is not None else list(range(record.attempt, 0, -1))


def _record_facts(record: TurnRecord, secrets: list[Secret]) -> dict[str, object]:
    outcome: TurnOutcome | None = record.outcome
    if outcome is not None:
        outcome = msgspec.structs.replace(outcome, details=())
    facts = msgspec.to_builtins(msgspec.structs.replace(record, outcome=outcome))
    for name in ("route", "worker_id"):
        facts.pop(name)
    kept = redact_value(facts, secrets)
    assert isinstance(kept, dict)  # noqa: S101  # redaction keeps the shape; for the type checker
    return kept


def _entry_facts(entry: TimelineEntry) -> dict[str, object]:
    return {"at_ms": entry.at_ms, "word": entry.word, "attempt": entry.attempt}


def _error_facts(error: dict[str, object], secrets: list[Secret]) -> dict[str, object]:
    private = {"guild_id", "channel_id", "user_id", "worker_id", "endpoint_host", "key_id"}
    kept = redact_value({k: v for k, v in error.items() if k not in private}, secrets)
    assert isinstance(kept, dict)  # noqa: S101  # redaction keeps the shape; for the type checker
    return kept


def _write(folder: Path, files: dict[str, bytes]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for name, body in files.items():
            (folder / name).write_bytes(body)
    except OSError as exc:
        raise ConfigError(f"cannot write into {folder}: {exc.strerror}") from exc
