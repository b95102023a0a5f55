import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from shared.errors import IllegalTransition, TurnfleetError
from shared.turns import TRANSITIONS, Front, Route, TurnState, check_transition
from tests.support.turns import turn

SCRIPTS = Path(__file__).parents[3] / "shared" / "edges" / "scripts"


def test_the_table_of_transitions_is_whole():
    assert set(TRANSITIONS) == set(TurnState)


@pytest.mark.parametrize("old", TurnState)
@pytest.mark.parametrize("new", TurnState)
def test_a_move_is_legal_exactly_where_the_table_has_it(old, new):
    if new in TRANSITIONS[old]:
        check_transition(old, new)
    else:
        with pytest.raises(IllegalTransition, match=f"from {old} to {new}"):
            check_transition(old, new)


def test_the_scripts_write_no_other_states():
    written = {
        word
        for path in SCRIPTS.glob("*.lua")
        for word in re.findall(r"'HSET'[^)]*?'state',\s*'(\w+)'", path.read_text(encoding="utf-8"))
    }
    assert written
    assert written <= set(TurnState)


def test_a_direct_message_has_its_user_as_fairness_key():
    alone = msgspec.structs.replace(turn(), route=Route(front=Front.LOCAL, channel_id=1, user_id=5))
    assert alone.fairness_key == "dm:5"
    assert turn(guild=7).fairness_key == "7"


def test_an_exception_says_its_docstring_where_nothing_else_is_said():
    def walk(kind: type[TurnfleetError]) -> Iterator[type[TurnfleetError]]:
        yield kind
        for child in kind.__subclasses__():
            yield from walk(child)

    for kind in walk(TurnfleetError):
        doc = kind.__doc__
        assert doc, kind
        if kind.__init__ is TurnfleetError.__init__:
            assert str(kind()) == doc.split("\n")[0]
            assert str(kind("more")) == "more"
