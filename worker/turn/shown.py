"""What was shown of each text block of an answer, for the history of the next request.

Comes in: where the blocks began in the visible text, that text, and the answer. Goes out: a text
for each block. Pure; the pipeline imports it.
"""

import itertools
from collections.abc import Iterable, Sequence

from shared.messages import ContentBlock, TextBlock
from worker.chunks.processor import PARAGRAPH


class Seams:
    """Where the text blocks of one answer begin in what is shown of it.

    A piece of text counts to the block that was growing when it came. What a guard still held of
    the block before comes with it, so that a seam may be that much too early.
    """

    __slots__ = ("_seams", "_size", "index")

    def __init__(self) -> None:
        self.index = -1
        """The block that grows; -1 before the first."""
        self._size = 0
        self._seams: list[tuple[int, int]] = []

    def begin(self, index: int) -> None:
        """What comes now is of another block."""
        self.index = index
        self._seams.append((index, self._size))

    def grow(self, size: int) -> None:
        """So many characters were shown."""
        self._size += size

    def texts(self, said: str, content: Sequence[ContentBlock]) -> dict[int, str]:
        """What `said`, all that was shown, holds of each text block of `content`, by its place.

        The chunk room's paragraphs between blocks are of none. Where they are all the difference,
        each block has its own text, wherever the seams are.
        """
        own = {at: block.text for at, block in enumerate(content) if isinstance(block, TextBlock)}
        if _parted_alone(said, own.values()):
            return own
        texts = dict.fromkeys(own, "")
        for (at, start), (_, end) in itertools.pairwise([*self._seams, (-1, len(said))]):
            piece = said[start:end]
            # No paragraph is put before a text that begins with white space of its own.
            texts[at] += piece if own[at][:1].isspace() else piece.removeprefix(PARAGRAPH)
        return texts


def _parted_alone(said: str, texts: Iterable[str]) -> bool:
    """Whether `said` is the texts, in order, with at most a paragraph before each."""
    at = 0
    for text in texts:
        if not said.startswith(text, at):
            if not said.startswith(PARAGRAPH, at):
                return False
            at += len(PARAGRAPH)
            if not said.startswith(text, at):
                return False
        at += len(text)
    return at == len(said)
