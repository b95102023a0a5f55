"""The backtick scanner: what protects, what does not, whatever the cutting."""

import pytest

from worker.text.scanner import MAX_UNSURE_CHARS, CodeScanner, CodeState


def states(text: str, cut: int = 0) -> str:
    """One letter per character: p(rose), c(andidate), f(ence); a run has the state before it."""
    scanner, out, data = CodeScanner(), "", ""
    for index, piece in enumerate((text[:cut], text[cut:])):
        data += piece
        at = 0
        while at < len(data):
            before = scanner.state.value[0]
            end = scanner.take(data, at, final=index == 1)
            if end == at:
                break
            out += before * (end - at)
            at = end
        data = data[at:]
    return out


CASES = {
    "closed": ("a `b` c", "ppp" + "cc" + "pp"),
    "other length does not close": ("`a``b`", "p" + "ccccc"),
    "blank line ends a candidate": ("`a\n \nb", "p" + "cccc" + "p"),
    "line end does not": ("`a\nb`c", "p" + "cccc" + "p"),
    "fence to the next long run": ("```a`\n\n````b", "ppp" + "f" * 8 + "p"),
}


@pytest.mark.parametrize(("text", "expected"), CASES.values(), ids=CASES.keys())
def test_states_are_the_same_for_every_cut(text: str, expected: str):
    for cut in range(len(text) + 1):
        assert states(text, cut) == expected


@pytest.mark.parametrize(
    ("ahead", "final", "answer"),
    [
        ("<think>`", True, True),
        ("<think>` ", False, True),
        ("<think>`", False, None),
        ("<think>``", True, False),
        ("<think>\n\nx`", False, False),
        ("<think>", True, False),
        ("x" * MAX_UNSURE_CHARS, False, False),
        ("x" * (MAX_UNSURE_CHARS - 1), False, None),
    ],
)
def test_closes_answers_once_it_is_known(ahead: str, final: bool, answer: bool | None):
    scanner = CodeScanner()
    assert scanner.take("`a", 0) == 1
    assert scanner.state is CodeState.CANDIDATE
    assert scanner.closes(ahead, final=final) is answer
    assert scanner.state is CodeState.CANDIDATE


def test_drop_makes_the_backticks_text():
    scanner = CodeScanner()
    scanner.take("`a", 0)
    scanner.drop()
    assert scanner.state is CodeState.PROSE
    scanner.drop()
    assert scanner.state is CodeState.PROSE
