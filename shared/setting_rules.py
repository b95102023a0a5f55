"""What the type of a setting cannot say: the form of texts that mean a number, an address or a key.

Comes in: values of single settings. Goes out: what they mean, or a `SettingError`. Pure.
`shared.config` asks `RULES` of every value, so that `turnfleet config check`, `turnfleet doctor`
and the processes refuse the same; who uses a value reads it with the same function.
"""

import logging
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from shared.at_rest import keys_of
from shared.errors import SettingError
from shared.sealed import public_key_of

AUTO: Final = "auto"
MAX_SHARDS: Final = 1_000
"""A bot of 2.5 million guilds; more is a slip of the keyboard."""
MAX_PORT: Final = 65_535


def wanted_shards(setting: int | str) -> int:
    """The number of shards that a setting names; 0 for `auto`.

    >>> wanted_shards("4"), wanted_shards(4), wanted_shards("auto")
    (4, 4, 0)
    """
    text = str(setting)
    if text.strip().lower() in ("", "0", AUTO):
        return 0
    if text.isdecimal() and text.isascii() and int(text) <= MAX_SHARDS:
        return int(text)
    what = "this is no number of shards"
    raise SettingError("discord_shards", what, f"use 1 to {MAX_SHARDS}, or auto", shown=text)


def address_of(listen: str) -> tuple[str, int]:
    """Reads `host:port`, `:port` or `[host]:port`. Raises `SettingError`."""
    host, _, port = listen.rpartition(":")
    if not (port.isdecimal() and port.isascii()) or int(port) > MAX_PORT:
        what = "this is no address to listen at"
        raise SettingError("health_listen", what, "write host:port, such as :9464", shown=listen)
    return host.strip("[]") or "0.0.0.0", int(port)  # noqa: S104 - asked for by its operator


def level_of(name: str) -> int:
    """The number of a level of logs. Raises `SettingError`."""
    level = logging.getLevelNamesMapping().get(name.upper())
    if level is None:
        deed = "use DEBUG, INFO, WARNING or ERROR"
        raise SettingError("log_level", "there is no such level", deed, shown=name)
    return level


RULES: Final[Mapping[str, Callable[[Any], object]]] = MappingProxyType(
    {
        "at_rest_key": keys_of,
        "discord_shards": wanted_shards,
        "health_listen": address_of,
        "log_level": level_of,
        "sealing_key": public_key_of,
    }
)
"""By the setting: what reads it, and raises a `SettingError` where it cannot."""
