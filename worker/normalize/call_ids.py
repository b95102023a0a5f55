"""Tool-call ids that a target accepts, unique over a whole history.

Comes in: the ids of a history, in order, and the target's rule. Goes out: legal ids. Deterministic
and free of look-ahead: a history that grows keeps the ids it had, so that prompt caches and
replays hit. Pure; `history` imports it.
"""

import hashlib
import re
from collections.abc import Callable

import msgspec

HASH_CHARS = 8
"""32 bits: a history holds some hundred calls, and a collision is only tried again."""


class IdRule(msgspec.Struct, frozen=True, kw_only=True):
    """What a target takes as an id; `max_chars` is None where it does not matter."""

    alphabet: str
    max_chars: int | None
    is_exact: bool = False
    """Whether the length is exactly `max_chars`."""


ANTHROPIC_IDS = IdRule(alphabet="A-Za-z0-9_-", max_chars=64)
CHAT_IDS = IdRule(alphabet="A-Za-z0-9_-", max_chars=40)
"""400 at more than 40 characters: autogen #6377, dify #28987, litellm #17343."""
RESPONSES_IDS = IdRule(alphabet="A-Za-z0-9_-", max_chars=64)
"""`call_id` of a function call: fastllm #45, ungate #26."""
MISTRAL_IDS = IdRule(alphabet="A-Za-z0-9", max_chars=9, is_exact=True)
"""Mistral's own check: a-z, A-Z, 0-9, length 9 (opencode #1680)."""
FREE_IDS = IdRule(alphabet=r"\s\S", max_chars=None)
"""Google pairs by name and id and asks nothing of its form."""


class IdMap:
    """Gives each call of a history its id. Call `legal` once per call, in order."""

    def __init__(self, rule: IdRule) -> None:
        self._used: set[str] = set()
        self._tries: dict[str, int] = {}
        self._is_legal = _check_of(rule)
        self._illegal = re.compile(f"[^{rule.alphabet}]")
        self._rule = rule

    def legal(self, original: str) -> str:
        """The id itself where it is legal and unused, else one derived from it."""
        # OpenAI's responses pair two ids, `call_1|fc_2`; only the call's own counts elsewhere.
        base = original.partition("|")[0]
        for candidate in (original, base):
            if self._is_legal(candidate) and candidate not in self._used:
                self._used.add(candidate)
                return candidate
        return self._derived(original, base)

    def _derived(self, original: str, base: str) -> str:
        while True:
            tries = self._tries.get(original, 0)
            self._tries[original] = tries + 1
            digest = hashlib.sha256(f"{original}\0{tries}".encode()).hexdigest()
            candidate = self._shaped(base, digest)
            if candidate not in self._used:
                self._used.add(candidate)
                return candidate

    def _shaped(self, base: str, digest: str) -> str:
        limit = self._rule.max_chars
        if self._rule.is_exact:
            return digest[:limit]
        readable = self._illegal.sub("_", base) or "call"
        if limit is not None:
            readable = readable[: limit - HASH_CHARS - 1]
        return f"{readable}_{digest[:HASH_CHARS]}"


def _check_of(rule: IdRule) -> Callable[[str], bool]:
    least = rule.max_chars if rule.is_exact else 1
    most = "" if rule.max_chars is None else rule.max_chars
    pattern = re.compile(f"[{rule.alphabet}]{{{least},{most}}}")
    return lambda text: pattern.fullmatch(text) is not None
