"""Edge cases of a reply's text, one row each: what comes in, what the reader gets.

They are the known ways in which a reply was lost, doubled, reordered or mangled elsewhere.
"""

import pytest

from shared.segments import DeliveryMode
from tests.support.segmenting import Run, cuttings

L, P, S, A = (
    DeliveryMode.LINE,
    DeliveryMode.PARAGRAPH,
    DeliveryMode.SENTENCE,
    DeliveryMode.AGGREGATED,
)

CASES = {
    "repeated words stay": (L, "ha ha ha ha ha ha ha ha done", ["ha ha ha ha ha ha ha ha done"]),
    "an inch mark is no quote": (L, '27" screen\nGood\nx', ['27" screen', "Good", "x"]),
    "a parenthesis over lines": (L, "(a\nb\nc)\nd\nz", ["(a\nb\nc)", "d", "z"]),
    "a smile closes nothing": (L, "Hi :)\nB)\nNext\n", ["Hi :)", "B)", "Next"]),
    "a sad face opens nothing": (L, "Oh :(\nNext\n", ["Oh :(", "Next"]),
    "nested parentheses": (L, "(a (b\nc) d\ne)\nf", ["(a (b\nc) d\ne)", "f"]),
    "paired quotes over lines": (L, "「a\n『b』\nc」\nd", ["「a\n『b』\nc」", "d"]),
    "a closing quote alone": (L, "a」\nb", ["a」", "b"]),
    "bold over two lines": (L, "**one\ntwo** ok\nz", ["**one\ntwo** ok", "z"]),
    "bold that ends behind a blank": (L, "**a\nb ** c\nd", ["**a\nb ** c", "d"]),
    "italic does not": (L, "*a b * c\nd", ["*a b * c", "d"]),
    "a spoiler over two lines": (L, "||s1\ns2|| ok\nz", ["||s1\ns2|| ok", "z"]),
    "times signs": (L, "2 * 3\n4 * 5\nz", ["2 * 3", "4 * 5", "z"]),
    "underscores hold nothing": (L, "__init__ _a\nb", ["__init__ _a", "b"]),
    "a link's text on one line": (L, "[a\nb\n", ["[a", "b"]),
    "an ellipsis joins what follows": (L, "Hi\n...\nBye\nz", ["Hi", "...\nBye", "z"]),
    "one symbol is a reply": (L, "?", ["?"]),
    "an unclosed fence is one block": (L, "```py\na=1\nb=2", ["```py\na=1\nb=2\n```"]),
    "a fence of four ticks": (
        L,
        "````md\n```py\nx\n```\n````\nafter",
        ["```md\n`\u200b`\u200b`py\nx\n`\u200b`\u200b`\n```", "after"],
    ),
    "a tilde fence in ticks": (
        L,
        "~~~\n```\nx\n~~\n~~~\nz",
        ["```\n`\u200b`\u200b`\nx\n~~\n```", "z"],
    ),
    "tildes in a line": (L, "a ~~~ b\nc ~~~\n", ["a ~~~ b", "c ~~~"]),
    "three ticks in a line": (L, "text ``` more\nline two", ["text ``` more", "line two"]),
    "nine ticks are text": (L, "a ````````` b\nc", ["a ````````` b", "c"]),
    "a fence in a line": (L, "x ```py\na\n``` y\nz", ["x", "```py\na\n```", "y", "z"]),
    "code on the line of the fence": (L, "```a = 1; b\nc\n```\nz", ["```\na = 1; b\nc\n```", "z"]),
    "a fence in a quote": (
        L,
        "> a\n> ```py\n> x\n>y\n> ```\n> b\nc",
        ["> a", "> ```py\n> x\n> y\n> ```", "> b", "c"],
    ),
    "code on the fence's line in a quote": (
        L,
        "> ```a b\n> c\n> ```\nd",
        ["> ```\n> a b\n> c\n> ```", "d"],
    ),
    "a quote that ends in its code": (L, "> ```\n> x\ny", ["> ```\n> x\n> ```", "y"]),
    "a quote to the end with code": (
        P,
        ">>> a\n```\nx\n```\nb",
        [">>> a", ">>> ```\nx\n```", ">>> b"],
    ),
    "a quote to the end begins with code": (P, ">>> ```\nx\n```\nb", [">>> ```\nx\n```", ">>> b"]),
    "a packed quote has one mark": (A, ">>> a\n```\nx\n```\nb", [">>> a\n```\nx\n```\nb"]),
    "an empty fence in a quote": (L, "> ```\n> \n> ```\nx", ["x"]),
    "abbreviations": (
        S,
        "Dr. Smith met the U.S. Army. Then left. ok",
        ["Dr. Smith met the U.S. Army.", "Then left.", "ok"],
    ),
    "a word that looks like one": (
        S,
        "I said no. Then left. ok",
        ["I said no.", "Then left.", "ok"],
    ),
    "a number ends a sentence": (S, "Pi is 3.14. Next. x", ["Pi is 3.14.", "Next.", "x"]),
    "an ellipsis is a pause": (S, "Wait... what. ok", ["Wait... what.", "ok"]),
    "an ellipsis is an end": (S, "Wait... What. ok", ["Wait...", "What.", "ok"]),
    "list numbers": (S, "1. First. 2. Second. x", ["1. First.", "2. Second.", "x"]),
    "initials": (S, "J. R. Tolkien and I. Then. x", ["J. R. Tolkien and I.", "Then.", "x"]),
    "marks and closers": (S, "Really?! (Yes.) **So.** x", ["Really?!", "(Yes.)", "**So.**", "x"]),
    "full-width marks": (S, "本。「はい。」次！x", ["本。", "「はい。」", "次！", "x"]),
    "full-width mark and an opener": (S, "本。(a) b", ["本。", "(a) b"]),
    "a mark and an opener": (S, "So.(a) b. c", ["So.(a) b.", "c"]),
    "full-width mark and bold": (S, "本。**b** c", ["本。", "**b** c"]),
    "a mark and bold": (S, "So.**b** c. d", ["So.**b** c.", "d"]),
    "a mark and code": (S, "So.`b` c. d", ["So.`b` c.", "d"]),
    "a mark, a closer, a line end": (S, "So.)\nb", ["So.)", "b"]),
    "an abbreviation before a word": (S, "It is no. Five. x", ["It is no.", "Five.", "x"]),
    "a sentence as long as a message": (
        S,
        "あ" * 1199 + "。次。x",
        ["あ" * 1199 + "。", "次。", "x"],
    ),
    "a fence in a list": (
        L,
        "1. a\n   ```sh\n   ls\n\n     -l\n   ```\nb",
        ["1. a", "```sh\nls\n\n  -l\n```", "b"],
    ),
    "a closing mark that is no marker": (S, "So.’} b. c", ["So.’}", "b.", "c"]),
    "a point alone": (S, "( . ) a. b", ["( . ) a.", "b"]),
    "escapes": (L, "2 \\* 3 \\(a\nb \\|| c\\d\n\\", ["2 \\* 3 \\(a", "b \\|| c\\d", "\\"]),
    "a private block within a line": (L, "One.<think>x</think> Two\n", ["One. Two"]),
    "text behind a table at the end": (L, "a | b\n--|--\nx", ["a | b\n--|--", "x"]),
    "quotes that do not match": (L, "「『」a\nb", ["「『」a", "b"]),
    "a sentence at the end": (S, "One. Two.", ["One.", "Two."]),
    "a paragraph at the end": (P, "One.\n\n", ["One."]),
    "a run of tildes at a line's start": (
        L,
        "~~a\nb~~ c\n~~~~~~~~~ d",
        ["~~a\nb~~ c", "```\n d\n```"],
    ),
    "a link's text": (L, "[a] (b [c]\nd)\n[e]\n", ["[a] (b [c]\nd)", "[e]"]),
    "brackets in brackets": (L, "[a [b]\nc\n", ["[a [b]", "c"]),
    "quotes over lines": (L, 'a "b\nc" d\ne', ['a "b\nc" d', "e"]),
    "deep quotes": (L, "「" * 20 + "\n" + "」" * 16 + "\na", ["「" * 20 + "\n" + "」" * 16, "a"]),
    "ticks of other lengths in code": (L, "``a ` b\n``` c`` d\ne", ["``a ` b\n``` c`` d", "e"]),
    "a long run of ticks in code": (
        L,
        "`a " + "`" * 40 + " b`\nc",
        ["`a " + "`" * 40 + " b`", "c"],
    ),
    "stray ticks around a block": (L, "a `<think>\nx</think>` b\nc", ["a `` b", "c"]),
    "a heading is no sentence": (S, "# No. One. Two\nx", ["# No. One. Two", "x"]),
    "a long ruler": (L, "*" * 40 + "\na\n" + "`" * 40 + "b\n", ["*" * 40, "a", "`" * 40 + "b"]),
    "a long run of dots": (S, "." * 40 + " a. b", ["." * 40 + " a.", "b"]),
    "lines in one message": (A, "A\nB\n\n\nC", ["A\nB\n\nC"]),
    "an address keeps its place": (
        L,
        "First https://a.b/c then more\nz",
        ["First https://a.b/c then more", "z"],
    ),
    "blank lines": (P, "a\n\n\n\n\nb", ["a", "b"]),
    "a heading and its text": (P, "# T\n\nBody\n\n\n## U\n\nMore", ["# T\n\nBody", "## U\n\nMore"]),
    "an indented line continues": (P, "- a\n\n  b\n\nc", ["- a\n\n  b", "c"]),
    "subtext mark alone": (L, "-#\nsmall\nz", ["-# small", "z"]),
    "carriage returns": (L, "a\rb\r\nc\r", ["a", "b", "c"]),
    "an orphan closer is not shown": (L, "a</think> b\n", ["a b"]),
    "private text at the start": (P, "<think>x</think>\n\nHi", ["Hi"]),
    "a tag in a row": (
        L,
        "| a | b |\n|---|---|\n| <think>x</think>1 | `<think>` |\nz",
        ["| a | b |\n|---|---|\n| 1 | `<think>` |", "z"],
    ),
    "a tag in inline code": (L, "use `<think>` here\nz", ["use `<think>` here", "z"]),
    "a tag in a fence": (
        L,
        "```\n<details>x</details>\n```\nz",
        ["```\n<details>x</details>\n```", "z"],
    ),
    "less than": (L, "a < b <c> >_<", ["a < b <c> >_<"]),
    "a tag that never ends": (L, "<think " + "x" * 300, ["<think " + "x" * 300]),
    "no rule below": (L, "a | b\nc | d\n", ["a | b", "c | d"]),
    "a rule of other cells": (P, "a | b\n---|---|---\n", ["a | b\n---|---|---"]),
    "escaped bars": (L, "a \\| b | c\n--|--\n1 | 2\n", ["a \\| b | c\n--|--\n1 | 2"]),
    "a table's rows end at text": (
        L,
        "| a |b|\n|-|-|\n  |1|2|\ntext\n",
        ["| a |b|\n|-|-|\n|1|2|", "text"],
    ),
    "rows without bars": (L, "a | b\n--|--\n1 | 2\nno row\n", ["a | b\n--|--\n1 | 2", "no row"]),
    "a table without rows": (L, "a | b\n--|--", ["a | b\n--|--"]),
    "a spoiler goes on behind a table": (
        L,
        "||a\n| x | y |\n|--|--|\n| 1 | 2 |\nb|| c\n",
        ["||a||", "| x | y |\n|--|--|\n| 1 | 2 |", "||b|| c"],
    ),
    "blanks at the end of a table": (L, "a | b\n--|--\n" + " " * 80 + "x", ["a | b\n--|--", "x"]),
    "a row as long as a message": (
        L,
        "|a|b|\n|-|-|\n|" + "x" * 1950,
        ["|a|b|\n|-|-|", "|" + "x" * 999, "x" * 951],
    ),
    "a blank line ends a hold": (L, "(a\n\nb\n", ["(a", "b"]),
    "a spoiler keeps hiding": (L, "||a\n\nb||\n", ["||a||", "||b||"]),
    "bars of code in a spoiler": (
        L,
        "||a\n```\nb || c\n```\n|| d\n",
        ["||a||", "||```\nb |\u200b| c\n```||", "d"],
    ),
    "long bars of code in a spoiler": (
        L,
        "||a\n```\n" + "|" * 40 + "\n```\n|| d\n",
        ["||a||", "||```\n" + "|\u200b" * 40 + "\n```||", "d"],
    ),
    "a spoiler that opens in front of code": (
        L,
        "a ||```\nb\n```\nc|| d\n",
        ["a", "||```\nb\n```||", "||c|| d"],
    ),
    "an emphasis in front of code": (L, "a **```\nb\n```\nc\n", ["a **", "```\nb\n```", "c"]),
    "a spoiler and bold that end at once": (
        L,
        "||**a\n```\nb\n```\n|| c\n",
        ["||**a||", "||```\nb\n```||", "c"],
    ),
    "fence with trailing blanks": (L, "```py  \nx\n```\n", ["```py\nx\n```"]),
    "a closing fence with text": (L, "```\nx\n``` and\n", ["```\nx\n```", "and"]),
}


