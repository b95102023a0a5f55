"""`turns replay --recorded` and `turns export`: a failed attempt offline, and as a folder.

Comes in: a turn's id, or the folder of an export. Goes out: the steps of the attempt, or files.
"""

import asyncio
import secrets
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer

from ops.cli.exits import Exit, NotFound
from ops.cli.output import Output, OutputFormat, print_record, print_records, say, say_block
from ops.cli.session import Fleet, database, fleet
from ops.replay.anonymous import mark
from ops.replay.export import Source, export, tape_in, tape_of
from ops.replay.recorded import Layer, Playback, Step, Tape, difference, play
from ops.replay.turns import Change
from ops.triage.errors import MAX_ROWS, ErrorFilter, list_errors
from shared.errors import StoreError
from shared.lifetimes import FAILED_TTL_MS
from shared.logs import secrets_of

COLUMNS: Final = ("at_s", "layer", "said")
_SAID: Final = ("text", "delta", "content", "what", "reason", "error", "call")
"""What a table shows of a step, the first that it has; the other formats have all of it."""


def print_recorded(
    name: str, attempt: int | None, change: Change, is_diff: bool, output: OutputFormat
) -> None:
    """Plays the recorded attempt and prints its steps, or how it differs from what was delivered.

    Raises:
        NotFound: no attempt of the turn was recorded, or it is too old.
    """
    tape = (
        tape_in(Path(name), attempt) if Path(name).is_dir() else asyncio.run(_tape(name, attempt))
    )
    if tape is None:
        raise NotFound(
            f"no recorded attempt of {name}: failed attempts that received bytes are kept for "
            "72 hours (all attempts with TURNFLEET_RECORD=always)"
        )
    playback = play(tape, change.target)
    if not playback.is_whole:
        say("The recording has a gap: it was longer than what is kept, so the middle is missing.")
    if not any(step.layer is Layer.BYTES for step in playback.steps):
        say(
            "No bytes of an answer were recorded, so the rooms can only say that none came: where "
            "the provider refused the request, `turnfleet errors list --turn ID` has its words."
        )
    if is_diff:
        _print_difference(tape, playback)
    elif output in {OutputFormat.TABLE, OutputFormat.CSV}:
        rows = [_row(step) for step in playback.steps]
        print_records(rows, COLUMNS, output, empty="The recording is empty.")
    else:
        facts = {"turn_id": tape.request.turn_id, "attempt": tape.attempt}
        print_record(facts | msgspec.to_builtins(playback), output)


def export_(
    turn_id: Annotated[str, typer.Argument(help="A failed turn's id.")],
    to: Annotated[
        Path | None, typer.Option(help="The folder; else turnfleet-<mark> here.", metavar="FOLDER")
    ] = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Writes what is known of a failed turn into a folder, to attach to a bug report.

    Keys, prompts, names and ids of people, channels, servers and messages are left out. The model's
    reply is in it, so read it first. `turns replay --recorded FOLDER` and `normalize` read it.
    """
    key = secrets.token_bytes(16)
    folder = to or Path(f"turnfleet-{mark(turn_id, key)}")

    async def run() -> list[str] | None:
        errors = await _errors(turn_id)
        async with fleet() as link:
            known = secrets_of(link.settings)
            return await export(
                _source(link), turn_id, folder, key=key, secrets=known, errors=errors
            )

    files = asyncio.run(run())
    if files is None:
        raise NotFound(f"turn {turn_id} is not among the failed turns of the last 72 hours")
    rows = [{"file": str(folder / file)} for file in files]
    print_records(rows, ("file",), output, empty="")
    say("It holds what the model wrote. Read it before you give it to anyone.")


async def _tape(turn_id: str, attempt: int | None) -> Tape | None:
    async with fleet() as link:
        return await tape_of(_source(link), turn_id, attempt)


async def _errors(turn_id: str) -> list[dict[str, object]]:
    """The rows of the turn; none where the database is away, which must not stop an export."""
    since = datetime.now(UTC) - timedelta(milliseconds=FAILED_TTL_MS)
    try:
        async with database() as opened:
            wanted = ErrorFilter(since=since, turn_id=turn_id, limit=MAX_ROWS)
            return [msgspec.to_builtins(row) for row in await list_errors(opened, wanted)]
    except StoreError as exc:
        say(f"Without rows of error_logs: {exc}")
        return []


def _source(link: Fleet) -> Source:
    return Source(records=link.records, channel=link.channel)


def _row(step: Step) -> dict[str, object]:
    facts = step.facts
    said = next((facts[name] for name in _SAID if facts.get(name)), None)
    kind = facts.get("type") or facts.get("kind")
    layer = f"{step.layer.value} {kind}" if kind else step.layer.value
    if said is None:
        said = {key: value for key, value in facts.items() if key not in {"type", "kind"}}
    return {"at_s": f"{step.at_s:.3f}", "layer": layer, "said": said}


def _print_difference(tape: Tape, playback: Playback) -> None:
    if tape.delivered is None:
        raise NotFound(
            "what was delivered cannot be seen from here: only the last attempt of a turn in the "
            "local channel can be compared"
        )
    lines = difference(tape.delivered, playback.segments)
    if not lines:
        say("No difference: the rooms give what was delivered.")
        return
    say_block("\n".join(lines))
    raise typer.Exit(Exit.FOUND)
