"""The command `turnfleet`: one noun per module, loaded when it is used.

Comes in: the command line. Goes out: an exit code (`ops.cli.exits`). Errors of ours become one line
on stderr that says what to do.
"""

import errno
import importlib
import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from ops.cli.exits import Exit, exit_code
from ops.cli.output import say
from shared import __version__
from shared.errors import TurnfleetError
from shared.redaction import redact

NOUNS: Final = (
    "demo",
    "up",
    "gateway",
    "worker",
    "recorder",
    "console",
    "turns",
    "fleet",
    "errors",
    "usage",
    "discord",
    "config",
    "personas",
    "creds",
    "redis",
    "secrets",
    "privacy",
    "db",
    "doctor",
    "normalize",
    "segment",
    "classify",
)
"""The commands, in the order of `--help`. Each is a module of `ops.cli` with an `app`, or with a
function of its own name; what a build does not have, its help does not show."""


class Nouns(TyperGroup):
    """The group of all commands, which imports a noun's module on first use.

    The database layer alone takes half a second, which `turnfleet --version` need not wait for.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        """The nouns that this build has."""
        return [noun for noun in NOUNS if find_spec(_module(noun)) is not None]

    def get_command(self, ctx: Any, cmd_name: str) -> TyperCommand | TyperGroup | None:
        """The command of a noun."""
        if cmd_name not in self.list_commands(ctx):
            return None
        module = importlib.import_module(_module(cmd_name))
        app = getattr(module, "app", None)
        if app is None:
            app = typer.Typer(rich_markup_mode=None)
            app.command(cmd_name)(getattr(module, cmd_name))
        command = typer.main.get_command(app)
        assert isinstance(command, TyperCommand | TyperGroup)  # noqa: S101 - Typer makes only these
        command.name = cmd_name
        return command

    def invoke(self, ctx: Any) -> Any:
        """Runs the command and turns what it raises into a line and an exit code."""
        try:
            try:
                return super().invoke(ctx)
            finally:
                sys.stdout.flush()  # Python's own at the end would say that the pipe is closed
        except (TurnfleetError, KeyboardInterrupt, ExceptionGroup, OSError) as exc:
            raise typer.Exit(_explain(exc)) from exc


app = typer.Typer(
    name="turnfleet",
    cls=Nouns,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        typer.echo(f"turnfleet {__version__}")
        raise typer.Exit


Version = Annotated[
    bool,
    typer.Option(
        "--version", help="Print the version and end.", is_eager=True, callback=_print_version
    ),
]


@app.callback()
def turnfleet(version: Version = False) -> None:
    """A fleet of workers that answers prompts on Discord with language models.

    Exit codes: 0 done; 1 what was asked for failed; 2 bad input, bad setting or a server that does
    not answer; 3 a check found something; 4 no such thing; 130 interrupted.
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line of this process and ends it."""
    app(args=None if arguments is None else list(arguments))


def _module(noun: str) -> str:
    return f"ops.cli.{noun}"


def _explain(error: BaseException) -> Exit:
    """Says what went wrong in one line. Returns the exit code."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, KeyboardInterrupt):
        say("turnfleet: interrupted")
        return Exit.INTERRUPTED
    if isinstance(error, OSError) and error.errno == errno.EPIPE:
        # The reader of a pipe (`| head`) has seen enough; what is left goes nowhere, quietly.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.OK
    say(f"turnfleet: {redact(str(error)) or type(error).__name__}")
    return exit_code(error)
