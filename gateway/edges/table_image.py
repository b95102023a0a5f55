"""Who draws tables: a process beside the gateway, so that the loop never waits for a picture.

Comes in: the sources of tables. Goes out: PNGs, or None where text must do. `gateway.app` makes it.

Fonts are looked for where Debian's packages put them: `fonts-dejavu-core` (or Liberation),
`fonts-noto-cjk` and `fonts-noto-color-emoji`. What is missing is said once, in one log line.
"""

import asyncio
import contextlib
import logging
import multiprocessing
import os
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from multiprocessing.connection import wait
from pathlib import Path
from types import MappingProxyType
from typing import Final

from gateway.edges.table_drawing import Drawn, Fonts, draw
from shared.cancelling import is_cancelled

logger = logging.getLogger(__name__)

DRAW_TIMEOUT_S: Final = 10.0
"""A table of a hundred rows takes a tenth of a second; the first one starts the process."""
FONT_DIRS: Final = ("/usr/share/fonts", "/usr/local/share/fonts")
FONT_NAMES: Final = MappingProxyType(
    {
        "text": ("DejaVuSans.ttf", "NotoSans-Regular.ttf", "LiberationSans-Regular.ttf"),
        "bold": ("DejaVuSans-Bold.ttf", "NotoSans-Bold.ttf", "LiberationSans-Bold.ttf"),
        "cjk": ("NotoSansCJK-Regular.ttc", "wqy-zenhei.ttc", "wqy-microhei.ttc"),
        "emoji": ("NotoColorEmoji.ttf",),
    }
)
"""Files by purpose, the better one first."""
PACKAGES: Final = MappingProxyType(
    {
        "text": "fonts-dejavu-core",
        "bold": "fonts-dejavu-core",
        "cjk": "fonts-noto-cjk",
        "emoji": "fonts-noto-color-emoji",
    }
)


class NoPainter:
    """Draws nothing: all tables are shown as text."""

    async def paint(self, source: str) -> bytes | None:
        """None."""
        del source
        return None


class PoolPainter:
    """Draws tables in a process of its own, which starts with the first one.

    Args:
        fonts: what to draw with.
        timeout_s: how long a table may take.
        draw: what the process does.
    """

    def __init__(
        self,
        fonts: Fonts,
        *,
        timeout_s: float = DRAW_TIMEOUT_S,
        draw: Callable[[str, Fonts], Drawn | None] = draw,
    ) -> None:
        self._fonts = fonts
        self._timeout_s = timeout_s
        self._draw = draw
        self._pool: ProcessPoolExecutor | None = None

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Ends the process with the block."""
        try:
            yield
        finally:
            if self._pool is not None:
                self._leave(self._pool)

    async def paint(self, source: str) -> bytes | None:
        """A Markdown table as a PNG; None for one that is too large, or that failed.

        A process that fails takes along all that it was given. Cancelled, nothing was drawn.
        """
        if self._pool is None:
            # A fork would copy the loop and its sockets.
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(
                max_workers=1, mp_context=context, initializer=end_with_parent
            )
        loop, pool = asyncio.get_running_loop(), self._pool
        try:
            async with asyncio.timeout(self._timeout_s):
                drawn = await loop.run_in_executor(pool, self._draw, source, self._fonts)
        except asyncio.CancelledError:
            if is_cancelled():
                raise
            return None  # another table failed, and this one waited behind it
        except (BrokenExecutor, TimeoutError, OSError, ValueError) as exc:
            logger.warning("table.failed", extra={"error": type(exc).__name__})
            self._leave(pool)
            return None
        if drawn is None:
            return None
        if drawn.boxes:
            logger.warning("table.signs_missing", extra={"count": drawn.boxes})
        return drawn.png

    def _leave(self, pool: ProcessPoolExecutor) -> None:
        if pool is self._pool:
            self._pool = None
        for process in list((pool._processes or {}).values()):  # it has no way to stop one
            process.terminate()
        pool.shutdown(wait=False, cancel_futures=True)


def end_with_parent() -> None:
    """Ends this process when its parent is gone, however that ended: a pool would wait for ever."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(0)

    threading.Thread(target=watch, name="parent watch", daemon=True).start()


def find_fonts(directories: tuple[str, ...] = FONT_DIRS) -> Fonts:
    """The fonts of this machine; a log line says which packages are missing."""
    files = {
        path.name: str(path)
        for directory in directories
        for path in sorted(Path(directory).rglob("*.tt[fc]"))
    }
    found = {
        purpose: next((files[name] for name in names if name in files), None)
        for purpose, names in FONT_NAMES.items()
    }
    missing = sorted({PACKAGES[purpose] for purpose, path in found.items() if path is None})
    if missing:
        logger.warning("table.fonts_missing", extra={"packages": missing})
    return Fonts(**found)
