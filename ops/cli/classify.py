"""`turnfleet classify`: what the worker would make of a provider's error.

Comes in: the body of an answer on stdin, its status and headers as options. Goes out: category,
cause, what happens next, what a channel shows, and the redacted snippet.
"""

import sys
import time
from typing import Annotated

import msgspec
import typer

from ops.cli.output import Output, OutputFormat, print_record
from ops.replay.classify import MAX_BODY_CHARS, verdict
from shared.errors import ConfigError
from shared.failures import ProviderFault
from shared.i18n import load_texts
from shared.turns import CredentialSource

_HELP_HEADER = "A response header, NAME: VALUE; may be given several times."
_HELP_EXCEPTION = "No answer came: the name of the transport's exception."


def classify(
    status: Annotated[int, typer.Option(help="The HTTP status; 0 for none.", min=0, max=599)] = 0,
    provider: Annotated[str, typer.Option(help="The provider's name.")] = "custom",
    header: Annotated[list[str] | None, typer.Option("-H", "--header", help=_HELP_HEADER)] = None,
    exception: Annotated[str | None, typer.Option(help=_HELP_EXCEPTION)] = None,
    credential: Annotated[
        CredentialSource, typer.Option(help="Whose key was used.")
    ] = CredentialSource.SERVER,
    locale: Annotated[str, typer.Option(help="The language of the notice.")] = "en",
    output: Output = OutputFormat.TABLE,
) -> None:
    """Classifies an error body from stdin: `turnfleet classify --status 429 < body.json`.

    Sends nothing and stores nothing.
    """
    body = "" if sys.stdin.isatty() else sys.stdin.read(MAX_BODY_CHARS)
    fault = ProviderFault(
        provider=provider,
        status=status,
        headers=tuple(map(_header, header or ())),
        body=body,
        exception=exception,
        now_s=time.time(),
    )
    found = verdict(fault, load_texts(), source=credential, locale=locale)
    print_record(msgspec.structs.asdict(found), output)


def _header(line: str) -> tuple[str, str]:
    name, colon, value = line.partition(":")
    if not colon or not name.strip():
        raise ConfigError(f"--header takes NAME: VALUE, not {line!r}")
    return name.strip(), value.strip()
