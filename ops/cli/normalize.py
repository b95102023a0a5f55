"""`turnfleet normalize`: what the worker makes of recorded provider streams.

Comes in: files with the bytes of streams (`-` is stdin). Goes out: the canonical events and the
side data of each. It is how anyone reports or reproduces a provider bug: attach the file and the
output.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from ops.cli.output import Output, OutputFormat, print_record, print_records, say_title
from ops.replay.normalize import Reading, read_stream
from shared.errors import ConfigError
from shared.turns import Api

_HELP_FILES = "Recorded streams, as the provider sent them; - is stdin."
_HELP_PROVIDER = "The provider's name: anthropic, google, openai, openrouter, custom, ..."
_HELP_API = "The wire format; auto takes the provider's own or looks at the first events."
_HELP_CUT = "Feed the stream in pieces of N bytes; the events must not change."
_HELP_TOOL = "The name of a tool that the model was offered; may be given several times."
_COLUMNS = ("type", "index", "said")


def normalize(
    files: Annotated[list[str], typer.Argument(help=_HELP_FILES, metavar="FILE...")],
    provider: Annotated[str, typer.Option(help=_HELP_PROVIDER)],
    model: Annotated[str, typer.Option(help="The requested model.")] = "",
    api: Annotated[Api, typer.Option(help=_HELP_API)] = Api.AUTO,
    tool: Annotated[list[str] | None, typer.Option(help=_HELP_TOOL)] = None,
    cut: Annotated[int | None, typer.Option(min=1, help=_HELP_CUT, metavar="N")] = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Reads recorded streams: `turnfleet normalize reply.sse --provider anthropic -o ndjson`.

    With -o ndjson one line a file has `file`, `events` and `meta`. Sends nothing, stores nothing.
    A stream that ended with an error is printed like any other: that is what it says.
    """
    for file in files:
        reading = read_stream(
            file, _read(file), provider=provider, model=model, tools=tool or (), api=api, cut=cut
        )
        if output is OutputFormat.TABLE:
            _print_table(reading)
        elif output is OutputFormat.CSV:
            print_records(list(_rows(reading)), ("file", *_COLUMNS), output, empty="")
        else:
            print_record(msgspec.structs.asdict(reading), output)


def _read(file: str) -> bytes:
    if file == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(file).read_bytes()
    except OSError as exc:
        raise ConfigError(f"cannot read {file}: {exc.strerror}") from exc


def _print_table(reading: Reading) -> None:
    say_title(reading.file)
    print_records(list(_rows(reading)), _COLUMNS, OutputFormat.TABLE, empty="")
    if reading.meta:
        print_record(reading.meta, OutputFormat.TABLE)


def _rows(reading: Reading) -> Iterator[dict[str, object]]:
    """A row per event: what it says beside its type and index."""
    for event in reading.events:
        rest = {name: item for name, item in event.items() if name not in ("type", "index")}
        said = rest["delta"] if set(rest) == {"delta"} else rest
        yield {
            "file": reading.file,
            "type": event["type"],
            "index": event.get("index"),
            "said": said,
        }
