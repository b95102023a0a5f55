"""The configuration of a running process: read again when its file changes, kept when it is wrong.

Comes in: the file, SIGHUP, the fleet's wish (`turnfleet config reload`). Goes out: `current`, and a
call of each listener after a change. Composition roots make one, and run it.

A file that is wrong changes nothing: its problems are logged once for each state of the file, and
stand in `error` until a good one comes, where `turnfleet config show` finds them.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from redis.asyncio import Redis

from shared.config import Settings
from shared.configuration.loading import Loaded, load
from shared.edges.redis import within
from shared.errors import ConfigError, StoreError
from shared.keys import Keys
from shared.lifetimes import CONFIG_TTL_MS
from shared.logs import fields

logger = logging.getLogger(__name__)

LOOK_S: Final = 2.0
"""How often file and wish are looked at: an operator who waits does not count to three."""
QUIET_S: Final = 0.2
"""A file that did not change for this long is whole."""
WRITE_AGAIN_S: Final = 6 * 3_600.0
"""How often the text is written to Redis again: well within its life there."""
FOLLOWED: Final = frozenset(
    {"config", "endpoints", "guild_depth", "global_depth", "guild_weights", "fair_by"}
)
"""Settings that are followed at once; the others hold from the next start on."""

Listener = Callable[[Loaded], None]


class LiveConfiguration:
    """What this process runs with.

    Args:
        environ: of the process; it stays as it is.
        loaded: what it began with.
        redis: a client of `shared.edges.redis.connect`.
        keys: the key names of the cell.
        look_s: how often it looks.

    Attributes:
        current: the last configuration that was right.
        error: what is wrong with the file since; empty while nothing is.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        loaded: Loaded,
        redis: Redis,
        keys: Keys,
        *,
        look_s: float = LOOK_S,
    ) -> None:
        self._look_s = look_s
        self.current = loaded
        self.error = ""
        self._environ = environ
        self._redis = redis
        self._keys = keys
        self._listeners: list[Listener] = []
        self._asked = asyncio.Event()
        self._stamp = _stamp(loaded.path)
        self._wish: bytes | None = None
        self._written_s = -WRITE_AGAIN_S

    def loaded(self) -> Loaded:
        """`current`, for who asks each time."""
        return self.current

    def on_change(self, listener: Listener) -> None:
        """Calls `listener` with every new configuration. It must not wait and not raise."""
        self._listeners.append(listener)

    def ask(self) -> None:
        """Reads the file again soon: the handler of SIGHUP."""
        self._asked.set()

    def reload(self) -> bool:
        """Reads environment and file; false where they are wrong, and nothing changed."""
        self._stamp = _stamp(self.current.path)
        try:
            loaded = load(self._environ)
            if loaded.path is None and self.current.path is not None:
                raise ConfigError(f"{self.current.path} is gone; put it back, or restart without")
        except ConfigError as exc:
            if str(exc) != self.error:
                self.error = str(exc)
                kept = self.current.digest
                logger.error("config.rejected", extra=fields(problems=self.error, kept=kept))
            return False
        self.error = ""
        old, self.current = self.current, loaded
        self._stamp = _stamp(loaded.path)
        if loaded != old:
            waiting = changed_settings(old.settings, loaded.settings) - FOLLOWED
            logger.info(
                "config.reloaded",
                extra=fields(
                    digest=loaded.digest, was=old.digest, needs_restart=sorted(waiting) or None
                ),
            )
            self._written_s = -WRITE_AGAIN_S
            for listener in self._listeners:
                listener(loaded)
        return True

    async def run(self) -> None:
        """Follows file, signal and wish, for ever. Cancelled, it leaves all as it is."""
        while True:
            if await self._is_asked():
                self.reload()
            await self._write_text()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._look_s):
                    await self._asked.wait()

    async def _is_asked(self) -> bool:
        is_asked = self._asked.is_set()
        self._asked.clear()
        if (stamp := _stamp(self.current.path)) != self._stamp:
            await asyncio.sleep(QUIET_S)
            # One that is still being written is looked at again: its beginning may be valid.
            is_asked = is_asked or _stamp(self.current.path) == stamp
        try:
            found: bytes | None = await within(self._redis.get(self._keys.config_wish))
        except StoreError:
            return is_asked
        wish = found or b""
        is_new = self._wish not in {None, wish} and wish != b""
        self._wish = wish
        return is_asked or is_new

    async def _write_text(self) -> None:
        """Keeps the text where `turnfleet config diff` reads it."""
        now_s = asyncio.get_running_loop().time()
        loaded = self.current
        if loaded.path is None or now_s - self._written_s < WRITE_AGAIN_S:
            return
        try:
            key = self._keys.config_text(loaded.digest)
            await within(self._redis.set(key, loaded.text, px=CONFIG_TTL_MS))
        except StoreError as exc:
            logger.debug("config.not_written", extra=fields(reason=str(exc)))
        else:
            self._written_s = now_s


def changed_settings(old: Settings, new: Settings) -> set[str]:
    """The names of settings that differ."""
    names = Settings.__struct_fields__
    return {name for name in names if getattr(old, name) != getattr(new, name)}


def _stamp(path: Path | None) -> tuple[int, int, int]:
    """What changes when a file is written, replaced, or mounted anew; zeros for none."""
    try:
        found = None if path is None else path.stat()
    except OSError:
        found = None
    return (0, 0, 0) if found is None else (found.st_mtime_ns, found.st_size, found.st_ino)
