"""No code of the gateway says anything to people that no catalog has."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from shared.i18n import load_texts

ROOT = Path(__file__).parents[3]
SAYING = {"whisper": (0, None), "change": (0, None), "say": (0, None), "Form": (None, "title"),
          "Field": (None, "label"), "Button": (None, "label"), "OutgoingMessage": (None, "text"),
          "Piece": (None, "text")}  # fmt: skip
"""What speaks: the place of its text among the arguments, or the name of the argument."""
FILES = sorted((ROOT / "gateway").rglob("*.py"))
KEYS = load_texts().keys


def said_in(tree: ast.AST) -> Iterator[tuple[int, ast.expr]]:
    """The texts that a file says, with their lines."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        at, keyword = SAYING.get(name, (None, None))
        if at is not None and len(node.args) > at:
            yield node.lineno, node.args[at]
        yield from ((node.lineno, one.value) for one in node.keywords if one.arg == keyword)


def words_in(text: ast.expr) -> str:
    """What of a text is written in the code itself: letters, that is, not marks such as `-# `."""
    parts = text.values if isinstance(text, ast.JoinedStr) else [text]
    literal = "".join(str(part.value or "") for part in parts if isinstance(part, ast.Constant))
    is_key = literal.removesuffix(".") in ("notice", "fault")  # the rest of the key is put in
    return "" if is_key else "".join(char for char in literal if char.isalpha())


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_is_said_comes_from_a_catalog(path: Path):
    wrong = [
        f"{path.name}:{line}: {ast.unparse(text)}"
        for line, text in said_in(ast.parse(path.read_text("utf-8")))
        if words_in(text) and not (isinstance(text, ast.Constant) and text.value in KEYS)
    ]
    assert wrong == []


def test_every_key_that_the_code_names_is_in_the_catalog():
    named = {
        node.value
        for path in [*FILES, *(ROOT / "shared").rglob("*.py")]
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and node.value.startswith(("ask.", "form.", "modal.", "button.", "notice."))
    }
    assert sorted(named - KEYS - {"notice."}) == []


def test_the_test_sees_what_it_looks_for():
    tree = ast.parse('answers.whisper("Hello there")\nButton(label="Go")\nx.say(f"-# {line}")')
    assert [words_in(text) for _, text in said_in(tree)] == ["Hellothere", "Go", ""]
