"""The segment room for operators: records and messages."""

from ops.replay.segment import DeliveryMode, segmented

TEXT = "One 👍.\n<think>x</think>\n| a | b |\n|--|--|\n| 1 | 2 |\n\n```py\nx = 1\n```\n"


def test_records_tell_what_would_be_delivered():
    records = list(segmented(TEXT, DeliveryMode.LINE).records())
    assert [record["kind"] for record in records] == ["text", "table", "code"]
    assert (records[0]["chars"], records[0]["utf16"], records[0]["text"]) == (6, 7, "One 👍.")


def test_messages_are_the_fallback_where_there_is_one():
    result = segmented(TEXT, DeliveryMode.LINE)
    assert list(result.messages())[1:] == [
        "```\na | b\n--+--\n1 | 2\n```",
        "```py\nx = 1\n```",
    ]
    assert result.thoughts == ("x",)


def test_any_cut_gives_the_same():
    assert segmented(TEXT, DeliveryMode.PARAGRAPH, cut=1) == segmented(TEXT, DeliveryMode.PARAGRAPH)


def test_an_empty_text_has_no_segment():
    assert segmented("", DeliveryMode.LINE).segments == ()
