"""Tables as pictures: whole, in every script that fonts are there for."""

import asyncio
import doctest
import io
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from PIL import Image

from gateway.edges import table_drawing
from gateway.edges.table_drawing import (
    INK,
    MAX_CELL_PX,
    MAX_HEIGHT_PX,
    MAX_JOINERS,
    MAX_SIGNS,
    PAD_X,
    Drawn,
    Fonts,
    draw,
    parse,
)
from gateway.edges.table_image import NoPainter, PoolPainter, find_fonts
from tests.support import painting

FONTS = find_fonts()
HAS_ALL = None not in FONTS
needs_fonts = pytest.mark.skipif(
    not HAS_ALL, reason="fonts-dejavu-core, fonts-noto-cjk, fonts-noto-color-emoji are missing"
)
LONG = "words that go on and on until nobody would read them in one line of a cell any more. " * 3


def table(*cells: str) -> str:
    return "| head |\n|---|\n" + "\n".join(f"| {cell} |" for cell in cells)


def picture(source: str, fonts: Fonts = FONTS) -> tuple[Image.Image, Drawn]:
    drawn = draw(source, fonts)
    assert drawn is not None
    return Image.open(io.BytesIO(drawn.png)).convert("RGB"), drawn


def brightest_near_the_edges(image: Image.Image) -> int:
    """Of the outer half of the padding: letters there would be cut, or nearly."""
    width, height = image.size
    left = image.crop((2, 2, PAD_X // 2, height - 2))
    right = image.crop((width - PAD_X // 2, 2, width - 2, height - 2))
    return max(int(strip.convert("L").getextrema()[1]) for strip in (left, right))  # type: ignore[arg-type]  # one band


@pytest.mark.parametrize(
    ("source", "rows", "aligns"),
    [
        ("| a | b |\n|:-:|--:|\n| 1 | 2 |", [["a", "b"], ["1", "2"]], ["^", ">"]),
        ("a|b\n-|-\n1|", [["a", "b"], ["1", ""]], ["<", "<"]),
        (r"| a |" + "\n|-|\n" + r"| x \| y |", [["a"], ["x | y"]], ["<"]),
        ("| a |\n|-|\n| `x|y` **b** ~~c~~ |", [["a"], ["x|y b c"]], ["<"]),
        ("| a |\n|-|\n| [t](http://x.y/(z)) <br> 2 * 3 * 4 |", [["a"], ["t \n 2 * 3 * 4"]], ["<"]),
        ("| a |\n|-|\n| 1 | 2 | 3 |", [["a"], ["1"]], ["<"]),
    ],
    ids=["bars", "no outer bars", "escaped bar", "code and marks", "link and break", "too many"],
)
def test_a_table_is_read(source, rows, aligns):
    found = parse(source)
    assert found is not None
    assert (found.rows, found.aligns) == (rows, aligns)


@pytest.mark.parametrize("source", ["", "text", "| a |", "| a |\n| b |"])
def test_what_is_no_table_is_not_drawn(source):
    assert draw(source, FONTS) is None


def test_a_picture_has_the_size_of_its_table_and_a_dark_head():
    image, _ = picture("| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |")
    assert image.convert("L").getpixel((0, 0)) == pytest.approx(80, abs=2)
    assert image.convert("L").getpixel((3, 3)) == pytest.approx(31, abs=2)
    taller, _ = picture("| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |\n| 5 | 6 |")
    assert taller.width == image.width
    assert taller.height > image.height


@pytest.mark.parametrize(
    "cell", [LONG, "x" * 500, "WWWW " * 60, "1.5"], ids=["words", "one word", "wide", "short"]
)
def test_no_text_is_cut(cell):
    image, _ = picture(table(cell))
    assert image.width <= MAX_CELL_PX + 2 * PAD_X + 30
    assert brightest_near_the_edges(image) < max(INK) // 2


@needs_fonts
@pytest.mark.parametrize(
    "cell", ["名前", "한국어", "りんご、", "🍎", "👩\u200d👩\u200d👧 🇯🇵", "é ✓ →", "привет"]
)
def test_every_sign_has_a_glyph(cell):
    image, drawn = picture(table(cell))
    assert drawn.boxes == 0
    blank, _ = picture(table("\u00a0"))
    assert image.size[1] == blank.size[1]
    assert image.tobytes() != blank.tobytes()


@needs_fonts
def test_emoji_are_colored_and_beside_the_text_not_over_it():
    image, _ = picture(table("a🍎b"))
    red, _, blue = image.split()
    assert any(r > 150 > 2 * b for r, b in zip(red.tobytes(), blue.tobytes(), strict=True))


@needs_fonts
def test_a_closing_mark_begins_no_line():
    wide, _ = picture(table("あ" * 21 + "あ。"))
    narrow, _ = picture(table("あ" * 21 + "あ"))
    assert wide.height == narrow.height


def test_signs_without_a_font_become_boxes_and_are_counted():
    _, drawn = picture(table("名 🍎"), Fonts(text=FONTS.text))
    assert drawn.boxes == 2


def test_without_any_font_there_is_still_a_picture():
    _, drawn = picture(table("plain"), Fonts())
    assert drawn.boxes == 0


@pytest.mark.parametrize(
    "source",
    [
        "|" + " a |" * 60 + "\n|" + "---|" * 60 + "\n|" + " 1 |" * 60,
        table(*(["x"] * (MAX_HEIGHT_PX // 40))),
    ],
    ids=["wide", "high"],
)
def test_what_no_picture_can_show_is_left_to_text(source):
    assert draw(source, FONTS) is None


@needs_fonts
@pytest.mark.parametrize(
    "cell",
    [
        " ".join(["👩\u200d👩\u200d👧"] * (MAX_JOINERS // 2 + 1)),
        "".join(map(chr, range(0x4E00, 0x4E00 + MAX_SIGNS))),
    ],
    ids=["joined emoji", "different signs"],
)
def test_what_would_take_seconds_is_left_to_text(cell):
    began_s = time.process_time()
    assert draw(table(cell), FONTS) is None
    assert time.process_time() - began_s < 0.1
    assert draw(table(cell[: len(cell) - 20]), FONTS) is not None


async def test_tables_are_drawn_beside_the_loop_and_the_process_ends():
    painter = PoolPainter(FONTS)
    async with painter.running():
        png = await painter.paint(table("one"))
        assert png is not None
        assert png.startswith(b"\x89PNG")
        assert await painter.paint("no table") is None
    assert await NoPainter().paint(table("one")) is None


async def test_a_table_that_takes_too_long_leaves_those_behind_it_to_text():
    painter = PoolPainter(FONTS, timeout_s=1.0, draw=painting.draw)
    async with painter.running(), asyncio.TaskGroup() as group:
        while await painter.paint("one") is None:
            pass  # the process takes its time to start
        waiting = [group.create_task(painter.paint(painting.SLOW)) for _ in range(3)]
        await asyncio.sleep(0.5)
        waiting += [group.create_task(painter.paint("two")) for _ in range(3)]
        # A group takes a child that something cancelled for one that ended in order.
        assert await asyncio.gather(*waiting, return_exceptions=True) == [None] * 6


async def test_what_ends_with_an_old_process_ends_no_new_one():
    painter = PoolPainter(FONTS, timeout_s=2.0, draw=painting.draw)
    async with painter.running(), asyncio.TaskGroup() as group:
        while await painter.paint("one") is None:
            pass
        waiting = [group.create_task(painter.paint(painting.SLOW)) for _ in range(2)]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        assert await painter.paint("two") == painting.PNG


async def test_a_drawing_that_is_not_waited_for_any_more_is_left():
    painter = PoolPainter(FONTS, draw=painting.draw)
    async with painter.running(), asyncio.TaskGroup() as group:
        waiting = group.create_task(painter.paint(painting.SLOW))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert waiting.cancelled()


KILLED = """
import asyncio, os, signal
from gateway.edges.table_image import Fonts, PoolPainter

async def main():
    painter = PoolPainter(Fonts())
    assert await painter.paint("| a |\\n|---|\\n| b |")
    (process,) = painter._pool._processes.values()
    print(process.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    asyncio.run(main())
"""


def test_a_gateway_that_is_killed_leaves_no_painter_behind(tmp_path):
    script = tmp_path / "killed.py"
    script.write_text(KILLED)
    environ = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run(
        [sys.executable, str(script)], env=environ, capture_output=True, timeout=60, check=False
    )
    pid = int(done.stdout)
    for _ in range(200):
        if not is_alive(pid):
            return
        time.sleep(0.05)
    pytest.fail("the painter lives on")


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False


def test_missing_packages_are_named_once(tmp_path, caplog):
    assert find_fonts((str(tmp_path),)) == Fonts()
    (record,) = [entry for entry in caplog.records if entry.message == "table.fonts_missing"]
    assert record.__dict__["packages"] == [
        "fonts-dejavu-core",
        "fonts-noto-cjk",
        "fonts-noto-color-emoji",
    ]


def test_the_examples_run():
    assert doctest.testmod(table_drawing).failed == 0
