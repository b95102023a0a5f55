"""The toolbox: what is offered to whom, what is wrong with arguments, and the built-in tools."""

import pytest

from shared.errors import ConfigError, ToolError
from shared.tools import Tool, ToolContext
from worker.edges.builtin_tools import BUILTIN_TOOLS, calculate
from worker.edges.tools import MAX_TOOLS, UNCHECKABLE, Toolbox, installed_tools

CONTEXT = ToolContext(turn_id="l1", channel_id=1, user_id=2, guild_id=3)


async def nothing(_args: dict[str, object], _context: ToolContext) -> object:
    return ["a", 1]


def tool(name: str = "t", **parameters: object) -> Tool:
    schema: dict[str, object] = {"type": "object", **parameters}
    return Tool(name=name, description="", parameters=schema, run=nothing)


def names(box: Toolbox, guild_id: int | None) -> list[str]:
    return [spec.name for spec in box.offered(guild_id)]


def test_nothing_is_offered_that_nobody_allowed():
    assert Toolbox(BUILTIN_TOOLS, {}).offered(7) == ()


def test_a_list_of_its_own_replaces_that_of_everywhere():
    box = Toolbox(
        [tool("a"), tool("b"), tool("c")], {"*": ["b", "a"], "7": ["*"], "8": [], "dm": ["c"]}
    )
    assert names(box, 6) == ["a", "b"]
    assert names(box, 7) == ["a", "b", "c"]
    assert names(box, 8) == []
    assert names(box, None) == ["c"]


WRONG = {
    "unknown tool": ([tool("a")], {"*": ["bb"]}, "no tool is called 'bb'; there are: a"),
    "unknown place": ([tool("a")], {"guild": ["a"]}, "'guild' is no guild id"),
    "twice": ([tool("a"), tool("a")], {}, "two installed tools are called 'a'"),
    "name": ([tool("a tool")], {}, "'a tool' is no name of a tool"),
    "schema": ([tool("a", properties=5)], {}, "'a' has a wrong schema"),
}


@pytest.mark.parametrize(("tools", "allowed", "words"), WRONG.values(), ids=WRONG)
def test_a_wrong_toolbox_is_the_operators_and_says_what_is_wrong(tools, allowed, words):
    with pytest.raises(ConfigError, match=words.replace("(", r"\(")):
        Toolbox(tools, allowed)


def test_no_more_tools_are_offered_than_a_request_takes():
    box = Toolbox([tool(f"t{n}") for n in range(MAX_TOOLS + 1)], {"*": ["*"]})
    assert len(box.offered(7)) == MAX_TOOLS


async def test_tools_of_a_source_come_and_go():
    box = Toolbox([tool("a")], {"*": ["a", "s_b"]}, coming=("s_",))
    assert names(box, 7) == ["a"]
    box.put("s", [tool("s_b"), tool("a"), tool("s_c", properties=5), tool("s_d")])
    assert names(box, 7) == ["a", "s_b"]
    assert box.drop("s")
    assert not box.drop("s")
    assert names(box, 7) == ["a"]
    assert box.complaint("s_b", {}) is None
    with pytest.raises(ToolError, match="unreachable"):
        await box.run("s_b", {}, CONTEXT)


def test_complaints_name_the_place_and_are_bounded():
    box = Toolbox([tool(properties={"n": {"type": "integer"}}, required=["n"])], {})
    assert box.complaint("t", {"n": 1}) is None
    assert box.complaint("t", {}) == "$: 'n' is a required property"
    long = box.complaint("t", {"n": "x" * 5000})
    assert long is not None
    assert len(long) == 200


def test_a_schema_makes_nobody_fetch_an_address():
    box = Toolbox([tool(properties={"n": {"$ref": "http://192.0.2.1/schema"}})], {})
    assert box.complaint("t", {"n": 1}) == UNCHECKABLE


async def test_a_value_is_told_as_json():
    assert await Toolbox([tool()], {}).run("t", {}, CONTEXT) == '["a",1]'


async def test_whatever_a_tool_raises_is_a_tool_error_without_its_message():
    async def broken(_args: dict[str, object], _context: ToolContext) -> object:
        raise KeyError("secret")

    box = Toolbox([Tool(name="t", description="", parameters={}, run=broken)], {})
    with pytest.raises(ToolError) as caught:
        await box.run("t", {}, CONTEXT)
    assert caught.value.cause == "crashed"
    assert "secret" not in str(caught.value)


def test_the_built_in_tools_are_installed():
    assert {one.name for one in installed_tools()} >= {"calculate", "current_time"}


SUMS = {
    "1 + 2 * 3": 7,
    "(1 + 2) * 3": 9,
    "-2 ** 2": -4,
    "2^10": 1024,
    "7 // 2 + 7 % 4": 6,
    "6 × 7 ÷ 2 − 1": 20,
    "sqrt(16) + abs(-2)": 6,
    "round(2.6)": 3,
    "floor(pi) + ceil(e)": 6,
    "0.5 * 4": 2,
}


@pytest.mark.parametrize(("expression", "value"), SUMS.items(), ids=SUMS)
def test_arithmetic_is_computed(expression, value):
    assert calculate(expression) == value


NO_SUMS = {
    "__import__('os')": "not_arithmetic",
    "(1).__class__": "not_arithmetic",
    "open": "not_arithmetic",
    "'a' * 9": "not_arithmetic",
    "True + 1": "not_arithmetic",
    "[1, 2]": "not_arithmetic",
    "1 +": "not_arithmetic",
    "round(2.567, 2)": "not_arithmetic",
    "\0": "not_arithmetic",
    "9 ** 9 ** 9": "too_large",
    "2 ** 4000 * 2 ** 4000": "too_large",
    "1" + "+1" * 300: "too_large",
    "1" + "+1" * 100: "too_large",
    "1 / 0": "undefined",
    "(-8) ** 0.5": "undefined",
    "exp(10000)": "undefined",
    "sqrt(-1)": "undefined",
    "10.0 ** 400": "undefined",
}


@pytest.mark.parametrize(("expression", "cause"), NO_SUMS.items(), ids=range(len(NO_SUMS)))
def test_whatever_is_no_arithmetic_is_refused(expression, cause):
    with pytest.raises(ToolError) as caught:
        calculate(expression)
    assert caught.value.cause == cause


async def test_the_calculator_answers_in_text():
    box = Toolbox(BUILTIN_TOOLS, {})
    assert await box.run("calculate", {"expression": "(17 + 4) * 2"}, CONTEXT) == "42"


async def test_the_time_is_told_in_a_zone():
    box = Toolbox(BUILTIN_TOOLS, {})
    assert (await box.run("current_time", {}, CONTEXT)).endswith(" UTC")
    assert "Europe/Zurich (UTC+" in await box.run(
        "current_time", {"timezone": "Europe/Zurich"}, CONTEXT
    )


@pytest.mark.parametrize("zone", ["Mars/Base", "../../etc/passwd", "Europe", "", "a\0b"])
async def test_an_unknown_zone_is_told(zone):
    with pytest.raises(ToolError) as caught:
        await Toolbox(BUILTIN_TOOLS, {}).run("current_time", {"timezone": zone}, CONTEXT)
    assert caught.value.cause == "unknown_timezone"
