"""Tokens of a rehearsal: how text is cut for streaming, counted and cached.

Comes in: text, or the blocks of an `Ask`. Goes out: pieces of about a token's size, and counts.
The cutting is deterministic and loses nothing: the pieces joined are the text.
"""

import hashlib
import re
from collections import OrderedDict

from ops.rehearsal.values import Ask

_PIECE = re.compile(r"\s*[^\W_]{1,6}|\s*[\W_]|\s+")

CHARS_PER_TOKEN = 4
"""The vendors' own rule of thumb for English."""

MIN_CACHED_TOKENS = 1024
"""Shortest prefix that OpenAI and Anthropic cache (their prompt caching guides)."""

MAX_PREFIXES = 10_000
"""Prefixes remembered per server; the oldest go first, as a vendor's cache forgets by time."""


def pieces(text: str) -> list[str]:
    """Cuts text as a model streams it."""
    return _PIECE.findall(text)


def count_tokens(text: str) -> int:
    """How many tokens a text counts."""
    return -(-len(text) // CHARS_PER_TOKEN)


class PromptCache:
    """Prefixes that were sent before, per key and model: block by block, as vendors match them."""

    def __init__(self, max_prefixes: int = MAX_PREFIXES) -> None:
        self._max_prefixes = max_prefixes
        self._seen: OrderedDict[bytes, None] = OrderedDict()

    def admit(self, owner: str, ask: Ask) -> tuple[int, int]:
        """Counts the cached tokens of a request, then remembers its prefixes.

        Returns:
            Tokens read from the cache and tokens written to it. Vendors that cache by themselves
            report no writes, so the second is 0 there.
        """
        marks = range(1, len(ask.blocks) + 1) if ask.breakpoints is None else ask.breakpoints
        digest = hashlib.sha256(f"{owner}\0{ask.model}".encode())
        read, longest, tokens = 0, 0, 0
        for position, block in enumerate(ask.blocks, start=1):
            digest.update(block.encode("utf-8", "surrogatepass") + b"\0")
            tokens += count_tokens(block)
            if tokens < MIN_CACHED_TOKENS:
                continue
            prefix = digest.digest()
            if prefix in self._seen:
                read = tokens
            if position in marks:
                longest = tokens
                self._remember(prefix)
        written = 0 if ask.breakpoints is None else max(0, longest - read)
        return read, written

    def _remember(self, prefix: bytes) -> None:
        self._seen[prefix] = None
        self._seen.move_to_end(prefix)
        if len(self._seen) > self._max_prefixes:
            self._seen.popitem(last=False)
