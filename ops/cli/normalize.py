"""`turnfleet normalize`: what the worker makes of recorded provider streams.

Comes in: files with the bytes of streams (`-` is stdin), or the folder of `turns export`. Goes out:
the canonical events and the side data of each. It is how anyone reports or reproduces a provider
bug: attach the file and the output.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from ops.cli.output import Output, OutputFormat, print_record, print_records, say, say_title
from ops.replay.export import answers_in
from ops.replay.normalize import Reading, read_stream
from shared.errors import ConfigError
from shared.turns import Api

_HELP_FILES = "Recorded streams, as the provider sent them; - is stdin. Or a folder of an export."
_HELP_PROVIDER = (
    "The provider's name: anthropic, google, openai, openrouter, custom, ... A folder tells it."
)
_HELP_API = "The wire format; auto takes the provider's own or looks at the first events."
_HELP_CUT = "Feed the stream in pieces of N bytes; the events must not change."
_HELP_TOOL = "The name of a tool that the model was offered; may be given several times."
_COLUMNS = ("type", "index", "said")


def normalize(
    files: Annotated[list[str], typer.Argument(help=_HELP_FILES, metavar="FILE...")],
    provider: Annotated[str | None, typer.Option(help=_HELP_PROVIDER)] = None,
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
        for reading in _readings(file, provider, model, tuple(tool or ()), api, cut):
            _print(reading, output)


def _readings(
    file: str,
    provider: str | None,
    model: str,
    tools: tuple[str, ...],
    api: Api,
    cut: int | None,
) -> Iterator[Reading]:
    """What a file says, or each answer in a folder; what is given wins over what the folder has."""
    if not Path(file).is_dir():
        if provider is None:
            raise typer.BadParameter(f"--provider says whose words {file} is in")
        body = _read(file)
        yield read_stream(file, body, provider=provider, model=model, tools=tools, api=api, cut=cut)
        return
    answers = answers_in(Path(file))
    if not answers:
        say(f"{file} has no bytes of an answer: the provider refused the request, or said nothing.")
    for answer in answers:
        target = answer.target
        yield read_stream(
            str(Path(file) / answer.file),
            answer.body,
            provider=provider or target.provider,
            model=model or target.model,
            tools=tools or answer.tools,
            api=target.api if api is Api.AUTO and provider is None else api,
            cut=cut,
        )


def _print(reading: Reading, output: OutputFormat) -> None:
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
