"""`turnfleet config`: the configuration file, and what guilds, channels and users chose.

Comes in: the file, the environment, the fleet's Redis. Goes out: problems with line and column, the
values that hold, where the fleet differs. Secrets are never shown; the file has none.
"""

import asyncio
import difflib
import os
import secrets
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer

from ops.cli.choosing import changed, owner_of
from ops.cli.exits import Exit
from ops.cli.output import Output, OutputFormat, print_record, print_records, say
from ops.cli.session import Fleet, fleet
from shared.config import PREFIX, Settings, load_settings, named_settings, unseen_names
from shared.configuration.choices import Choices, Place
from shared.configuration.loading import FILE_NAME, Loaded, config_path, digest_of, load, read_text
from shared.configuration.reading import Wrong, read_configuration
from shared.configuration.settling import unknown_names
from shared.edges.choices import ChoicesStore, LiveChoices
from shared.edges.records import ProcessRecord
from shared.edges.redis import safe_url, within
from shared.errors import ConfigError, StoreError
from shared.lifetimes import CONFIG_TTL_MS
from shared.secret_settings import HOLDERS, SECRETS

HIDDEN: Final = "[set]"
FOLLOWING: Final = frozenset({"gateway", "worker"})
"""Roles that follow the file while they run; the others read it at their start."""
RELOAD_S: Final = 10.0
"""Processes look every two seconds and report every two."""

