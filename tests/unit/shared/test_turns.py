import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from shared.errors import TurnfleetError
from shared.turns import TRANSITIONS, Front, Route, TurnState
from tests.support.turns import turn

SCRIPTS = Path(__file__).parents[3] / "shared" / "edges" / "scripts"


def test_the_table_of_transitions_is_whole():
    assert set(TRANSITIONS) == set(TurnState)


def test_nothing_follows_an_end():
    ends = {state for state, following in TRANSITIONS.items() if not following}
    assert ends == {TurnState.DONE, TurnState.FAILED, TurnState.CANCELLED, TurnState.DEAD}


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
