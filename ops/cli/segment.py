"""`turnfleet segment`: how a text would be parted into messages.

Comes in: files with the text of replies (`-` is stdin). Goes out: the segments, or with `--render`
the messages as a channel would get them, one under the other.
"""

import sys
from pathlib import Path
from typing import Annotated

import typer

from ops.cli.output import Output, OutputFormat, print_records, say, say_block, say_title
from ops.replay.segment import DeliveryMode, Segmented, segmented
from shared.errors import ConfigError

_HELP_CUT = "Feed pieces of so many characters, as a stream would; 0 feeds all at once."
_HELP_RENDER = "Show the messages instead of their records."
_COLUMNS = ("file", "seq", "kind", "start", "end", "chars", "messages", "text")


def segment(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Texts; - is stdin.")],
    mode: Annotated[
        DeliveryMode, typer.Option(help="How a reply is parted.")
    ] = DeliveryMode.PARAGRAPH,
    cut: Annotated[int, typer.Option(help=_HELP_CUT, min=0)] = 0,
    render: Annotated[bool, typer.Option("--render", help=_HELP_RENDER)] = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Parts texts into messages: `turnfleet segment reply.md --mode line --cut 4`.

    Sends nothing and stores nothing.
    """
    results = [(file, segmented(_read(file), mode, cut=cut)) for file in files]
    if render:
        for file, result in results:
            _render(file, result)
        return
    records = [
        {"file": str(file), **record} for file, result in results for record in result.records()
    ]
    print_records(records, _COLUMNS, output, empty="nothing in it would be shown")


def _render(file: Path, result: Segmented) -> None:
    for number, message in enumerate(result.messages(), start=1):
        say_title(f"{file} {number}: {len(message)} characters")
        say_block(message)
    hidden = len(result.thoughts) + len(result.details)
    if hidden:
        say(f"{file}: {hidden} private blocks were taken out")


def _read(file: Path) -> str:
    try:
        data = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as exc:
        raise ConfigError(f"{file} cannot be read: {exc.strerror}") from exc
    return data.decode("utf-8", "replace")
