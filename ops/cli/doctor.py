"""`turnfleet doctor`: is everything here that a fleet needs, and what to do where it is not.

Comes in: the environment. Goes out: one finding per check. Nothing is changed.
"""

import asyncio
import os
import shutil
import ssl
import sys
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Annotated, Final
from urllib.parse import urlsplit

import msgspec
import typer

from ops.cli.exits import Exit
from ops.cli.output import Output, OutputFormat, print_records, progress, say
from ops.cli.session import redis_url
from ops.replay.endpoints import provider_facts
from ops.store.engine import Database, database_url
from ops.store.migrate import schema_state
from shared.config import Settings, data_dir, unseen_names
from shared.configuration.loading import load
from shared.edges.embedded import find_binary
from shared.edges.records import ProcessRecord, TurnRecords
from shared.edges.redis import check_server, connect, safe_url
from shared.errors import ConfigError, StoreError, StoreUnsafe, TurnfleetError
from shared.keys import Keys
from shared.secret_files import with_files

COLUMNS: Final = ("check", "verdict", "finding", "advice")
MIN_PYTHON: Final = (3, 11)
LOW_DISK_BYTES: Final = 1024**3
"""Room for a day of an append-only file, the spool and the database."""
NO_DISK_BYTES: Final = 128 * 1024**2
"""The spool alone may take half of this."""
CHECK_S: Final = 15.0
"""A check that takes longer has found something: nobody answers."""
DIAL_S: Final = 5.0
LONG_BACKLOG: Final = 1_000
"""Reports that wait for a recorder: five of its batches, so that it is away or the database is."""


