"""Reports of broken replies from other bots that concern splitting, one test each.

The number is that of the report in the list that was collected from public trackers; reports about
embeds, sending and retries have their tests in delivery.
"""

import pytest

from shared.segments import MAX_SEGMENT_CHARS, DeliveryMode
from tests.support import discord_markdown
from tests.support.segmenting import Run, limits_for, texts

L, P = DeliveryMode.LINE, DeliveryMode.PARAGRAPH
LINES = "".join(f"value_{at} = compute({at})\n" for at in range(300))


def fenced(info: str = "py", body: str = LINES) -> str:
    return f"Look:\n```{info}\n{body}```\nDone."


def test_1_and_9_every_part_of_a_long_fence_is_fenced():
    run = Run([fenced()], P)
    assert run.kinds == ["text", "code", "code", "file", "text"]
    for segment in run.segments[1:-1]:
        for text in segment.fallback or (segment.text,):
            assert all("code block py" in styles for _, styles in discord_markdown.shown(text))


def test_2_a_long_info_string_is_dropped_not_sent():
    info = "python-with-a-very-long-name"
    run = Run([fenced(info)], P)
    assert all(len(message.text) <= MAX_SEGMENT_CHARS for message in run.messages)
    assert info in run.texts[1]  # it is the first line of the code, as Discord would show it


@pytest.mark.parametrize("size", range(1880, 2010, 7))
def test_3_the_closer_is_in_the_budget(size: int):
    run = Run(["```\n" + "x" * size + "\n```"], P)
    assert all(len(message.text) <= MAX_SEGMENT_CHARS for message in run.messages)
    assert sum(text.count("x") for text in run.texts) == size


def test_4_lines_of_code_are_not_cut():
    for text in Run([fenced()], P).texts[1:3]:
        assert text.split("\n")[-2].endswith(")")


def test_5_and_13_a_table_moves_as_a_whole():
    table = "| a | b |\n|---|---|\n" + "| cell one | cell two |\n" * 80
    run = Run(["Words. " * 150 + "\n" + table + "> quoted\n"], L)
    assert run.kinds[-2:] == ["table", "text"]
    assert run.segments[-2].text == table.strip()
    assert run.texts[-1] == "> quoted"


def test_6_a_fence_with_text_behind_it_closes():
    assert texts("```\nx\n``` and more") == ["```\nx\n```", "and more"]


def test_7_the_language_is_kept():
    assert all(text.startswith("```c++\n") for text in Run([fenced("c++")], P).texts[1:-1])


def test_8_bold_and_italic_keep_their_style_over_a_cut():
    found = texts("**" + "bold *both words here* bold " * 60 + "**")
    assert len(found) > 1
    for text in found:
        assert all("strong" in styles for _, styles in discord_markdown.shown(text))
        assert "*" not in [char for char, _ in discord_markdown.shown(text)]


def test_10_no_character_is_torn():
    flag, family = "🇯🇵", "👨‍👩‍👧‍👦"
    for text in texts((flag + family) * 300):
        assert text.replace(flag, "").replace(family, "") == ""


def test_11_a_limit_below_a_character_still_ends():
    run = Run(["👨‍👩‍👧‍👦" * 3], P, limits=limits_for(1))
    assert "".join(run.texts).count("👨") == 3


def test_12_the_limit_is_2000_code_points():
    run = Run(["日本語のテキスト" * 900], P)
    assert all(len(text) <= MAX_SEGMENT_CHARS for text in run.texts)
    assert len(run.texts) < 9  # bytes or twice the limit would give other numbers


def test_14_and_15_a_sentence_longer_than_a_message_is_cut():
    found = texts("word " * 1000 + "end.")
    assert " ".join(found).split() == ["word"] * 1000 + ["end."]
    assert all(len(text) <= MAX_SEGMENT_CHARS for text in found)


def test_16_and_17_lines_are_no_messages_by_default():
    text = "Steps:\n" + "\n".join(f"{at}. do it" for at in range(1, 30)) + "\n\nDone."
    assert len(texts(text)) == 2


def test_18_full_width_sentences_flush():
    assert texts("これは文。次の文。", DeliveryMode.SENTENCE) == ["これは文。", "次の文。"]
    assert texts("これは長い文です。" * 200)[0].endswith("。")


def test_19_a_heading_stays_with_its_text():
    assert texts("## Plan\n\nFirst this.\n\nThen that.")[0] == "## Plan\n\nFirst this."


def test_20_nothing_is_clipped():
    text = " ".join(f"w{at}" for at in range(3000))
    assert " ".join(texts(text)) == text


def test_21_a_table_at_the_start_does_not_loop():
    table = "| a | b |\n|---|---|\n" + "| " + "x" * 1500 + " | y |\n"
    assert Run([table * 1 + "| z | z |\n" * 2000], L).kinds[0] == "table"


def test_22_and_23_tables_have_an_aligned_fallback_and_code_stays_code():
    table = "| Name | 値 |\n|---|---|\n| 日本 | 1 |\n"
    (segment,) = Run([table], P).segments
    assert segment.fallback == ("```\nName | 値\n-----+---\n日本 | 1\n```",)
    assert Run([f"```\n{table}```"], P).kinds == ["code"]


def test_24_bars_in_code_do_not_end_a_spoiler():
    run = Run(["||secret\n```py\na || b\n```\nmore|| open"], P)
    for text in run.texts[:-1]:
        assert all("spoiler" in styles for _, styles in discord_markdown.shown(text))
    assert discord_markdown.shown(run.texts[-1])[-1] == ("n", frozenset())


def test_25_ticks_in_code_do_not_end_it():
    (text,) = Run(["````md\n```py\nx\n```\n````"], P).texts
    assert {styles for _, styles in discord_markdown.shown(text)} == {frozenset({"code block md"})}


def test_26_stars_in_code_stay():
    assert texts("```\na * b * c\n**/*.py\n```") == ["```\na * b * c\n**/*.py\n```"]


def test_28_very_long_code_is_one_file():
    kinds = Run([fenced()], P).kinds
    assert kinds.count("file") == 1


def test_31_nothing_invisible_is_sent():
    for text in ("", " \n\n ", "\u200b\u2060", "```\n\n```", "<think>x</think>", "\u3164\n"):
        assert texts(text) == []


@pytest.mark.parametrize("text", ["? ", "!", "👍", ")"])
def test_31_one_visible_symbol_is_sent(text: str):
    assert texts(text) == [text.strip()]
