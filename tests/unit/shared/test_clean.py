"""`storable` leaves nothing that a store refuses, and nothing else is touched."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.clean import storable


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("plain", "plain", id="ascii_is_kept"),
        pytest.param("a\0b", "a�b", id="nul"),
        pytest.param("ä\0b", "ä�b", id="nul_among_others"),
        pytest.param("a\ud800b", "a�b", id="lone_high_half"),
        pytest.param("a\udc00b", "a�b", id="lone_low_half"),
        pytest.param("\ud83d\ude00", "😀", id="halves_of_a_pair_are_joined"),
        pytest.param("日本 😀\u2028", "日本 😀\u2028", id="other_planes_are_kept"),
    ],
)
def test_storable(text: str, expected: str):
    assert storable(text) == expected


@given(st.text(st.characters(codec=None)))
def test_every_text_becomes_one_that_encodes(text: str):
    clean = storable(text)
    clean.encode()
    assert "\0" not in clean
    assert storable(clean) == clean
