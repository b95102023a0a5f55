"""`turnfleet redis`: the accounts of a fleet's processes in Redis.

Comes in: a directory. Goes out: an ACL file, and an address with a password for each role. Nothing
talks to a server.
"""

import contextlib
import os
import secrets
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import quote, urlsplit

import typer

from ops.acl import Role, acl_file, digest_of, digests_in
from ops.cli.output import say
from ops.cli.session import settings_now
from shared.edges.redis import check_url
from shared.errors import ConfigError
from shared.keys import Keys
from shared.secrets import Secret

USERS_FILE: Final = "users.acl"
PASSWORD_BYTES: Final = 32
PUBLIC_MODE: Final = 0o644
"""Of the files: containers read them as users of their own. The directory around is closed."""

app = typer.Typer(help="Accounts of the fleet's processes in Redis.", no_args_is_help=True)


@app.callback()
def redis() -> None:
    """Accounts of the fleet's processes in Redis."""


@app.command()
def acl(
    directory: Annotated[Path, typer.Argument(help="Made if it is missing, for its owner only.")],
    url: Annotated[
        str, typer.Option(help="The server's address, without user and password.")
    ] = "redis://redis:6379/0",
    rotate: Annotated[
        list[Role] | None,
        typer.Option(help="A new password; the old one stays good until the next run."),
    ] = None,
) -> None:
    """Writes `users.acl` for the server, and `redis-ROLE.url` for each kind of process.

    Passwords that are there stay. Give the server `aclfile /path/users.acl`; after a change the
    operator's account may say `ACL LOAD`. One file per process is its `TURNFLEET_REDIS_URL_FILE`.
    """
    settings = settings_now()
    check_url(url)
    if urlsplit(url).username or urlsplit(url).password:
        raise ConfigError("--url has a user or password: leave both out, they are made here")
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    users = directory / USERS_FILE
    before = users.read_text(encoding="ascii") if users.exists() else ""
    digests = {}
    for role in Role:
        path = directory / f"redis-{role}.url"
        is_new = role in (rotate or ()) or not path.exists()
        password = _new_password() if is_new else _password_in(path)
        digest = digest_of(password)
        old = digests_in(before, role)[:1] if is_new else []
        digests[role] = [digest, *(one for one in old if one != digest)]
        _write(path, _with_account(url, role, password) + "\n")
    _write(users, acl_file(Keys(settings.cell, settings.partitions), digests))
    say(f"Wrote {users} and an address for each of: {', '.join(Role)}.")


def _new_password() -> Secret:
    return Secret(secrets.token_urlsafe(PASSWORD_BYTES))


def _password_in(path: Path) -> Secret:
    password = urlsplit(path.read_text(encoding="ascii").strip()).password
    if not password:
        raise ConfigError(f"{path} holds no address with a password: remove it, to have a new one")
    return Secret(password)


def _with_account(url: str, role: Role, password: Secret) -> str:
    parts = urlsplit(url)
    account = f"{role}:{quote(password.reveal(), safe='')}"
    return parts._replace(netloc=f"{account}@{parts.netloc}").geturl()


def _write(path: Path, text: str) -> None:
    """Writes a file whole or not at all."""
    new = path.with_suffix(".new")
    with contextlib.suppress(FileNotFoundError):
        new.unlink()
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PUBLIC_MODE)
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(text)
    new.replace(path)
