"""Text of an attacker before whoever reads it: nothing of it is obeyed, and nothing hides."""

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.harmless import json_line, json_text, plain

JOINERS = {"\u200c", "\u200d"}
"""Format characters that stay: emoji, Persian and the scripts of India are written with them."""


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        pytest.param("\x1b[2J\x1b]0;title\x07", "�[2J�]0;title�", id="escape_sequences"),
        pytest.param(
            "\x1b]8;;http://evil.example\x1b\\safe\x1b]8;;\x1b\\",
            "�]8;;http://evil.example�\\safe�]8;;�\\",
            id="a_link_that_says_otherwise",
        ),
        pytest.param("\x9d8;;http://evil.example\x9c", "�8;;http://evil.example�", id="c1_link"),
        pytest.param("\x1b]52;c;cm0gLXJm\x07", "�]52;c;cm0gLXJm�", id="the_clipboard"),
        pytest.param("\x1bP+q544e\x1b\\", "�P+q544e�\\", id="a_question_to_the_terminal"),
        pytest.param("\x9b31mred", "�31mred", id="c1_escape"),
        pytest.param("a\rb\x08c\0", "a�b�c�", id="overwriting"),
        pytest.param("user\u202egnp.exe", "user�gnp.exe", id="bidi_override"),
        pytest.param("a\u2066b\u2069", "a�b�", id="bidi_isolate"),
        pytest.param("a\u061cb\u200fc", "a�b�c", id="bidi_marks"),
        pytest.param("pay\u200bpal", "pay�pal", id="zero_width"),
        pytest.param("pay\u00adpal\u034f", "pay�pal�", id="soft_hyphen_and_joiner"),
        pytest.param("a\u3164b\u115fc\uffa0", "a�b�c�", id="blank_letters"),
        pytest.param("a\u2063b\u206ac", "a�b�c", id="invisible_operators"),
        pytest.param("x\U000e0041\U000e007f", "x��", id="tag_characters"),
        pytest.param("x\U000e0100\U000e01ef", "x��", id="text_within_selectors"),
        pytest.param("a\u2028b\u2029\x85", "a�b��", id="line_breaks_to_some"),
        pytest.param("a\ud83db", "a�b", id="half_of_a_pair"),
        pytest.param("line\nnext\ttab", "line\nnext\ttab", id="lines_and_tabs_are_kept"),
        pytest.param("👩‍👩‍👧 ❤️ é 日本", "👩‍👩‍👧 ❤️ é 日本", id="other_text_is_kept"),
        pytest.param("می\u200cخواهم", "می\u200cخواهم", id="joiners_of_scripts_are_kept"),
    ],
)
def test_nothing_is_obeyed_and_nothing_hides(hostile: str, shown: str):
    assert plain(hostile) == shown


@given(st.text(st.characters(categories=["Cc", "Cf", "Cs", "Zl", "Zp"]), min_size=1, max_size=50))
def test_every_control_and_format_character_is_replaced(text: str):
    kept = JOINERS | {"\n", "\t"}
    for sign in plain(text):
        is_unsafe = unicodedata.category(sign) in {"Cc", "Cf", "Cs", "Zl", "Zp"}
        assert not is_unsafe or sign in kept or sign in _PREPENDED


_PREPENDED = {chr(code) for code in (*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2)} | {
    chr(code) for code in (0x110BD, 0x110CD, *range(0x13430, 0x13440))
}
"""Signs that are drawn, though Unicode files them under format: numbers in Arabic, hieroglyphs."""


def test_invisible_characters_of_other_planes_are_escaped_as_pairs():
    assert json_text('"\U000e0041"') == '"\\udb40\\udc41"'
    assert json.loads(json_text('"\U000e0041"')) == "\U000e0041"


@given(st.text())
def test_escaped_json_is_the_same_json(text: str):
    encoded = json.dumps({"k": text}, ensure_ascii=False)
    safe = json_text(encoded)
    assert json.loads(safe) == {"k": text}
    assert plain(safe) == safe
    assert json_line(encoded.encode()) == safe.encode()


def test_a_line_of_ascii_is_left_alone_but_for_the_delete():
    line = b'{"a":"b"}'
    assert json_line(line) is line
    assert json_line(b'"\x7f"') == b'"\\u007f"'
