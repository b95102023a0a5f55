"""Cutting, counting and caching of tokens, signatures, and the log's bounds."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ops.rehearsal import log
from ops.rehearsal.log import RehearsalLog
from ops.rehearsal.signatures import is_signed_by, sign
from ops.rehearsal.tokens import PromptCache, count_tokens, pieces
from ops.rehearsal.values import Ask

BLOCK = "x" * 4 * 600


@given(st.text())
def test_pieces_joined_are_the_text(text: str):
    assert "".join(pieces(text)) == text


def test_counting_rounds_up():
    assert [count_tokens(text) for text in ("", "a", "abcd", "abcde")] == [0, 1, 1, 2]


def asked(*blocks: str, breakpoints: tuple[int, ...] | None = None, model: str = "m") -> Ask:
    return Ask(model=model, prompt="", blocks=blocks, breakpoints=breakpoints)


class TestPromptCache:
    def test_a_vendor_that_caches_by_itself_reads_the_longest_prefix(self):
        cache = PromptCache()
        assert cache.admit("k", asked(BLOCK, BLOCK)) == (0, 0)
        assert cache.admit("k", asked(BLOCK, BLOCK, "new")) == (1200, 0)

    def test_short_prompts_are_not_cached(self):
        cache = PromptCache()
        cache.admit("k", asked(BLOCK))
        assert cache.admit("k", asked(BLOCK)) == (0, 0)

    def test_keys_and_models_do_not_share(self):
        cache = PromptCache()
        cache.admit("k", asked(BLOCK, BLOCK))
        assert cache.admit("other", asked(BLOCK, BLOCK)) == (0, 0)
        assert cache.admit("k", asked(BLOCK, BLOCK, model="n")) == (0, 0)

    def test_a_breakpoint_writes_and_the_next_request_reads(self):
        cache = PromptCache()
        assert cache.admit("k", asked(BLOCK, BLOCK, "a", breakpoints=(2,))) == (0, 1200)
        assert cache.admit("k", asked(BLOCK, BLOCK, "b", breakpoints=(3,))) == (1200, 1)
        assert cache.admit("k", asked(BLOCK, BLOCK, "a", breakpoints=())) == (1200, 0)

    def test_a_change_at_the_front_reads_nothing(self):
        cache = PromptCache()
        cache.admit("k", asked(BLOCK, BLOCK))
        assert cache.admit("k", asked("y" + BLOCK, BLOCK)) == (0, 0)

    def test_the_oldest_are_forgotten(self):
        cache = PromptCache(max_prefixes=1)
        cache.admit("k", asked(BLOCK, BLOCK))
        cache.admit("k", asked("y", BLOCK, BLOCK))
        assert cache.admit("k", asked(BLOCK, BLOCK)) == (0, 0)


class TestSignatures:
    def test_only_the_model_that_signed_takes_it_back(self):
        signature = sign("anthropic", "m", "hm")
        assert is_signed_by(signature, "anthropic", "m")
        assert is_signed_by(signature, "anthropic", "m", "hm")
        assert not is_signed_by(signature, "anthropic", "m", "h")
        assert not is_signed_by(signature, "anthropic", "n")
        assert not is_signed_by(signature, "google", "m")

    @pytest.mark.parametrize("signature", ["", "?", "U0lH"])
    def test_what_is_none_is_none(self, signature: str):
        assert not is_signed_by(signature, "anthropic", "m")


class TestLog:
    def test_the_oldest_entries_are_forgotten(self):
        kept = RehearsalLog()
        for _ in range(log.MAX_ENTRIES + 1):
            kept.open("/v1/messages", 1.0, 2.0)
        entries = msgspec.json.decode(kept.as_json())
        assert len(entries) == log.MAX_ENTRIES
        assert entries[0]["number"] == 2

    def test_the_heaviest_log_forgets_whole_entries(self):
        kept = RehearsalLog(max_weight_bytes=3 * log.WRITE_BYTES)
        for _ in range(3):
            kept.open("/v1/messages", 1.0, 2.0).writes.extend([log.Write(1.0, 2.0, 1, 1)] * 2)
        entries = msgspec.json.decode(kept.as_json())
        assert [entry["number"] for entry in entries] == [2, 3]

    def test_numbers_go_on_after_it_was_emptied(self):
        kept = RehearsalLog()
        kept.open("/v1/messages", 1.0, 2.0)
        kept.clear()
        assert kept.open("/v1/messages", 1.0, 2.0).number == 2
        assert kept.last().number == 2