@pytest.mark.parametrize(("mode", "text", "expected"), CASES.values(), ids=CASES.keys())
def test_text_comes_out_as_it_should_in_every_cutting(
    mode: DeliveryMode, text: str, expected: list[str]
):
    whole = Run([text], mode)
    assert whole.texts == expected
    for pieces in cuttings(text, max(len(text) // 150, 1)):
        assert Run(pieces, mode).segments == whole.segments, pieces


def test_equal_lines_of_code_all_come_out():
    lines = "- the same line of a log\n" * 1300
    run = Run([f"```\n{lines}```\n"], L)
    assert sum(text.count("- the same line") for text in run.texts) == 1300


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("See https://example.com/docs/page for mor", "See https://example.com/docs/page for mor"),
        ("Done. See https://example.com/x.y fo", "Done."),
        ("Use v1.2 of the lib", "Use v1.2 of the lib"),
        ("All is well. ", "All is well."),
        ("**Now. And", "**Now.**"),
        ("e.g. this", "e.g. this"),
        ("I know. See [Ok. Go](https://a.b/c.d) now", "I know."),
        ("Run `code. x` now", "Run `code. x` now"),
        ("(One. Two and three) go", "(One. Two and three) go"),
        ('He said "stop. now" then', 'He said "stop. now" then'),
        ("「はい。いいえ」と", "「はい。いいえ」と"),
        ("a ||b. c|| d", "a ||b. c|| d"),
        ("これはペン。*it* ~~x~~ y", "これはペン。"),
        ("これは。||ひみつ||です", "これは。"),
        ("(open. and", "(open."),
    ],
)
def test_trim_before_a_tool_call_cuts_only_at_a_sentence(text: str, shown: str):
    run = Run([text], P, end="tool_call")
    assert run.texts == [shown]
    assert "".join(run.buffer.history) == text


