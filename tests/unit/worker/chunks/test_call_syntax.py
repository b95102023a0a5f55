"""`name(arguments)`: the grammar, value by value, whole and growing."""

import pytest

from shared.messages import ArgumentState
from shared.turns import ToolSpec
from tests.support.chunks import show, tool
from worker.chunks.call_syntax import MAX_SPACES, CallReader, Match, Tools, Undecided
from worker.normalize.partial_json import MAX_ARGUMENT_DEPTH

TOO_DEEP = MAX_ARGUMENT_DEPTH + 1
FORECAST = tool("f", ["city"], city="string", days="integer", hot="boolean", note="string")
DICE = tool("d", sides="integer")
PAIR = tool("p", ["a", "b"], a="string", b="string")


def read(spec: ToolSpec, arguments: str, *, final: bool = True) -> Match | Undecided:
    """The verdict over `name(arguments`, the same whether it came whole or in characters."""
    tools = Tools([spec])
    text = f"{spec.name}({arguments}"
    reader = CallReader(tools.by_name[spec.name], len(spec.name) + 1)
    for size in range(len(spec.name) + 1, len(text)):
        early = reader.read(text[:size], final=False)
        if early is not Undecided.WAIT:
            assert early is Undecided.NO or size > len(spec.name) + 1
            late = CallReader(tools.by_name[spec.name], len(spec.name) + 1).read(text, final=final)
            assert late == early
            return early
    grown = reader.read(text, final=final)
    whole = CallReader(tools.by_name[spec.name], len(spec.name) + 1).read(text, final=final)
    assert grown == whole
    return grown


def called(match: Match | Undecided) -> str:
    return show(match.calls) if isinstance(match, Match) else match.name


@pytest.mark.parametrize(
    ("spec", "arguments", "shown"),
    [
        (FORECAST, '{"city": "Rome"}) x', "[f {'city': 'Rome'} ok]"),
        (FORECAST, ' {"city": "a (b) \\" }"}  )', "[f {'city': 'a (b) \" }'} ok]"),
        (FORECAST, '{"a": [-2.5e3, true, null, {}]})', "[f {'a': [-2500.0, True, None, {}]} ok]"),
        (FORECAST, '{"city": "two\nlines"})', "[f {'city': 'two\\nlines'} ok]"),
        (FORECAST, '"Rome")', "[f {'city': 'Rome'} ok]"),
        (FORECAST, "city='Rome')", "[f {'city': 'Rome'} ok]"),
        (FORECAST, "city='it\\'s \"x\"')", "[f {'city': 'it\\'s \"x\"'} ok]"),
        (FORECAST, "days=3, hot=True, note=None)", "[f {'days': 3, 'hot': True, 'note': None} ok]"),
        (FORECAST, 'city = "Rome" , days = -2.5 ,)', "[f {'city': 'Rome', 'days': -2.5} ok]"),
        (DICE, ")", "[d {} ok]"),
        (DICE, " )", "[d {} ok]"),
        (DICE, "{})", "[d {} ok]"),
    ],
)  # fmt: skip
def test_arguments(spec, arguments, shown):
    assert called(read(spec, arguments)) == shown


@pytest.mark.parametrize(
    ("spec", "arguments"),
    [
        (FORECAST, ")"),
        (FORECAST, "it rains)"),
        (FORECAST, "Rome)"),
        (FORECAST, "place='Rome')"),
        (FORECAST, "city=Rome)"),
        (FORECAST, "city='\\q')"),
        (FORECAST, '"Rome", 3)'),
        (FORECAST, '"bad \\q escape")'),
        (FORECAST, '{"city": "Rome"} and)'),
        (FORECAST, '{"city": Rome})'),
        (FORECAST, '{"city" "Rome"})'),
        (FORECAST, '{"city": "Rome",})'),
        (FORECAST, '{"city": 01})'),
        (FORECAST, '{"city": [1})'),
        (FORECAST, "{city: 1})"),
        (FORECAST, '{"city": ;})'),
        (FORECAST, '{"a": "\\q"})'),
        (FORECAST, '{"a": ' + "[" * TOO_DEEP + "]" * TOO_DEEP + "})"),
        (DICE, '"six")'),
        (PAIR, '"one")'),
        (PAIR, "[1, 2])"),
        (FORECAST, ""),
        (FORECAST, "city"),
    ],
)
def test_what_is_no_argument_list(spec, arguments):
    assert read(spec, arguments) is Undecided.NO


@pytest.mark.parametrize(
    ("spec", "arguments", "args"),
    [
        (FORECAST, "{", {}),
        (FORECAST, '{"city": "Rome", "days": 1', {"city": "Rome"}),
        (FORECAST, '{"city": "Rome"}', {"city": "Rome"}),
        (FORECAST, '{"city": "Ro', {}),
        (FORECAST, '{"city": "Rome", "hot": tr', {"city": "Rome"}),
        (FORECAST, '"Ro', {}),
        (FORECAST, '"Rome" ', {"city": "Rome"}),
        (FORECAST, "city='Ro", {}),
        (FORECAST, "city=", {}),
    ],
)
def test_a_cut_argument_list(spec, arguments, args):
    match = read(spec, arguments)
    assert isinstance(match, Match)
    assert (match.is_cut, match.calls[0].state) == (True, ArgumentState.TRUNCATED)
    assert match.calls[0].args == args
    assert read(spec, arguments, final=False) is Undecided.WAIT


def test_long_keyword_arguments_are_checked_at_doublings():
    text = "city='" + "x" * 3000 + "')"
    assert called(read(FORECAST, text)).startswith("[f")


def test_a_bad_character_in_an_object_refuses_at_once():
    reader = CallReader(Tools([FORECAST]).by_name["f"], 2)
    assert reader.read('f({"a": 1', final=False) is Undecided.WAIT
    assert reader.read('f({"a": 1 b', final=False) is Undecided.NO


def test_schemas_of_any_shape():
    odd = ToolSpec(name="o", parameters={"required": "a", "properties": {"a": {}, "b": True}})
    by_name = Tools([odd, ToolSpec(name="n", parameters={"properties": []})]).by_name
    assert (by_name["o"].required, by_name["o"].types) == ((), {"a": None, "b": True})
    assert by_name["n"].types == {}


@pytest.mark.parametrize(
    ("text", "may"),
    [
        ("f", True),
        ("foo", True),
        ("foo ", True),
        ("fo ", False),
        ("foo" + " " * (MAX_SPACES + 1), False),
        ("", False),
        ("x", False),
    ],
)
def test_what_may_become_a_call(text, may):
    assert Tools([tool("foo")]).may_begin(text) is may
