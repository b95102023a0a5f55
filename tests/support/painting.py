"""Who draws in tests: one who needs no process, and what a real painter's process does.

That one must find `draw` by its name.
"""

import time

from gateway.edges.table_drawing import Drawn, Fonts

SLOW = "a table that takes for ever"
PNG = b"a picture"


class StubPainter:
    """The port `TablePainter`: `picture` for every table."""

    def __init__(self) -> None:
        self.picture: bytes | None = None

    async def paint(self, source: str) -> bytes | None:
        return self.picture and self.picture + source.encode()


def draw(source: str, fonts: Fonts) -> Drawn | None:
    del fonts
    if source == SLOW:
        time.sleep(60.0)
    return Drawn(png=PNG, boxes=0)
