"""A Markdown table as a picture.

Comes in: the table's source, fonts. Goes out: a PNG, and how many signs no font had. It runs in a
process of its own (`gateway.edges.table_image`), so it imports nothing that is heavy or ours.

Each sign is drawn with the first font that has it: text, then Chinese, Japanese and Korean, then
colored emoji. What none has becomes a box, and is counted.
"""

import io
import re
from functools import cache
from itertools import groupby
from typing import Final, NamedTuple

import regex
from PIL import Image, ImageDraw, ImageFont

TEXT_PX: Final = 28
"""Twice the size of Discord's own text: a picture is shown at half its size on sharp screens."""
LINE_PX: Final = 38
PAD_X: Final = 18
PAD_Y: Final = 11
MAX_CELL_PX: Final = 620
"""A cell that is wider is wrapped: some forty letters."""
MIN_CELL_PX: Final = 40
MAX_WIDTH_PX: Final = 3_000
MAX_HEIGHT_PX: Final = 8_000
"""Beyond these a picture is unreadable, and Discord shows it tiny."""
MAX_JOINERS: Final = 1_000
"""Signs that join emoji, in a table: three hundred families. One that joins what no font has as one
picture costs half a millisecond, and a cell of nothing else would hold up tables for seconds."""
MAX_SIGNS: Final = 3_000
"""Different signs in a table: all that a newspaper in Chinese uses. For each one it costs a fifth
of a millisecond to find its font."""
EMOJI_PX: Final = 109
"""The one size that bitmap emoji fonts have."""

PAPER, STRIPE, HEAD = (43, 45, 49), (49, 51, 56), (30, 31, 34)
LINE, INK, BOLD_INK = (78, 80, 88), (219, 222, 225), (242, 243, 245)

_ROW_BAR = re.compile(r"(?<!\\)((?:\\\\)*)\|")
_CODE = re.compile(r"(`+)(.+?)\1")
_SEPARATOR = re.compile(r"\s*:?-+:?\s*")
_MARKUP = (
    (re.compile(r"\*\*(.+?)\*\*"), r"\1"),
    (re.compile(r"__(.+?)__"), r"\1"),
    (re.compile(r"~~(.+?)~~"), r"\1"),
    (re.compile(r"(?<![\w*])\*(?!\s)(.+?)(?<!\s)\*(?![\w*])"), r"\1"),
    (re.compile(r"\[([^\]]+)\]\((?:[^()\s]|\([^()\s]*\))+\)"), r"\1"),
    (re.compile(r"(?i)<br\s*/?>"), "\n"),
    (re.compile(r"\\([^\w\s])"), r"\1"),
)
_EMOJI = regex.compile(r"\p{Emoji_Presentation}|\p{Emoji}\uFE0F|\p{Regional_Indicator}{2}")
_CLOSING = regex.compile(r"[\p{Pe}\p{Pf}.,;:!?%。、，．！？：；」』】）]")
"""Signs that begin no line."""
_JOINER = "\u200d"
_BLANK = regex.compile(r"[\p{Z}\p{C}\uFE00-\uFE0F]+")


class Fonts(NamedTuple):
    """Paths of the fonts, None where there is none."""

    text: str | None = None
    bold: str | None = None
    cjk: str | None = None
    emoji: str | None = None


class Drawn(NamedTuple):
    """A picture. `boxes`: signs that no font had."""

    png: bytes
    boxes: int


class Table(NamedTuple):
    """A table's cells, the head first, and how its columns are aligned (`<`, `^`, `>`)."""

    rows: list[list[str]]
    aligns: list[str]


def parse(source: str) -> Table | None:
    r"""Reads a Markdown table; None for what is none.

    >>> parse("a|b\n-|-:\n1|2")
    Table(rows=[['a', 'b'], ['1', '2']], aligns=['<', '>'])
    """
    lines = [_cells(line) for line in source.splitlines() if line.strip()]
    if len(lines) < 2 or not all(_SEPARATOR.fullmatch(cell) for cell in lines[1]):
        return None
    width = len(lines[0])
    aligns = [_align(cell) for cell in lines[1]]
    rows = [[_plain(cell) for cell in cells] for cells in (lines[0], *lines[2:])]
    padded = [(row + [""] * width)[:width] for row in rows]
    return Table(rows=padded, aligns=(aligns + ["<"] * width)[:width])


