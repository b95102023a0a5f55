"""What commands print: tables for people, JSON, NDJSON and CSV for programs.

Comes in: values of the triage and fleet layers. Goes out: text on stdout, safe for whatever shows
it. Messages for people (progress, hints) go to stderr, so that stdout is data.
"""

import contextlib
import csv
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Final

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from ops.cli.terminal import csv_cell, one_line
from shared.harmless import json_text, plain

CELL_CHARS: Final = 120
"""A cell of a table; the whole text is in `show` and in the other formats."""
WIDE_COLUMNS: Final = 200
"""The width where there is no terminal: files and pipes wrap nothing."""


class OutputFormat(StrEnum):
    """How results are printed."""

    TABLE = "table"
    JSON = "json"
    NDJSON = "ndjson"
    CSV = "csv"


Output = Annotated[OutputFormat, typer.Option("-o", "--output", help="How to print the result.")]

Record = Mapping[str, object]


def print_records(
    records: Sequence[Record], columns: Sequence[str], output: OutputFormat, *, empty: str
) -> None:
    """Prints a list. Tables have the given columns; the other formats have everything.

    Args:
        records: one mapping per row.
        columns: what a table shows, in this order.
        output: the format.
        empty: said on stderr instead of a table without rows.
    """
    if output is OutputFormat.JSON:
        _write(_json(list(records)))
    elif output is OutputFormat.NDJSON:
        for record in records:
            _write(_json(record, indent=0))
    elif output is OutputFormat.CSV:
        _write_csv(records, columns)
    elif records:
        _print_table(records, columns)
    else:
        say(empty)


def print_record(record: Record, output: OutputFormat) -> None:
    """Prints one thing with all its facts: a table with a line per fact, or JSON."""
    if output in {OutputFormat.JSON, OutputFormat.NDJSON}:
        _write(_json(record, indent=2 if output is OutputFormat.JSON else 0))
        return
    if output is OutputFormat.CSV:
        _write_csv([record], list(record))
        return
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in record.items():
        if value not in (None, "", {}, [], ()):
            table.add_row(Text(plain(name)), Text(plain(_shown(value))))
    console().print(table)


def say(text: str) -> None:
    """Says something to a person, on stderr."""
    typer.echo(plain(text), err=True)


def say_title(text: str) -> None:
    """Prints a heading between parts of a table output."""
    console().print(Text(f"\n{plain(text)}", style="bold underline"))


def say_block(text: str) -> None:
    """Prints text of several lines as it is, without control characters."""
    console().print(Text(plain(text)), soft_wrap=True)


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Leaves it to `ops.cli.main` that a reader has seen enough: Rich would end with 1."""
        raise  # noqa: PLE0704 - Rich calls this while it handles the error


def console() -> Console:
    """A console on stdout that interprets nothing in what it prints."""
    width = None if sys.stdout.isatty() else WIDE_COLUMNS
    return _Console(width=width, highlight=False, markup=False, emoji=False)


def _print_table(records: Sequence[Record], columns: Sequence[str]) -> None:
    table = Table(box=None, pad_edge=False)
    for name in columns:
        table.add_column(name.replace("_", " ").upper(), overflow="fold")
    for record in records:
        cells = (one_line(_shown(record.get(name)), CELL_CHARS) for name in columns)
        table.add_row(*(Text(cell) for cell in cells))
    console().print(table)


def _write_csv(records: Sequence[Record], columns: Sequence[str]) -> None:
    names = list(dict.fromkeys([*columns, *(name for record in records for name in record)]))
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(names)
    for record in records:
        writer.writerow([_csv_value(record.get(name)) for name in names])


def _csv_value(value: object) -> object:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    return csv_cell(_shown(value))


def _shown(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
    if isinstance(value, dict | list | tuple):
        return msgspec.json.encode(value).decode()
    return str(value)


def _json(value: object, indent: int = 2) -> str:
    encoded = msgspec.json.encode(_json_value(value))
    return json_text(msgspec.json.format(encoded, indent=indent).decode())


def _json_value(value: object) -> object:
    """Snowflakes as text: readers in JavaScript keep 53 bits."""
    if isinstance(value, Mapping):
        return {str(name): _json_value(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_json_value(item) for item in value]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > 2**53:
        return str(value)
    return value


def _write(text: str) -> None:
    sys.stdout.write(text + "\n")


@contextlib.contextmanager
def progress(first: str) -> Iterator[Callable[[str], None]]:
    """Shows a line that changes while something long goes on: on stderr, on a terminal only.

    Gives the function that changes it.
    """
    screen = Console(stderr=True, highlight=False, markup=False, emoji=False)
    if not screen.is_terminal:
        yield lambda _line: None
        return
    with screen.status(Text(first)) as status:
        yield lambda line: status.update(Text(one_line(line, CELL_CHARS)))


@contextlib.contextmanager
def progress_bar(title: str, total: int) -> Iterator[Callable[[], None]]:
    """Shows how many of a known number are done: on stderr, on a terminal only.

    Gives the function that counts one.
    """
    screen = Console(stderr=True, highlight=False, markup=False, emoji=False)
    with Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        console=screen,
        transient=True,
        disable=not screen.is_terminal,
    ) as bar:
        task = bar.add_task(one_line(title, CELL_CHARS), total=total)
        yield lambda: bar.advance(task)
