"""docs/tools.md: its examples work, its numbers are ours."""

import json
import re
from pathlib import Path

import pytest

from shared.config import load_settings
from shared.errors import ToolError
from shared.tools import ENTRY_POINTS, Tool, ToolContext
from worker.edges.tools import Toolbox
from worker.turn.results import MAX_RESULT_CHARS
from worker.turn.tool_rounds import ToolLimits

PAGE = (Path(__file__).parents[4] / "docs" / "tools.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
CONTEXT = ToolContext(turn_id="l1", channel_id=9, user_id=2)


async def test_the_tool_of_the_page_runs():
    (source,) = [text for language, text in BLOCKS if language == "python"]
    space: dict[str, object] = {}
    exec(source, space)
    tool = space["TOSS"]
    assert isinstance(tool, Tool)
    box = Toolbox([tool], {"*": ["toss"]})
    assert await box.run("toss", {"coins": 4}, CONTEXT) == '{"heads":2,"thrown_in":9}'
    assert box.complaint("toss", {"coins": 0}) is not None
    with pytest.raises(ToolError, match="too_many_coins"):
        await box.run("toss", {"coins": 101}, CONTEXT)


def test_the_settings_of_the_page_are_read():
    tools, servers = [text for language, text in BLOCKS if language == "json"]
    settings = load_settings({"TURNFLEET_TOOLS": tools, "TURNFLEET_MCP": servers})
    assert settings.tools["dm"] == ()
    assert settings.mcp["files"][0] == "npx"
    assert set(json.loads(servers)) == set(settings.mcp)


def test_the_numbers_of_the_page_are_ours():
    limits = ToolLimits()
    assert f"{limits.rounds} rounds, {limits.calls} calls, {limits.at_once} at once" in PAGE
    assert f"{limits.call_s:g} s for each and {limits.all_s:g} s for all" in PAGE
    assert f"{limits.failures_in_a_row} failures in a row" in PAGE
    assert f"cut at {MAX_RESULT_CHARS:,} characters" in PAGE
    assert ENTRY_POINTS in PAGE
