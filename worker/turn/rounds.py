"""The completed rounds of a turn: what must not be asked, and no tool run, once more.

Comes in: rounds as they are completed. Goes out: one value that Redis keeps while the turn runs,
and the rounds again, for a worker that takes the turn over. Pure; `worker.turn` imports it.
"""

from collections.abc import Sequence

import msgspec

from shared.errors import WireError
from shared.messages import Message
from shared.wire import UNREADABLE
from worker.turn.pictures import Picture, pictures_of
from worker.turn.sources import Source

MAX_KEPT_BYTES = 1024 * 1024
"""Of one turn: 32 results of 16,000 characters and the reasoning between them. What is longer is
not kept, and a worker's death then ends the turn with a notice."""


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """A completed round.

    Args:
        said: its visible text, as it stands in the history.
        trims: tools were called after it; a half sentence at its end was not shown.
        messages: the answer, and the tools' results.
        sources: the pages that it cites; some vendors name them beside the answer.
    """

    said: str
    trims: bool
    messages: list[Message]
    sources: list[Source] = []

    @property
    def pictures(self) -> list[Picture]:
        """Those that the answer showed."""
        blocks = [one.content for one in self.messages[:1] if isinstance(one.content, list)]
        return pictures_of([block for content in blocks for block in content])


_encode = msgspec.json.Encoder().encode
_decoder = msgspec.json.Decoder(list[Round])


def dump(rounds: Sequence[Round]) -> bytes | None:
    """The rounds as they are kept; None where they are too long for it."""
    kept = _encode(list(rounds))
    return kept if len(kept) <= MAX_KEPT_BYTES else None


def load(kept: bytes) -> list[Round]:
    """The rounds again.

    Raises:
        WireError: nobody here can read them; to begin anew would run tools twice.
    """
    try:
        return _decoder.decode(kept)
    except UNREADABLE as exc:
        raise WireError(f"not the rounds of a turn: {exc}") from exc