def test_text_goes_on_behind_a_tool_call():
    run = Run(["One. Tw"], P, end="tool_call")
    segments = run.segments + run.buffer.feed("Two. ```\nx") + run.buffer.flush()
    assert [segment.text for segment in segments] == ["One.", "Two.", "```\nx\n```"]
    assert [segment.seq for segment in segments] == [1, 2, 3]
    assert [(segment.start, segment.end) for segment in segments] == [(0, 4), (4, 12), (12, 17)]


def test_thoughts_survive_a_tool_call():
    run = Run(["<think>why"], P, end="tool_call")
    assert (run.segments, run.buffer.thoughts) == ([], ["why"])


def test_details_go_to_memory_and_blocks_of_one_family_nest():
    run = Run(["A <details>x <details>y</details> <b> <think>z</think></details> B"], L)
    assert run.texts == ["A B"]
    assert run.buffer.details == ["x <details>y</details> <b> <think>z</think>"]


def test_an_empty_private_block_leaves_nothing():
    run = Run(["A<think> </think>B"], L)
    assert (run.texts, run.buffer.thoughts) == (["AB"], [])


def test_an_unfinished_tag_in_a_private_block_stays_private():
    run = Run(["<think>a </thi"], L)
    assert (run.texts, run.buffer.thoughts) == ([], ["a </thi"])
