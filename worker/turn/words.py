"""What turnfleet itself puts into a reply, beside what the model says.

Comes in: the catalogs' texts. Goes out: `Words`. Pure; the pipeline and the runner import it.
"""

from collections.abc import Callable

import msgspec


class Words(msgspec.Struct, frozen=True, kw_only=True):
    """The words of one reply, in the language of its person.

    Args:
        sources: stands before the links of a reply that cites pages.
        picture: stands where a picture cannot be shown.
    """

    sources: str = "Sources:"
    picture: str = "(A picture that cannot be shown here.)"


PLAIN_WORDS = Words()


def words_of(say: Callable[[str, str], str], locale: str) -> Words:
    """The words of a locale; `say` gives a text by its key."""
    return Words(sources=say("reply.sources", locale), picture=say("reply.picture", locale))
