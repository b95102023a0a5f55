"""The checks of `segment_cases.json`, one function each; the file's `note` defines them.

Comes in: the `expect` object of a case and a run of the room. Goes out: the names of the checks
that do not hold. A check without a function is an error, so that a new one cannot pass unseen.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

import regex

from tests.support.segmenting import Run

Check = Callable[[Any, Run], bool]

_LINES = re.compile(r"^\|*```[^\n]*\n(?P<body>.*?)\n?```\|*$", re.S)
SWEEPS_AND_TIMES = {"sweep", "early"}  # the tests themselves do these


def failures(expect: dict[str, Any], run: Run) -> Iterator[str]:
    """The checks of `expect` that `run` does not pass."""
    for name, wanted in expect.items():
        if name in SWEEPS_AND_TIMES:
            continue
        told = (wanted, expect["joined_startswith"]) if name == "added_only" else wanted
        if not CHECKS[name](told, run):
            yield name


def shown(run: Run) -> list[str]:
    return [segment.text.strip() for segment in run.segments]


def joined(run: Run) -> str:
    return " ".join(" ".join(shown(run)).split())


def without_white(text: str) -> str:
    return "".join(text.split())


def code_bodies(run: Run) -> list[str]:
    found = (_LINES.match(text) for text in shown(run))
    return [match.group("body") for match in found if match]


def _added_only(wanted: tuple[str, str], run: Run) -> bool:
    characters, start = wanted
    return set(joined(run).removeprefix(start)) <= set(characters)


def _in_order(wanted: list[str], run: Run) -> bool:
    text, at = joined(run), 0
    for part in wanted:
        found = text.find(" ".join(part.split()), at)
        if found < 0:
            return False
        at = found + len(part)
    return True


def _graphemes(wanted: str, run: Run) -> bool:
    texts = (without_white(text) for text in shown(run))
    return all(
        set(regex.findall(r"\X", text)) <= set(regex.findall(r"\X", wanted)) for text in texts
    )


def _fenced(wanted: str, run: Run) -> bool:
    return all(text.startswith(wanted) and text.endswith("```") for text in shown(run)[:-1])


CHECKS: dict[str, Check] = {
    "segments": lambda wanted, run: shown(run) == wanted,
    "segments_nows": lambda wanted, run: [without_white(t) for t in shown(run)] == wanted,
    "kinds": lambda wanted, run: run.kinds == wanted,
    "any_of": lambda wanted, run: shown(run) in wanted,
    "count": lambda wanted, run: len(run.segments) == wanted,
    "count_min": lambda wanted, run: len(run.segments) >= wanted,
    "count_max": lambda wanted, run: len(run.segments) <= wanted,
    "joined": lambda wanted, run: joined(run) == wanted,
    "joined_nows": lambda wanted, run: without_white(joined(run)) == without_white(wanted),
    "joined_startswith": lambda wanted, run: joined(run).startswith(wanted),
    "added_only": _added_only,
    "joined_code": lambda wanted, run: (
        "".join(code_bodies(run)).replace("\n", "") == wanted.replace("\n", "")
    ),
    "code_lines": lambda wanted, run: "\n".join(code_bodies(run)) == wanted,
    "each_limit": lambda wanted, run: all(len(s.text) <= wanted for s in run.messages),
    "each_startswith": lambda wanted, run: all(t.startswith(wanted) for t in shown(run)),
    "each_endswith": lambda wanted, run: all(t.endswith(wanted) for t in shown(run)),
    "each_even": lambda wanted, run: all(
        text.count(mark) % 2 == 0 for text in shown(run) for mark in wanted
    ),
    "fenced_but_last": _fenced,
    "quoted_but_last": lambda wanted, run: all(t.startswith(wanted) for t in shown(run)[:-1]),
    "lengths_but_last": lambda wanted, run: all(
        wanted[0] <= len(text) <= wanted[1] for text in shown(run)[:-1]
    ),
    "first_startswith": lambda wanted, run: shown(run)[0].startswith(wanted),
    "first_endswith": lambda wanted, run: shown(run)[0].endswith(wanted),
    "first_contains": lambda wanted, run: wanted in shown(run)[0],
    "last": lambda wanted, run: shown(run)[-1] == wanted,
    "inner_without": lambda wanted, run: wanted not in "".join(code_bodies(run)[:1]),
    "none_equals": lambda wanted, run: not set(wanted) & set(shown(run)),
    "none_contains": lambda wanted, run: all(part not in t for part in wanted for t in shown(run)),
    "order": _in_order,
    "count_of": lambda wanted, run: all(
        "\n".join(shown(run)).count(part) == count for part, count in wanted.items()
    ),
    "graphemes_of": _graphemes,
    "whole_token": lambda wanted, run: sum(wanted in text for text in shown(run)) == 1,
    "thoughts": lambda wanted, run: "\n".join(run.buffer.thoughts) == wanted,
    "details_contains": lambda wanted, run: wanted in "\n".join(run.buffer.details),
    "history_endswith": lambda wanted, run: "".join(run.buffer.history).endswith(wanted),
}