def draw(source: str, fonts: Fonts) -> Drawn | None:
    """Draws a table; None for what is no table, or one that no picture could show in time."""
    if source.count(_JOINER) > MAX_JOINERS or len(set(source)) > MAX_SIGNS:
        return None
    table = parse(source)
    if table is None:
        return None
    pens = Pens(fonts)
    cells = [
        [pens.wrap(cell, bold=number == 0) for cell in row] for number, row in enumerate(table.rows)
    ]
    widths = [
        max(MIN_CELL_PX, *(pens.width(line) for row in cells for line in row[at])) + 2 * PAD_X
        for at in range(len(table.aligns))
    ]
    heights = [max(len(lines) for lines in row) * LINE_PX + 2 * PAD_Y for row in cells]
    width, height = sum(widths) + len(widths) + 1, sum(heights) + len(heights) + 1
    if width > MAX_WIDTH_PX or height > MAX_HEIGHT_PX:
        return None
    image = Image.new("RGB", (width, height), LINE)
    brush = ImageDraw.Draw(image)
    y = 1
    for number, (row, row_height) in enumerate(zip(cells, heights, strict=True)):
        fill = HEAD if number == 0 else (PAPER, STRIPE)[number % 2]
        x = 1
        for lines, cell_width, align in zip(row, widths, table.aligns, strict=True):
            brush.rectangle((x, y, x + cell_width - 1, y + row_height - 1), fill=fill)
            for at, line in enumerate(lines):
                room = cell_width - 2 * PAD_X - pens.width(line)
                shift = {"<": 0, "^": room // 2, ">": room}[align]
                ink = BOLD_INK if number == 0 else INK
                pens.write(image, (x + PAD_X + shift, y + PAD_Y + at * LINE_PX), line, ink)
            x += cell_width + 1
        y += row_height + 1
    out = io.BytesIO()
    if not pens.has_color:  # greys alone: a third of the bytes
        image = image.quantize(64, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    image.save(out, "PNG")
    return Drawn(png=out.getvalue(), boxes=pens.boxes)


class Run(NamedTuple):
    """Signs of one font."""

    pen: str
    text: str


Line = tuple[Run, ...]
Ink = tuple[int, int, int]


class Pens:
    """The fonts, and what is drawn with which.

    Args:
        fonts: their paths.
    """

    def __init__(self, fonts: Fonts) -> None:
        self.boxes = 0
        self.has_color = False
        self._fonts: dict[str, ImageFont.FreeTypeFont | ImageFont.ImageFont] = {}
        for name, path in fonts._asdict().items():
            if path is not None:
                size = EMOJI_PX if name == "emoji" else TEXT_PX
                self._fonts[name] = ImageFont.truetype(path, size)
        if "text" not in self._fonts:
            self._fonts["text"] = ImageFont.load_default(TEXT_PX)
        self._missing = {name: _picture(font, "\U0010ffff") for name, font in self._fonts.items()}
        self._has = cache(self._has_sign)
        self._size = cache(self._sign_size)

    def wrap(self, text: str, *, bold: bool) -> list[Line]:
        """A cell's lines, each of runs, none wider than a cell may be."""
        lines: list[Line] = []
        for paragraph in text.split("\n"):
            lines += self._wrap(regex.findall(r"\X", paragraph), bold)
        return lines or [()]

    def width(self, line: Line) -> int:
        """How wide a line is."""
        return sum(self._length(run) for run in line)

    def write(self, image: Image.Image, place: tuple[int, int], line: Line, ink: Ink) -> None:
        """Draws a line; `place` is its upper left corner."""
        brush = ImageDraw.Draw(image)
        x, y = place
        for run in line:
            if run.pen == "emoji":
                self._paste(image, (x, y), run)
            else:
                font = self._fonts[run.pen]
                brush.text((x, y + LINE_PX - 10), run.text, fill=ink, font=font, anchor="ls")
            x += self._length(run)

    def _wrap(self, signs: list[str], bold: bool) -> list[Line]:
        lines: list[list[str]] = [[]]
        width, blank = 0, -1
        for sign in signs:
            line = lines[-1]
            size = self._size(sign, bold)
            if width + size > MAX_CELL_PX and line and not _CLOSING.fullmatch(sign):
                keep = blank + 1 if blank > 0 else len(line)
                lines.append(line[keep:])
                del line[keep:]
                width, blank = sum(self._size(old, bold) for old in lines[-1]), -1
            lines[-1].append(sign)
            width += size
            if sign.isspace():
                blank = len(lines[-1]) - 1
        return [self._runs("".join(line).strip(), bold) for line in lines]

    def _runs(self, text: str, bold: bool) -> Line:
        pens = ((self._pen(sign, bold), sign) for sign in regex.findall(r"\X", text))
        runs = (
            Run(pen, "".join(sign for _, sign in group))
            for pen, group in groupby(pens, key=lambda pair: pair[0])
        )
        return tuple(runs)

    def _pen(self, sign: str, bold: bool) -> str:
        plain = "bold" if bold and "bold" in self._fonts else "text"
        if _BLANK.fullmatch(sign):
            return plain
        if "emoji" in self._fonts and _EMOJI.match(sign):
            self.has_color = True
            return "emoji"
        for name in (plain, "cjk"):
            if name in self._fonts and self._has(name, sign[0]):
                return name
        if "emoji" in self._fonts and self._has("emoji", sign[0]):
            self.has_color = True
            return "emoji"
        self.boxes += 1
        return plain

    def _has_sign(self, name: str, sign: str) -> bool:
        return _picture(self._fonts[name], sign) != self._missing[name]

    def _sign_size(self, sign: str, bold: bool) -> int:
        boxes = self.boxes
        run = Run(self._pen(sign, bold), sign)
        self.boxes = boxes  # counted when the line is made
        return self._length(run)

    def _length(self, run: Run) -> int:
        length = self._fonts[run.pen].getlength(run.text)
        return round(length * TEXT_PX / EMOJI_PX * 0.9) if run.pen == "emoji" else round(length)

    def _paste(self, image: Image.Image, place: tuple[int, int], run: Run) -> None:
        font = self._fonts["emoji"]
        length = max(1, round(font.getlength(run.text)))
        tile = Image.new("RGBA", (length, EMOJI_PX + 30), (0, 0, 0, 0))
        ImageDraw.Draw(tile).text((0, 4), run.text, font=font, embedded_color=True)
        width = max(1, self._length(run))
        scaled = tile.resize((width, max(1, round(tile.height * width / length))))
        image.paste(scaled, (place[0], place[1] + 3), scaled)


def _picture(font: ImageFont.FreeTypeFont | ImageFont.ImageFont, sign: str) -> bytes:
    mask = font.getmask(sign)
    return bytes(mask) + repr(mask.size).encode()


def _cells(line: str) -> list[str]:
    """The cells of a row; bars in code and escaped ones part nothing."""
    hidden = _CODE.sub(lambda code: code[0].replace("|", "\x00"), line.strip())
    text = hidden.removeprefix("|")
    if text.endswith("|") and not text.endswith("\\|"):
        text = text[:-1]
    parts = _ROW_BAR.sub("\\1\x01", text).split("\x01")
    return [part.strip().replace("\x00", "|") for part in parts]


def _align(cell: str) -> str:
    cell = cell.strip()
    if cell.endswith(":"):
        return "^" if cell.startswith(":") else ">"
    return "<"


def _plain(cell: str) -> str:
    """A cell's text without its marks; what is code stays as it is."""
    parts: list[str] = []
    at = 0
    for code in _CODE.finditer(cell):
        parts += (_unmarked(cell[at : code.start()]), code[2].strip())
        at = code.end()
    parts.append(_unmarked(cell[at:]))
    return "".join(parts)


def _unmarked(text: str) -> str:
    for pattern, form in _MARKUP:
        text = pattern.sub(form, text)
    return text
