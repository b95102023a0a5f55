"""`turnfleet redis` and `turnfleet secrets`: the accounts and secrets of a new deployment.

Comes in: a directory. Goes out: files, for each kind of process in a directory of its own. Nothing
talks to a server.
"""

import contextlib
import os
import secrets
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import quote, urlsplit

import typer
from nacl.public import PrivateKey

from ops.acl import Role, acl_file, digest_of, digests_in
from ops.cli.output import say
from ops.cli.session import settings_now
from shared.edges.redis import check_url
from shared.errors import ConfigError
from shared.keys import Keys
from shared.secrets import Secret

USERS_FILE: Final = "redis/users.acl"
PASSWORD_BYTES: Final = 32
MODE: Final = 0o640
DIRECTORY_MODE: Final = 0o750
"""The group may read: containers have users of their own, and get this group besides."""
REDIS_URL: Final = "redis://redis:6379/0"
DATABASE_HOST: Final = "postgres:5432"
KEYS_OF_PEOPLE: Final = (
    *((Role.GATEWAY, "TURNFLEET_DISCORD_TOKEN"), (Role.RECORDER, "TURNFLEET_SENTRY_DSN")),
    *((Role.WORKER, f"{name}_API_KEY") for name in ("OPENAI", "ANTHROPIC", "GEMINI", "OPENROUTER")),
)
"""What nobody can make up here: an empty file each, to be filled."""

app = typer.Typer(help="Accounts of the fleet's processes in Redis.", no_args_is_help=True)

Url = Annotated[str, typer.Option(help="Redis's address, without user and password.")]
Rotate = Annotated[
    list[Role] | None,
    typer.Option(help="A new password; the old one stays good until the next run."),
]
Directory = Annotated[Path, typer.Argument(help="Made if it is missing, for its owner only.")]


@app.callback()
def redis() -> None:
    """Accounts of the fleet's processes in Redis."""


@app.command()
def acl(directory: Directory, url: Url = REDIS_URL, rotate: Rotate = None) -> None:
    """Writes `redis/users.acl`, and `ROLE/TURNFLEET_REDIS_URL` for each kind of process.

    Passwords that are there stay. Give the server `aclfile /path/users.acl`; after a change the
    operator's account may say `ACL LOAD`. A process takes its directory as TURNFLEET_SECRETS_DIR.
    """
    _write_accounts(directory, url, rotate or [])
    say(f"Wrote {directory / USERS_FILE} and an address for each of: {', '.join(Role)}.")


def write_secrets(
    directory: Directory,
    url: Url = REDIS_URL,
    database: Annotated[str, typer.Option(help="PostgreSQL, as host:port.")] = DATABASE_HOST,
) -> None:
    """Makes every secret of a deployment that can be made, and a place for each other one.

    What is there stays, so that it can be run again. Files that are left empty are not used.
    """
    _write_accounts(directory, url, [])
    password = _made(directory / "postgres" / "password")
    address = f"postgresql+asyncpg://turnfleet:{password}@{database}/turnfleet"
    for role in (Role.RECORDER, Role.CONSOLE, Role.OPERATOR):
        _write(directory / role / "TURNFLEET_DATABASE_URL", f"{address}\n")
    _made(directory / Role.CONSOLE / "TURNFLEET_CONSOLE_TOKEN")
    opening = directory / Role.WORKER / "opening.keys"
    if not opening.exists():
        pair = PrivateKey.generate()
        _write(opening, f"{bytes(pair).hex()}\n")
        for role in (Role.GATEWAY, Role.OPERATOR):
            _write(directory / role / "TURNFLEET_SEALING_KEY", f"{bytes(pair.public_key).hex()}\n")
    at_rest = directory / Role.GATEWAY / "TURNFLEET_AT_REST_KEY"
    if not at_rest.exists():
        _write(at_rest, f"{secrets.token_hex(PASSWORD_BYTES)}\n")
    for role in (Role.WORKER, Role.CONSOLE, Role.OPERATOR):
        _write(directory / role / at_rest.name, at_rest.read_text(encoding="ascii"))
    empty = []
    for role, name in KEYS_OF_PEOPLE:
        path = directory / role / name
        if not path.exists():
            _write(path, "")
        if not path.read_text(encoding="utf-8").strip():
            empty.append(f"{role}/{name}")
    say(f"Wrote the secrets to {directory}. Still empty, fill in what you use: {', '.join(empty)}.")


def _write_accounts(directory: Path, url: str, rotate: list[Role]) -> None:
    settings = settings_now()
    check_url(url)
    if urlsplit(url).username or urlsplit(url).password:
        raise ConfigError("--url has a user or password: leave both out, they are made here")
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    users = directory / USERS_FILE
    before = users.read_text(encoding="ascii") if users.exists() else ""
    digests = {}
    for role in Role:
        path = directory / role / "TURNFLEET_REDIS_URL"
        is_new = role in rotate or not path.exists()
        password = Secret(_random()) if is_new else _password_in(path)
        digest = digest_of(password)
        old = digests_in(before, role)[:1] if is_new else []
        digests[role] = [digest, *(one for one in old if one != digest)]
        _write(path, _with_account(url, role, password) + "\n")
    _write(users, acl_file(Keys(settings.cell, settings.partitions), digests))


def _random() -> str:
    return secrets.token_urlsafe(PASSWORD_BYTES)


def _made(path: Path) -> str:
    """What the file holds; something random where there is none."""
    if not path.exists():
        _write(path, f"{_random()}\n")
    return path.read_text(encoding="ascii").strip()


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
    path.parent.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
    new = path.with_name(f".{path.name}.new")
    with contextlib.suppress(FileNotFoundError):
        new.unlink()
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, MODE)
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(text)
    new.replace(path)
