"""Lua scripts: read from `scripts/`, with their includes, and run by digest.

Comes in: a script's name. Goes out: a callable. Only other edges import it.

A script is one file with a header that says its keys, arguments and answers. A line
`--@include name` is replaced by `scripts/name.lua`.
"""

import hashlib
from functools import cache
from importlib.resources import files
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import NoScriptError

INCLUDE = "--@include "


@cache
def source_of(name: str) -> str:
    """The text of a script with its includes."""
    text = (files("shared.edges") / "scripts" / f"{name}.lua").read_text(encoding="utf-8")
    lines = []
    for line in text.splitlines():
        if line.startswith(INCLUDE):
            lines.append(source_of(line.removeprefix(INCLUDE).strip()))
        else:
            lines.append(line)
    return "\n".join(lines)


class Script:
    """One script on one client.

    Every script is idempotent in the sense that its header states: after a lost connection the
    client sends it again.
    """

    __slots__ = ("_client", "_digest", "_source", "name")

    def __init__(self, client: Redis, name: str) -> None:
        self.name = name
        self._client: Any = client  # redis-py leaves execute_command untyped
        self._source = source_of(name)
        # The digest is Redis's name of a script, nothing is secured by it.
        self._digest = hashlib.sha1(self._source.encode(), usedforsecurity=False).hexdigest()

    async def __call__(self, keys: list[str], args: list[str | bytes | int]) -> Any:
        """Runs the script; sends its text when the server does not know it (restart, fail-over).

        Raises:
            redis.exceptions.RedisError: as redis-py says it; the caller translates.
        """
        try:
            return await self._client.execute_command(
                "EVALSHA", self._digest, len(keys), *keys, *args
            )
        except NoScriptError:
            return await self._client.execute_command("EVAL", self._source, len(keys), *keys, *args)