class Verdict(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    WARN = "warn"
    """The fleet runs, and somebody should look."""
    FAIL = "fail"
    """The fleet does not start, or may lose work."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What a check found, and what to do about it."""

    check: str
    verdict: Verdict
    finding: str
    advice: str = ""


def doctor(
    output: Output = OutputFormat.TABLE,
    strict: Annotated[bool, typer.Option(help="End with 3 for warnings, too.")] = False,
) -> None:
    """Checks Python, settings, Redis, database, disk and provider, and says what to do.

    Ends with 2 when something fails, else with 0.
    """
    with progress("looking") as update:
        findings = asyncio.run(examine(update))
    rows = [msgspec.structs.asdict(finding) for finding in findings]
    print_records(
        [{**row, "verdict": str(row["verdict"])} for row in rows], COLUMNS, output, empty=""
    )
    verdicts = {finding.verdict for finding in findings}
    if Verdict.FAIL in verdicts:
        say("Something must be repaired before a fleet can run here.")
        raise typer.Exit(Exit.BAD_INPUT)
    if Verdict.WARN in verdicts and strict:
        raise typer.Exit(Exit.FOUND)


async def examine(update: Callable[[str], None] = lambda _name: None) -> list[Finding]:
    """Runs all checks, those that need settings only when these can be read."""
    findings = [_python()]
    try:
        settings = load(os.environ).settings
    except ConfigError as exc:
        return [*findings, _fail("settings", str(exc), "correct the variable and run this again")]
    findings.append(_ok("settings", f"{len(_given())} set, all understood"))
    if (unseen := unseen_names(settings)) is not None:
        what = f"TURNFLEET_DISCORD_NAMES: {unseen.what}; a gateway with that front does not start"
        findings.append(_warn("settings", what, unseen.deed))
    for name, check in CHECKS:
        update(name)
        findings += await _examined(name, check, settings)
    return findings


async def _examined(name: str, check: "Check", settings: Settings) -> list[Finding]:
    try:
        async with asyncio.timeout(CHECK_S):
            return await check(settings)
    except TimeoutError:
        return [_fail(name, f"no answer within {CHECK_S:g} s", "look whether the server is well")]
    except TurnfleetError as exc:
        return [_fail(name, str(exc), "see the finding")]


def _python() -> Finding:
    version = ".".join(str(part) for part in sys.version_info[:3])
    if sys.version_info < MIN_PYTHON:
        return _fail("python", version, "install Python 3.11 or newer")
    return _ok("python", f"{version} at {sys.executable}")


async def _disk(settings: Settings) -> list[Finding]:
    path = data_dir(settings)
    free = shutil.disk_usage(path).free
    text = f"{free / 1024**3:.1f} GiB free in {path}"
    advice = "make room, or set TURNFLEET_DATA_DIR to another disk"
    if not os.access(path, os.W_OK):
        return [_fail("disk", f"{path} cannot be written", "correct its owner or permissions")]
    if free < NO_DISK_BYTES:
        return [_fail("disk", text, advice)]
    if free < LOW_DISK_BYTES:
        return [_warn("disk", text, advice)]
    spooled = sum(1 for _ in (path / "spool").glob("*.ndjson"))
    if spooled:
        waiting = f"{text}; {spooled} files of reports wait for Redis"
        return [_warn("disk", waiting, "they are sent by the next process that starts here")]
    return [_ok("disk", text)]


async def _redis(settings: Settings) -> list[Finding]:
    try:
        url = redis_url(settings)
    except ConfigError:
        text = f"no fleet runs here; `turnfleet up` would start {find_binary()}"
        return [_ok("redis", text)]
    client = connect(url)
    try:
        facts = await check_server(client, url, allow_unsafe=settings.allow_unsafe_redis)
        text = (
            f"{facts.flavor} {facts.version} at {safe_url(url)}, {facts.eviction}, "
            f"AOF {'on' if facts.has_aof else 'off'}"
        )
        keys = Keys(settings.cell, settings.partitions)
        waiting = int(await client.xlen(keys.errors))
        buried = int(await client.xlen(keys.buried))
        processes = await TurnRecords(client, keys).processes()
    except StoreUnsafe as exc:
        return [_fail("redis", str(exc), "set maxmemory-policy noeviction and appendonly yes")]
    finally:
        await client.aclose()
    return [_ok("redis", text), *_backlog(waiting, buried), _fleet(processes)]


def _backlog(waiting: int, buried: int) -> list[Finding]:
    found = []
    if waiting > LONG_BACKLOG:
        text = f"{waiting} error reports wait to be written"
        found.append(_warn("errors", text, "start `turnfleet recorder`, or look at its log"))
    if buried:
        text = f"{buried} entries could not be read or stored"
        found.append(_warn("errors", text, "see which and why: turnfleet errors buried"))
    return found or [_ok("errors", f"{waiting} reports on their way")]


def _fleet(processes: list[ProcessRecord]) -> Finding:
    count = dict.fromkeys(("gateway", "worker", "recorder"), 0)
    for process in processes:
        count[process.role] = count.get(process.role, 0) + 1
    text = ", ".join(f"{number} {role}" for role, number in count.items())
    missing = [role for role, number in count.items() if number == 0]
    if missing:
        commands = ", ".join(f"turnfleet {role}" for role in missing)
        return _warn("fleet", text, f"start `turnfleet up`, or: {commands}")
    return _ok("fleet", text)


async def _database(settings: Settings) -> list[Finding]:
    url = database_url(settings.database_url, data_dir(settings))
    database = Database(url, read_only=True)
    if database.is_missing():
        text = f"{database.name} is not there yet"
        return [_ok("database", text, "`turnfleet recorder` makes it")]
    try:
        state = await schema_state(database)
    except StoreError as exc:
        return [_fail("database", str(exc), "start it, or correct TURNFLEET_DATABASE_URL")]
    finally:
        await database.close()
    if state.is_newer:
        text = f"{database.name}, schema {state.current}, which a newer version made"
        return [_ok("database", text, "leave it as it is")]
    if state.is_due:
        text = f"{database.name} is at {state.current or 'nothing'}, wanted is {state.wanted}"
        return [_warn("database", text, "run `turnfleet db upgrade`, or start the recorder")]
    return [_ok("database", f"{database.name}, schema {state.current}")]


async def _provider(settings: Settings) -> list[Finding]:
    if settings.provider == "rehearsal" and "rehearsal" not in settings.endpoints:
        return [_ok("provider", "rehearsal, which `turnfleet up` starts")]
    facts = provider_facts(settings, with_files(os.environ))
    parts = urlsplit(facts.base_url)
    try:
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        port = 0
    if parts.scheme not in {"http", "https"} or not parts.hostname or not port:
        return [_fail("provider", "its base URL is none", "correct TURNFLEET_ENDPOINTS")]
    name = f"{settings.provider} at {parts.scheme}://{parts.hostname}:{port}"
    problem = await _dial(parts.hostname, port, is_tls=parts.scheme == "https")
    if problem:
        advice = "check the address in TURNFLEET_ENDPOINTS, the network and the proxy"
        return [_fail("provider", f"{name}: {problem}", advice)]
    if facts.key_env is not None and not facts.has_key:
        advice = f"set {facts.key_env}, unless every turn brings its own key"
        return [_warn("provider", f"{name} answers, there is no key for it", advice)]
    return [_ok("provider", f"{name} answers")]


async def _dial(host: str, port: int, *, is_tls: bool) -> str:
    """Connects, TLS included. Returns what went wrong, or nothing."""
    context = ssl.create_default_context() if is_tls else None
    try:
        async with asyncio.timeout(DIAL_S):
            _, writer = await asyncio.open_connection(host, port, ssl=context)
    except TimeoutError:
        return f"no connection within {DIAL_S:g} s"
    except OSError as exc:
        return f"no connection ({exc.strerror or type(exc).__name__})"
    writer.close()
    return ""


def _given() -> list[str]:
    return [name for name in os.environ if name.startswith("TURNFLEET_")]


def _ok(check: str, finding: str, advice: str = "") -> Finding:
    return Finding(check=check, verdict=Verdict.OK, finding=finding, advice=advice)


def _warn(check: str, finding: str, advice: str) -> Finding:
    return Finding(check=check, verdict=Verdict.WARN, finding=finding, advice=advice)


def _fail(check: str, finding: str, advice: str) -> Finding:
    return Finding(check=check, verdict=Verdict.FAIL, finding=finding, advice=advice)


Check = Callable[[Settings], Awaitable[list[Finding]]]

CHECKS: Final[tuple[tuple[str, Check], ...]] = (
    ("disk", _disk),
    ("redis", _redis),
    ("database", _database),
    ("provider", _provider),
)
"""What is examined, in this order, once the settings are read."""
