"""Which settings hold a secret: the one list, for whoever hides, refuses, mounts or redacts them.

Comes in: the name and the value of a setting. Goes out: the secrets in it. Pure. `shared.logs`
makes `secrets_of` of it, `shared.secret_files` knows what may come from a file, `turnfleet config
check` what stands in no file that is copied, `turnfleet config show` what is never printed. A test
compares the list with the fields of `Settings`.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

_PARAMETER: Final = re.compile(
    r"(?i)(?:^|[-_]|api|access|client|auth)"
    r"(?:key|token|secret|auth|sig|signature|pwd|pass|password|passwd|passphrase)$"
)
"""Names of a query's parameters, and of a command's options, whose values are secrets. Drivers take
a password there; `ssl_ca_certs` and `ssl_keyfile` name files."""
_PASSWORD: Final = re.compile(r"(?i)(?:pwd|pass|password|passwd|passphrase)$")
"""Names of which the value is chosen by people, and may be short."""
_MODE: Final = re.compile(r"(?i)auth$")
"""Names of which the value is as often a way to show who one is as a key."""
MIN_NAMED_CHARS: Final = 4
"""Shorter than this, a secret would blank out ordinary text."""
MIN_MODE_CHARS: Final = 8
"""What is shorter behind the name of a mode is one: no vendor's key is so short, and what is taken
for a secret is taken out of every text."""
_PLAIN_WORD: Final = re.compile(
    r"(?i)(?:true|false|yes|no|on|off|none|null|auto|default|enabled|disabled|optional|required|"
    r"anonymous|basic|bearer|digest|negotiate|kerberos|oauth2?|password|passphrase|prompt|stdin|"
    r"environment|interactive|client[-_]credentials|authorization[-_]code|device[-_]code|"
    r"(?:access|refresh)[-_]token)"
)
"""Ways to show who one is, and switches: they stand behind the same names and are no secrets."""


def secrets_in(name: str, value: object) -> list[str]:
    """The secrets in a setting's value; nothing where the setting holds none.

    >>> secrets_in("at_rest_key", "new,old"), secrets_in("redis_url", "redis://u:hush@host/0")
    (['new', 'old'], ['hush'])
    """
    find = HOLDERS.get(name)
    return [] if find is None or value is None else list(dict.fromkeys(filter(None, find(value))))


def _whole(value: object) -> Iterator[str]:
    yield str(value)


def _several(value: object) -> Iterator[str]:
    for one in str(value).split(","):
        yield one.strip()


def _dsn(value: object) -> Iterator[str]:
    """The whole, and the key in it alone: an error quotes the one or the other."""
    yield str(value)
    yield from _address(value)


def _address(value: object) -> Iterator[str]:
    """Passwords of an address, as they are written and as they are meant."""
    try:
        parts = urlsplit(str(value))
        names = (parts.username, parts.password)
    except ValueError:
        yield str(value)  # it names no part that could be left to see
        return
    # Over HTTP a name alone is a token; Redis and databases have accounts without a password.
    is_token = parts.scheme in {"http", "https"} and not names[1]
    for secret in names[0 if is_token else 1 :]:
        yield secret or ""
        yield unquote(secret or "")
    for parameter, secret in parse_qsl(parts.query):
        yield from _named(parameter, secret)


def _addresses(value: object) -> Iterator[str]:
    """Those of addresses by name; of a command, what stands behind an option that asks for one."""
    for one in value.values() if isinstance(value, Mapping) else ():
        if isinstance(one, str):
            yield from _address(one)
        elif isinstance(one, tuple | list):
            yield from _words(list(map(str, one)))


def _words(words: list[str]) -> Iterator[str]:
    for option, following in zip(words, [*words[1:], ""], strict=True):
        name, has_value, secret = option.partition("=")
        if "://" in option:
            yield from _address(option)
        else:
            yield from _named(name, secret if has_value or following.startswith("-") else following)


def _named(name: str, value: str) -> Iterator[str]:
    """The value that stands behind a name, where the two together are a secret."""
    if not _PARAMETER.search(name) or _PLAIN_WORD.fullmatch(value):
        return
    least = MIN_MODE_CHARS if _MODE.search(name) else MIN_NAMED_CHARS
    if len(value) >= least or _PASSWORD.search(name):
        yield value


HOLDERS: Final[Mapping[str, Callable[[object], Iterator[str]]]] = MappingProxyType(
    {
        "discord_token": _whole,
        "console_token": _whole,
        "at_rest_key": _several,
        "sentry_dsn": _dsn,
        "redis_url": _address,
        "database_url": _address,
        "endpoints": _addresses,
        "mcp": _addresses,
    }
)
"""Settings that hold a secret, or may, and how it is found in their values."""
SECRETS: Final = frozenset({"discord_token", "console_token", "at_rest_key", "sentry_dsn"})
"""Those that are nothing else. The others are addresses, of which the rest may be seen."""
HARMLESS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "discord_rest_url": "an address of Discord; the token beside it is what counts",
        "opening_keys_file": "where the keys are, not the keys",
        "private_endpoints": "hosts and ports",
        "sealing_key": "the public half; the private one opens what it closes",
        "sentry_url": "pages that ask their visitors who they are",
    }
)
"""Settings whose names sound like a secret's, and why they are none."""