app = typer.Typer(
    help="The configuration file, and what guilds chose.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

File = Annotated[
    Path | None, typer.Argument(help="The file; without it, the one that processes read.")
]
Guild = Annotated[int | None, typer.Option(min=1, help="A guild's id.")]
Channel = Annotated[int | None, typer.Option(min=1, help="A channel's or thread's id.")]
User = Annotated[int | None, typer.Option(min=1, help="A user's id.")]


@app.command("check")
def check(file: File = None) -> None:
    """Says everything that is wrong, with line, column and what to do. Ends with 3 if anything is.

    The environment is checked too, as a process would read it.
    """
    path = _path(file)
    if path is None:
        _warn(load(os.environ).settings)
        say(f"There is no {FILE_NAME}; the environment alone is right.")
        return
    found = read_configuration(read_text(path), _shown(path))
    if isinstance(found, Wrong):
        for problem in found.problems:
            typer.echo(str(problem))
        raise typer.Exit(Exit.FOUND)
    _warn(load({**os.environ, f"{PREFIX}CONFIG": str(path)}).settings)
    say(f"{_shown(path)} is right.")


@app.command("show")
def show(
    guild: Guild = None,
    channel: Channel = None,
    user: User = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Shows what holds: the deployment, or one guild, channel or user, and who runs what."""
    if guild or channel or user:
        asyncio.run(_show_place(guild, channel, user, output))
        return
    error = ""
    try:
        loaded = load(os.environ)
    except ConfigError as exc:
        error, loaded = str(exc), None
    record = _facts(loaded) if loaded is not None else {"wrong": error}
    processes = asyncio.run(_processes())
    if output is OutputFormat.TABLE:
        print_record(record, output)
        digest = loaded.digest if loaded is not None else ""
        rows = [_process_row(one, digest) for one in processes]
        print_records(rows, ("process", "runs", "digest"), output, empty="No fleet is running.")
    else:
        rows = [_process_row(one, loaded.digest if loaded else "") for one in processes]
        print_record(record | {"processes": rows}, output)
    if error:
        raise typer.Exit(Exit.FOUND)


@app.command("diff")
def diff(file: File = None) -> None:
    """Compares the file with what the processes run. Ends with 3 where they differ."""
    path = _path(file)
    text = "" if path is None else read_text(path)
    is_different = asyncio.run(_diff("(no file)" if path is None else _shown(path), text))
    if is_different:
        raise typer.Exit(Exit.FOUND)
    say("Every process runs this file.")


@app.command("reload")
def reload() -> None:
    """Lets every gateway and worker read its file again now, and says who does."""
    loaded = load(os.environ)  # a file that is wrong is said here, before anybody is asked
    late = asyncio.run(_reload(loaded))
    for row in late:
        typer.echo(f"{row['process']}: {row['runs']}")
    if late:
        raise typer.Exit(Exit.FAILED)
    say("Every gateway and worker runs this file.")


@app.command("set")
def set_(
    settings: Annotated[list[str], typer.Argument(metavar="NAME=VALUE...")],
    guild: Guild = None,
    channel: Channel = None,
    user: User = None,
) -> None:
    """Chooses something for one guild, channel or user; it holds from the next prompt on.

    Names are those of [defaults]; a list has commas: access.deny_users=1,2.
    """
    scope, owner = owner_of(guild, channel, user)

    async def change() -> list[str]:
        async with fleet() as opened:
            store = ChoicesStore(opened.redis, opened.keys)
            chosen = changed(await store.read(scope, owner), settings)
            unknown = unknown_names(load(os.environ).configuration, chosen)
            await store.write(scope, owner, chosen)
            return unknown

    for name in asyncio.run(change()):
        say(f"Note: the file here has no {name}; until it does, what is more general holds.")
    say(f"Set for {scope} {owner}: {', '.join(settings)}.")


@app.command("unset")
def unset(
    names: Annotated[list[str], typer.Argument(metavar="NAME...")],
    guild: Guild = None,
    channel: Channel = None,
    user: User = None,
) -> None:
    """Takes choices back, so that what is more general holds again."""
    scope, owner = owner_of(guild, channel, user)

    async def change() -> None:
        async with fleet() as opened:
            store = ChoicesStore(opened.redis, opened.keys)
            chosen = changed(await store.read(scope, owner), [f"{name}=" for name in names])
            await store.write(scope, owner, chosen)

    asyncio.run(change())
    say(f"Taken back for {scope} {owner}: {', '.join(names)}.")


async def _show_place(
    guild: int | None, channel: int | None, user: int | None, output: OutputFormat
) -> None:
    place = Place(channel_id=channel or 0, user_id=user or 0, guild_id=guild)
    async with fleet() as opened:
        store = ChoicesStore(opened.redis, opened.keys)
        loaded = load(os.environ)
        settled = await LiveChoices(store, lambda: loaded).settle(place)
        chosen = await store.every()
    record: dict[str, object] = {
        name: value for name, value in msgspec.to_builtins(settled).items() if value is not None
    }
    for name in (f"guild:{guild}", f"channel:{channel}", f"user:{user}"):
        if name in chosen:
            record[f"chosen by {name}"] = msgspec.to_builtins(chosen[name])
    print_record(record, output)


def _facts(loaded: Loaded) -> dict[str, object]:
    """The settings with where each comes from, and what the file has; no secret."""
    configuration = loaded.configuration
    record: dict[str, object] = {
        "file": "none" if loaded.path is None else _shown(loaded.path),
        "digest": loaded.digest,
    }
    for name in ("providers", "models", "routes", "personas"):
        record[name] = ", ".join(getattr(configuration, name))
    record["budgets"] = [msgspec.to_builtins(one) for one in configuration.budgets]
    if configuration.defaults != Choices():
        record["defaults"] = msgspec.to_builtins(configuration.defaults)
    record["limits"] = msgspec.to_builtins(configuration.limits)
    for name, value in msgspec.structs.asdict(loaded.settings).items():
        origin = "environment" if name in loaded.from_environment else ""
        if not origin and name in configuration.deployment:
            origin = "file"
        record[name] = f"{shown_setting(name, value)}{f'  ({origin})' if origin else ''}"
    return record


def shown_setting(name: str, value: object) -> object:
    """A setting's value as `config show` prints it."""
    if value is None:
        return "-"
    if name not in HOLDERS:
        return value
    if isinstance(value, dict):
        return {key: _address(one) for key, one in value.items()}
    return HIDDEN if name in SECRETS else safe_url(str(value))


def _address(value: object) -> str:
    """An address without its password and query; of a command its first word, which holds none."""
    if isinstance(value, str):
        return safe_url(value)
    return f"{value[0]} ..." if isinstance(value, tuple) and value else "..."


async def _processes() -> list[ProcessRecord]:
    """The processes that follow a file; none where no fleet answers."""
    try:
        async with fleet(_settings()) as opened:
            return await _following(opened)
    except (ConfigError, StoreError):
        return []


async def _following(opened: Fleet) -> list[ProcessRecord]:
    return [one for one in await opened.records.processes() if one.role in FOLLOWING]


def _process_row(one: ProcessRecord, digest: str) -> dict[str, str]:
    if one.config_error:
        runs = f"an older configuration; the file is refused: {one.config_error}"
    elif one.config_digest == digest:
        runs = "this configuration"
    else:
        runs = "another configuration"
    return {"process": one.process_id, "runs": runs, "digest": one.config_digest}


async def _diff(name: str, text: str) -> bool:
    mine = digest_of(text) if text else ""
    is_different = False
    async with fleet(_settings()) as opened:
        digests: dict[str, list[str]] = {}
        for one in await _following(opened):
            digests.setdefault(one.config_digest, []).append(one.process_id)
        for digest, processes in sorted(digests.items()):
            if digest == mine:
                continue
            is_different = True
            key = opened.keys.config_text(digest)
            found: bytes | None = await within(opened.redis.get(key)) if digest else b""
            typer.echo(f"# {', '.join(processes)}")
            if found is None:
                typer.echo(f"# runs {digest}, whose text is not kept any more")
                continue
            lines = difflib.unified_diff(
                found.decode().splitlines(),
                text.splitlines(),
                digest or "(no file)",
                name,
                lineterm="",
            )
            for line in lines:
                typer.echo(line)
    return is_different


async def _reload(loaded: Loaded) -> list[dict[str, str]]:
    """Asks, and waits until everybody follows. Returns those who do not."""
    async with fleet() as opened:
        wish = secrets.token_hex(8)
        await within(opened.redis.set(opened.keys.config_wish, wish, px=CONFIG_TTL_MS))
        late: list[dict[str, str]] = []
        try:
            async with asyncio.timeout(RELOAD_S):
                while True:
                    late = [
                        _process_row(one, loaded.digest)
                        for one in await _following(opened)
                        if one.config_error or one.config_digest != loaded.digest
                    ]
                    if not late:
                        return []
                    await asyncio.sleep(0.2)
        except TimeoutError:
            return late


def _warn(settings: Settings) -> None:
    """Says what only some processes refuse."""
    if (unseen := unseen_names(settings)) is not None:
        say(f"Note: a gateway with the Discord front does not start. {unseen}.")


def _settings() -> Settings:
    """The settings, those of the environment alone where the file is wrong."""
    try:
        return load(os.environ).settings
    except ConfigError:
        return load_settings(os.environ)


def _path(file: Path | None) -> Path | None:
    return file if file is not None else config_path(named_settings(os.environ))


def _shown(path: Path) -> str:
    """A path as short as it can be said from here."""
    try:
        return str(path.absolute().relative_to(Path.cwd()))
    except ValueError:
        return str(path)
