"""What a process knows as secret is in none of its reports, whichever process it is."""

import ast
import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from pathlib import Path

import pytest

import gateway.app as gateway_app
import worker.app as worker_app
from ops.cli import recorder as recorder_app
from shared.config import Settings
from shared.configuration.loading import Loaded, load
from shared.edges.redis import connect
from shared.edges.reporter import Reporter, crash_keeper, reporter_of
from shared.failures import ErrorReport, Fault, ReportCategory, Severity
from shared.keys import Keys
from tests.support.servers import RedisServer, running_server

ROOT = Path(__file__).parents[2]
KEYS = Keys()
HUSH = {
    "of redis": "hush-redis-password",
    "of sentry": "https://hush0sentry0key@sentry.example/1",
    "of sentry alone": "hush0sentry0key",
    "of discord": "hush-discord-token-1",
    "of the console": "hush-console-token-1",
    "at rest": "3f" * 32,
    "at rest, the older": "c7" * 32,
    "of the database": "hush-database-password",
    "of an endpoint": "hush-endpoint-password",
}
OF_WORKERS = {"of a variable": "hush-variable-key-1", "of a file": "hush-placed-key-1"}


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with running_server("redis") as running:
        yield running


@pytest.fixture
async def environ(server: RedisServer, tmp_path: Path) -> dict[str, str]:
    async with aclosing(connect(server.url)) as client:
        await client.flushall()
        await client.acl_setuser(
            "us",
            enabled=True,
            passwords=[f"+{HUSH['of redis']}"],
            categories=["+@all"],
            keys=["*"],
            channels=["*"],
        )
    placed, config = tmp_path / "placed", tmp_path / "turnfleet.toml"
    placed.write_text(OF_WORKERS["of a file"])
    config.write_text(
        f'[providers.own]\nbase_url = "https://own.example/v1"\nkeys = ["file:{placed}"]\n'
    )
    return {
        "OPENAI_API_KEY": OF_WORKERS["of a variable"],
        "TURNFLEET_CONFIG": str(config),
        "TURNFLEET_DATA_DIR": str(tmp_path / "data"),
        "TURNFLEET_REDIS_URL": server.url.replace("//", f"//us:{HUSH['of redis']}@"),
        "TURNFLEET_DATABASE_URL": f"postgresql://u:{HUSH['of the database']}@localhost/d",
        "TURNFLEET_ENDPOINTS": f'{{"a": "https://u:{HUSH["of an endpoint"]}@host.example/v1"}}',
        "TURNFLEET_SENTRY_DSN": HUSH["of sentry"],
        "TURNFLEET_DISCORD_TOKEN": HUSH["of discord"],
        "TURNFLEET_CONSOLE_TOKEN": HUSH["of the console"],
        "TURNFLEET_AT_REST_KEY": f"{HUSH['at rest']},{HUSH['at rest, the older']}",
    }


@asynccontextmanager
async def of_gateway(loaded: Loaded, environ: dict[str, str]) -> AsyncIterator[Reporter]:
    async with gateway_app._parts(loaded, environ) as parts:
        yield parts.shared.reporter


@asynccontextmanager
async def of_worker(loaded: Loaded, environ: dict[str, str]) -> AsyncIterator[Reporter]:
    async with worker_app._parts(loaded, environ) as parts:
        yield parts.reporter


@asynccontextmanager
async def of_recorder(loaded: Loaded, environ: dict[str, str]) -> AsyncIterator[Reporter]:
    async with aclosing(connect(str(loaded.settings.redis_url))) as redis:
        reporter = reporter_of(loaded.settings, redis, KEYS, "recorder")
        yield reporter
        reporter.close()


Process = Callable[[Loaded, dict[str, str]], AbstractAsyncContextManager[Reporter]]
PROCESSES: dict[str, Process] = {
    "gateway": of_gateway,
    "worker": of_worker,
    "recorder": of_recorder,
}


@pytest.mark.parametrize("name", PROCESSES)
async def test_a_report_that_quotes_secrets_shows_none(
    server: RedisServer, environ: dict[str, str], name: str
):
    known = HUSH | (OF_WORKERS if name == "worker" else {})
    text = "; ".join(f"{where}: {secret}" for where, secret in known.items())
    async with PROCESSES[name](load(environ), environ) as reporter, asyncio.timeout(30):
        await reporter.report(
            ErrorReport(
                id="r1",
                created_ms=1,
                severity=Severity.ERROR,
                category=ReportCategory.INTERNAL,
                error_type="x",
                stage="x",
                fault=Fault.TURNFLEET,
                message=text,
                stack_trace=text,
                metadata={"why": text},
            )
        )
    async with aclosing(connect(server.url)) as client:
        ((_, fields),) = await client.xrange(KEYS.errors)
    sent = b"".join(fields.values()).decode()
    assert [where for where, secret in known.items() if secret in sent] == []
    assert "of redis: [redacted:key]" in sent


def test_what_ends_a_process_is_kept_without_its_secrets(tmp_path: Path):
    settings = Settings(data_dir=str(tmp_path), at_rest_key=HUSH["at rest"])
    crash_keeper(settings, "p")(ValueError(f"no: {HUSH['at rest']}"), "main")
    (file,) = (tmp_path / "spool").glob("*.ndjson")
    assert HUSH["at rest"] not in file.read_text()
    assert "no: [redacted:key]" in file.read_text()


def test_every_process_has_its_reporter_from_the_one_that_knows_the_settings():
    makers = [
        path.relative_to(ROOT).as_posix()
        for package in ("gateway", "worker", "ops", "shared")
        for path in (ROOT / package).rglob("*.py")
        if "Reporter" in called(path)
    ]
    assert makers == ["shared/edges/reporter.py"]
    for module in (gateway_app, worker_app, recorder_app):
        assert "reporter_of" in called(Path(os.fspath(str(module.__file__))))


def called(path: Path) -> set[str]:
    """The names that a module calls."""
    calls = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
    return {call.func.id for call in calls if isinstance(call.func, ast.Name)}
