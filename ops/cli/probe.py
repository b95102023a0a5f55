"""`turnfleet worker --probe` and `turnfleet gateway --probe`: is the process of this machine well?

Comes in: settings. Goes out: what it says, and exit code 0 or 1. Where the process serves its
health (`TURNFLEET_HEALTH_LISTEN`) it is asked there; else its account in Redis must be fresh.
"""

import asyncio
import socket
from typing import Annotated, Final

import httpx
import typer

from ops.cli.exits import Exit
from ops.cli.output import say
from ops.cli.session import fleet, settings_now
from shared.edges.records import ProcessRecord
from shared.setting_rules import address_of

LIMIT_S: Final = 5.0
"""A process that cannot say within this that it is well is not."""
PATHS: Final = "/healthz", "/readyz"
EVERYWHERE: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - read, not listened on
"""Where a process that listens everywhere is asked."""


Probe = Annotated[
    bool, typer.Option("--probe", help="Ask the one of this machine how it is; 1 if not well.")
]


def probe(role: str) -> None:
    """Asks the process of this machine how it is; ends with 1 where it is not well."""
    listen = settings_now().health_listen
    if listen is None:
        problems = asyncio.run(_from_record(role))
    else:
        host, port = address_of(listen)
        problems = _asked(EVERYWHERE.get(host, host), port)
    for problem in problems:
        say(problem)
    if problems:
        raise typer.Exit(Exit.FAILED)
    say(f"the {role} is well")


def _asked(host: str, port: int) -> list[str]:
    name = f"[{host}]" if ":" in host else host
    problems: dict[str, None] = {}
    with httpx.Client(timeout=LIMIT_S, trust_env=False) as client:
        for path in PATHS:
            try:
                answer = client.get(f"http://{name}:{port}{path}")
            except httpx.HTTPError as exc:
                return [f"nobody answers at {name}:{port}: {type(exc).__name__}"]
            if answer.status_code != httpx.codes.OK:
                problems |= dict.fromkeys(answer.text.splitlines())
    return list(problems)


async def _from_record(role: str) -> list[str]:
    """A record lives for five beats; what is there has beaten lately."""
    host = socket.gethostname()
    async with fleet() as link:
        found = [one for one in await link.records.processes() if one.role == role]
    own = [one for one in found if one.host == host]
    if not own:
        return [f"no {role} of {host} has beaten lately"]
    return [problem for one in own for problem in _problems_of(one)]


def _problems_of(process: ProcessRecord) -> list[str]:
    name = process.process_id
    return [f"{name} takes nothing new and ends"] if process.is_draining else []
