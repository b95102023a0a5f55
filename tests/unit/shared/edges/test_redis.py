import asyncio
import traceback

import msgspec
import pytest
import redis.exceptions as errors
from redis.asyncio.client import Pipeline
from redis.asyncio.connection import Connection, SSLConnection, UnixDomainSocketConnection

from shared.edges.redis import (
    ServerFacts,
    check_facts,
    check_url,
    connection_pool,
    safe_url,
    translated,
)
from shared.errors import ConfigError, StoreError, StoreFull, StoreUnavailable, StoreUnsafe

GOOD = ServerFacts(
    flavor="redis",
    version="7.0.15",
    mode="standalone",
    role="master",
    eviction="noeviction",
    has_aof=True,
)

URLS = {
    "tcp": ("redis://localhost:6379/0", Connection),
    "tls": ("rediss://:secret@example.org", SSLConnection),
    "socket": ("unix:///run/redis.sock?db=0", UnixDomainSocketConnection),
}

WRONG = {
    "http://localhost": "no known scheme",
    "localhost:6379": "no known scheme",
    "": "no known scheme",
    "redis://": "names no host",
    "redis://localhost:99999": "is no URL",
    "redis://localhost:port": "is no URL",
    "redis://[::1": "is no URL",
    "redis://localhost/first": "the database is a number",
    "unix://": "names no socket",
    "unix://run/redis.sock": "third slash",
    "redis://localhost?socket_timeout=soon": "socket_timeout",
}


@pytest.mark.parametrize(("url", "kind"), URLS.values(), ids=URLS)
async def test_good_urls_give_a_pool_that_waits(url: str, kind: type[Connection]):
    pool = connection_pool(url)
    assert issubclass(pool.connection_class, kind)
    assert pool.connection_class is not kind
    assert pool.connection_kwargs["socket_timeout"] == 5.0
    assert OSError in pool.connection_kwargs["retry_on_error"]


async def test_a_blocking_read_may_take_longer_than_a_command():
    pool = connection_pool("redis://localhost", blocking=True)
    assert pool.connection_kwargs["socket_timeout"] == 7.0


@pytest.mark.parametrize(("url", "words"), WRONG.items(), ids=WRONG)
def test_wrong_urls_are_explained(url: str, words: str):
    with pytest.raises(ConfigError, match=words) as caught:
        connection_pool(url)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("url", ["redis://u:hush@h:1/x", "ftp://u:hush@h", "redis://u:hush@h:port"])
def test_no_message_shows_a_password(url: str):
    with pytest.raises(ConfigError) as caught:
        check_url(url)
    assert "hush" not in str(caught.value)


def test_a_url_is_shown_without_its_secrets():
    assert safe_url("redis://u:hush@h:1/2?password=hush") == "redis://***@h:1/2"
    assert safe_url("unix:///run/a.sock") == "unix:///run/a.sock"
    assert safe_url("redis://[") == "(unreadable URL)"


def test_a_good_server_passes():
    check_facts(GOOD, "Redis")
    check_facts(msgspec.structs.replace(GOOD, flavor="valkey", version="9.1.2"), "Valkey")


BAD = {
    "old": ({"version": "6.2.14"}, ConfigError, "the oldest that work"),
    "cluster": ({"mode": "cluster"}, ConfigError, "a cluster"),
    "replica": ({"role": "slave"}, StoreUnsafe, "name the primary"),
    "evicting": ({"eviction": "allkeys-lru"}, StoreUnsafe, "set it to noeviction"),
    "forgetful": ({"has_aof": False}, StoreUnsafe, "set appendonly to yes"),
}


@pytest.mark.parametrize(("changes", "kind", "words"), BAD.values(), ids=BAD)
def test_a_bad_server_is_refused(changes: dict[str, object], kind: type[Exception], words: str):
    facts = msgspec.structs.replace(GOOD, **changes)
    with pytest.raises(kind, match=words):
        check_facts(facts, "Redis")


def test_an_unsafe_server_can_be_allowed():
    facts = msgspec.structs.replace(GOOD, has_aof=False, eviction="allkeys-lru")
    check_facts(facts, "Redis", allow_unsafe=True)


TRANSLATIONS = {
    "refused": (ConnectionRefusedError(111, "refused"), StoreUnavailable),
    "gone": (errors.ConnectionError("gone"), StoreUnavailable),
    "loading": (errors.BusyLoadingError("LOADING"), StoreUnavailable),
    "slow": (errors.TimeoutError("slow"), StoreUnavailable),
    "our limit": (TimeoutError(), StoreUnavailable),
    "replica": (errors.ReadOnlyError("READONLY"), StoreUnavailable),
    "demoted": (errors.ResponseError("UNBLOCKED force unblock from blocking"), StoreUnavailable),
    "disk": (errors.ResponseError("MISCONF Errors writing to the AOF file"), StoreUnavailable),
    "busy": (errors.ResponseError("BUSY Redis is busy running a script"), StoreUnavailable),
    "full": (errors.OutOfMemoryError("OOM"), StoreFull),
    "password": (errors.AuthenticationError("WRONGPASS"), ConfigError),
    "rights": (errors.NoPermissionError("NOPERM"), ConfigError),
    "command": (errors.ResponseError("ERR"), StoreError),
    "script": (errors.NoScriptError("NOSCRIPT"), StoreError),
}


@pytest.mark.parametrize(("raised", "kind"), TRANSLATIONS.values(), ids=TRANSLATIONS)
def test_foreign_errors_become_ours(raised: Exception, kind: type[Exception]):
    with pytest.raises(kind) as caught, translated():
        raise raised
    assert type(caught.value) is kind
    assert caught.value.__cause__ is raised


def test_an_error_of_a_pipeline_is_known_and_shows_no_command():
    raised = errors.ResponseError("MISCONF Errors writing to the AOF file: No space left on device")
    command = ["SET", "tf:{main}:x", "what a person wrote of pipeline caused error: it"]
    Pipeline.annotate_exception(Pipeline.__new__(Pipeline), raised, 1, command)
    with pytest.raises(StoreUnavailable) as caught, translated():
        raise raised
    shown = "".join(traceback.format_exception(caught.value))
    assert "MISCONF Errors writing to the AOF file: No space left on device" in shown
    assert "what a person wrote" not in shown


def test_every_error_of_redis_py_is_ours_afterwards():
    for name, kind in vars(errors).items():
        if isinstance(kind, type) and issubclass(kind, errors.RedisError):
            raised = kind.__new__(kind)
            with pytest.raises((StoreError, ConfigError)), translated():
                raise raised
            assert name


def test_a_cancel_is_no_error():
    with pytest.raises(asyncio.CancelledError), translated():
        raise asyncio.CancelledError
