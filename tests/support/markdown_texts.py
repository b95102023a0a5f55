"""Hypothesis strategies for replies: wild text out of fragments, and well-formed documents.

Wild texts have every mark in every order; nothing can be said about how they render, only that
nothing is lost. Documents nest constructs as a model does; they must render as they are.
"""

from hypothesis import strategies as st

FRAGMENTS = (
    *("(", ")", "[", "]", '"', "“", "”", "「", "」", "*", "**", "***", "~~", "||", "|", "`", "``"),
    *("```", "````", "~~~", "\n", "\n\n", "\n\n\n", " ", "  ", "\t", "\\", "\\*", "<", ">_<"),
    *(".", "!", "?", "...", "…", "。", "1. ", "- ", "* ", "> ", ">>> ", "# ", "-# ", "Dr. ", "a"),
    *("word", "B", "https://a.b/c?d=e", "[x](http://y.z)", "<@123>", "<:pog:123>", ":smile:"),
    *("👍", "👩‍👩‍👧", "e\u0301", "العربية", "これはペン", "```py\n", "\n```\n", "__init__", '27" '),
    *("| a | b |\n", "|---|---|\n", "| 1 | 2 |\n", "a | b\n", "--- | ---\n", "`code`", "\u200b"),
    *("word word word word. ", "The fox. It jumps! ", "x" * 50, "word " * 60, "あ" * 200),
    *("line of code\n" * 20, "😀" * 150, "## Head\n", "2 * 3 "),
)
PRIVATE = ("<think>", "</think>", "<details>", "</details>", "<thi", "\r\n", "\r", "<|im_end|>")


def wild(*, private: bool = False) -> st.SearchStrategy[str]:
    """Fragments in any order; with `private` also tags, carriage returns and control tokens."""
    known = FRAGMENTS + PRIVATE if private else FRAGMENTS
    return st.lists(st.sampled_from(known), max_size=40).map("".join)


def words(*, most: int = 12) -> st.SearchStrategy[str]:
    """Words of several scripts, one blank between them."""
    word = st.sampled_from(
        [
            "fox",
            "Lazy",
            "dog,",
            "naïve",
            "ペン",
            "日本",
            "العربية",
            "שלום",
            "👍🏽",
            "👩‍👩‍👧",
            "e\u0301a",
            "x1",
        ]
    )
    return st.lists(word, min_size=1, max_size=most).map(" ".join)


_MARKS = ("**{}**", "*{}*", "~~{}~~", "||{}||", "({})", '"{}"', "「{}」")


def _marked(inner: st.SearchStrategy[str], *, times: int = 1) -> st.SearchStrategy[str]:
    """`inner` in one or two different pairs of marks."""
    chosen = st.lists(st.sampled_from(_MARKS), min_size=times, max_size=times, unique=True)

    def wrapped(marks: list[str], text: str) -> str:
        for mark in marks:
            text = mark.format(text)
        return text

    return st.builds(wrapped, chosen, inner)


def inline() -> st.SearchStrategy[str]:
    """A stretch within a line: words, marks around them (nested once), code, links, tokens."""
    plain = words()
    long = words(most=3).map(lambda text: " ".join([text] * 80))
    token = st.sampled_from(
        ["`code`", "[a link](https://e.org/a)", "<@123>", "<:pog:1234>", "https://e.org/x", "\\*"]
    )
    return st.one_of(plain, token, _marked(plain), _marked(plain, times=2), _marked(long))


def _sentence() -> st.SearchStrategy[str]:
    return st.lists(inline(), min_size=1, max_size=4).map(lambda parts: " ".join(parts) + ".")


def _paragraph() -> st.SearchStrategy[str]:
    return st.lists(_sentence(), min_size=1, max_size=4).map("\n".join)


def _block() -> st.SearchStrategy[str]:
    code = st.lists(words(most=4), min_size=1, max_size=120).map("\n".join)
    item = st.builds("- {}".format, _sentence())
    quote = st.builds("> {}".format, _sentence())
    two_lines = st.sampled_from(["**{}\n{}** x", "||{}\n{}|| x", "~~{}\n{}~~ x", "({}\n{}) x"])
    hidden_code = "||{}\n```py\n{}\n```\n{}|| x"
    quoted_code = "> {}\n> ```py\n> x = 1\n> y\n> ```\n> {}"
    return st.one_of(
        _paragraph(),
        st.builds(str.format, two_lines, words(), words()),
        st.builds(hidden_code.format, words(), words(), words()),
        st.builds(quoted_code.format, words(), words()),
        st.builds("## {}".format, words(most=4)),
        st.lists(item, min_size=1, max_size=4).map("\n".join),
        st.lists(quote, min_size=1, max_size=3).map("\n".join),
        st.builds("```{}\n{}\n```".format, st.sampled_from(["", "py", "c++"]), code),
    )


def document() -> st.SearchStrategy[str]:
    """Well-formed Markdown: blocks with blank lines between them."""
    return st.lists(_block(), min_size=1, max_size=5).map("\n\n".join)
