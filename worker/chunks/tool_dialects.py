"""Tool calls in the markup of models whose server did not parse it: one row per dialect.

Comes in: what stood between a row's markers. Goes out: the calls in it. Pure; for `worker.chunks`
only. A new dialect is a row with a parser and two examples, which a test runs.
"""

import json
import re
from collections.abc import Callable, Iterable

import msgspec
import regex

from shared.messages import ArgumentState
from worker.chunks.call_syntax import CallReader, Match, Tool, Tools
from worker.chunks.pieces import Called
from worker.normalize.partial_json import final_arguments

Parser = Callable[[str, Tools], list[Called] | None]
"""Reads the text between the markers; None if it holds no call of an exposed tool."""


class MarkupDialect(msgspec.Struct, frozen=True, kw_only=True):
    """A row: a call stands between `opens` and `closes`.

    Args:
        opens: what begins the markup, literally; `keeps_opening` gives it to the parser too.
        closes: what ends it.
        begins: what must follow `opens`; what cannot become it only names the markup.
        yes: an example, for the tool `t` with a string parameter `a`: the call `t(a="x")`.
        no: an example that is none.
    """

    name: str
    opens: str
    closes: str
    begins: regex.Pattern[str]
    parse: Parser
    yes: str
    no: str
    keeps_opening: bool = False


def unclosed_calls(body: str, tools: Tools) -> list[Called]:
    """The calls of a body whose end never came: servers stop at the closing tag and drop it.

    Whole JSON counts, as a call in unclosed backticks does; of anything else, the name is refused.
    """
    if body.lstrip()[:1] in {"{", "["}:
        calls = _json_calls(body, tools) or []
        if all(call.state is ArgumentState.OK for call in calls):
            return calls
    called = cut_call(body, tools)
    return [called] if called else []


def cut_call(body: str, tools: Tools) -> Called | None:
    """The call that a body without its end would have been: its name, refused as truncated."""
    found = _NAME.search(body)
    name = next((group for group in found.groups() if group), "") if found else ""
    tool = tools.by_name.get(name)
    return Called(tool.name, {}, ArgumentState.TRUNCATED) if tool else None


_NAME = re.compile(
    r'"name"\s{0,8}:\s{0,8}"([^"]{1,128})"'
    r'|<(?:function|invoke)(?:=|\s+name=)"?([\w.-]{1,128})'
    r"|call:([\w.-]{1,128})"
    r"|<｜tool▁call▁begin｜>(?:function<｜tool▁sep｜>)?([\w.-]{1,128})"
    r"|<\|tool_call_begin\|>(?:functions\.)?([\w.-]{1,128})"
    r"|^\s*(?:print\()?([\w.-]{1,128})\s*(?:\(|<arg_key>)"
)


# ------------------------------------------------------------------------------------ parsers


def _json_calls(body: str, tools: Tools) -> list[Called] | None:
    """`{"name": ..., "arguments": {...}}`, one or a list of them."""
    try:
        value = json.loads(body, strict=False)
    except (ValueError, RecursionError):
        called = cut_call(body, tools)
        return [_invalid(called.name)] if called else None
    calls = [_json_call(item, tools) for item in (value if isinstance(value, list) else [value])]
    return [call for call in calls if call] if calls and all(calls) else None


def _json_call(value: object, tools: Tools) -> Called | None:
    if not isinstance(value, dict) or value.get("name") not in tools.by_name:
        return None
    given = value.get("arguments", value.get("parameters"))
    args, state = final_arguments(given if isinstance(given, str) else json.dumps(given))
    return Called(str(value["name"]), args, state)


def _invalid(name: str) -> Called:
    return Called(name, {}, ArgumentState.INVALID)


_FUNCTION = re.compile(
    r"<(?:function=|function\s+name=|invoke\s+name=)[\"']?([\w.-]{1,128})[\"']?\s*>"
    r"(.*?)</(?:function|invoke)>",
    re.DOTALL,
)
_PARAMETER = re.compile(
    r"<parameter(?:=|\s+name=)[\"']?([\w.-]{1,128})[\"']?\s*>(.*?)</parameter>", re.DOTALL
)


def _xml_calls(body: str, tools: Tools) -> list[Called] | None:
    """`<function=name><parameter=key>value</parameter></function>`, or JSON inside."""
    found = _FUNCTION.findall(body)
    if not all(name in tools.by_name for name, _ in found):
        return None
    return [_xml_call(tools.by_name[name], inner) for name, inner in found] or None


def _xml_call(tool: Tool, inner: str) -> Called:
    if inner.strip().startswith("{"):
        return Called(tool.name, *final_arguments(inner))
    return _paired(tool, _PARAMETER, inner)


def _paired(tool: Tool, pair: re.Pattern[str], text: str) -> Called:
    """The call whose arguments are pairs of tags. What else stands there was a pair, and is cut."""
    if pair.sub("", text).strip():
        return _invalid(tool.name)
    found = [(key.strip(), value) for key, value in pair.findall(text)]
    args = {key: _typed(value, tool.types.get(key)) for key, value in found}
    return Called(tool.name, args, ArgumentState.OK)


_GLM_NAME = re.compile(r"\s*([\w.-]{1,128})\s*(?=<arg_key>|\Z)")
_GLM_PAIR = re.compile(r"<arg_key>(.*?)</arg_key>\s*<arg_value>(.*?)</arg_value>", re.DOTALL)


def _glm_calls(body: str, tools: Tools) -> list[Called] | None:
    """`name<arg_key>key</arg_key><arg_value>value</arg_value>` (GLM 4.5 and later)."""
    found = _GLM_NAME.match(body)
    tool = tools.by_name.get(found[1]) if found else None
    if found is None or tool is None:
        return None
    return [_paired(tool, _GLM_PAIR, body[found.end() :])]


def _tool_call_calls(body: str, tools: Tools) -> list[Called] | None:
    """`<tool_call>` is written around JSON (Hermes, Qwen), XML (Qwen coder) and GLM's pairs."""
    start = body.lstrip()[:1]
    if start in {"{", "["}:
        return _json_calls(body, tools)
    return _xml_calls(body, tools) if start == "<" else _glm_calls(body, tools)


def _code_calls(body: str, tools: Tools) -> list[Called] | None:
    """`name(arguments)`, or the same inside `print(...)` (Gemma's tool code)."""
    text = body.strip()
    if text.startswith("print(") and text.endswith(")"):
        text = text[len("print(") : -1].strip()
    found = tools.head.match(text) if tools.head else None
    if found is None:
        return None
    match = CallReader(tools.by_name[found[1]], found.end()).read(text, final=True)
    return list(match.calls) if isinstance(match, Match) and not match.is_cut else None


_GEMMA_CALL = re.compile(r"\s*call:([\w.-]{1,128})\s*(\{.*\})\s*", re.DOTALL)
_GEMMA_QUOTED = re.compile(
    r'<\|"\|>(.*?)<\|"\|>|([{,]\s*)([A-Za-z_][\w-]{0,63})(?=\s*:)', re.DOTALL
)


def _gemma_calls(body: str, tools: Tools) -> list[Called] | None:
    """`call:name{key:<|"|>text<|"|>,count:2}` (Gemma 4)."""
    found = _GEMMA_CALL.fullmatch(body)
    if found is None:
        return None
    return _all_known([(found[1], _GEMMA_QUOTED.sub(_gemma_as_json, found[2]))], tools)


def _gemma_as_json(found: re.Match[str]) -> str:
    if found[3]:
        return f'{found[2]}"{found[3]}"'
    return json.dumps(found[1])


_DEEPSEEK_CALL = re.compile(
    r"<｜tool▁call▁begin｜>(?:function<｜tool▁sep｜>([\w.-]{1,128})\s*```json\s*(.*?)\s*```\s*"
    r"|([\w.-]{1,128})<｜tool▁sep｜>(.*?))<｜tool▁call▁end｜>",
    re.DOTALL,
)


def _deepseek_calls(body: str, tools: Tools) -> list[Called] | None:
    """DeepSeek's tokens: with a fenced object (V3, R1), or a bare one (V3.1)."""
    found = _DEEPSEEK_CALL.findall(body)
    return _all_known(((old or new, fenced or bare) for old, fenced, new, bare in found), tools)


_KIMI_CALL = re.compile(
    r"<\|tool_call_begin\|>\s*(?:functions\.)?([\w.-]{1,128}?)(?::\d{1,4})?\s*"
    r"<\|tool_call_argument_begin\|>(.*?)<\|tool_call_end\|>",
    re.DOTALL,
)


def _kimi_calls(body: str, tools: Tools) -> list[Called] | None:
    """Kimi K2's section of calls with numbered ids."""
    return _all_known(_KIMI_CALL.findall(body), tools)


def _all_known(found: Iterable[tuple[str, str]], tools: Tools) -> list[Called] | None:
    """The calls, if there are any and each names an exposed tool."""
    calls: list[Called] = []
    for name, given in found:
        if name not in tools.by_name:
            return None
        calls.append(Called(name, *final_arguments(given)))
    return calls or None


def _typed(text: str, kind: object) -> object:
    """A parameter that came as text: a string stays one, other types are read as JSON."""
    value = text.strip("\n")
    if kind in (None, "string"):
        return value
    try:
        parsed: object = json.loads(value.strip().lower() if kind == "boolean" else value)
    except (ValueError, RecursionError):
        return value
    return parsed


def _begins(*alternatives: str) -> regex.Pattern[str]:
    return regex.compile(rf"\s{{0,16}}+(?:{'|'.join(alternatives)})")


_JSON_CALL = r'(?:\[\s{0,16}+)?\{\s{0,16}+"(?:name|arguments|parameters|function|type|id)"'
_XML_CALL = r"<(?:function=|function\s+name=|invoke\s+name=)"
_GLM_CALL = r"[\w.-]{1,128}+\s{0,16}+<(?:arg_key|/tool_call)>"

DIALECTS: tuple[MarkupDialect, ...] = (
    MarkupDialect(
        name="tool_call tags",
        opens="<tool_call>",
        closes="</tool_call>",
        begins=_begins(_JSON_CALL, _XML_CALL, _GLM_CALL),
        parse=_tool_call_calls,
        yes='<tool_call>\n{"name": "t", "arguments": {"a": "x"}}\n</tool_call>',
        no='<tool_call>{"name": "unknown", "arguments": {}}</tool_call>',
    ),
    MarkupDialect(
        name="function tags",
        opens="<function=",
        closes="</function>",
        begins=_begins(r"[\"']?[\w.-]{1,128}[\"']?\s{0,16}+>\s{0,16}+(?:<|\{)"),
        parse=lambda body, tools: _xml_calls(body + "</function>", tools),
        keeps_opening=True,
        yes="<function=t>\n<parameter=a>\nx\n</parameter>\n</function>",
        no="<function=unknown></function>",
    ),
    MarkupDialect(
        name="invoke tags",
        opens="<function_calls>",
        closes="</function_calls>",
        begins=_begins(_XML_CALL),
        parse=_xml_calls,
        yes='<function_calls>\n<invoke name="t"><parameter name="a">x</parameter></invoke>\n'
        "</function_calls>",
        no="<function_calls>are listed here</function_calls>",
    ),
    MarkupDialect(
        name="Gemma tool code",
        opens="<tool_code>",
        closes="</tool_code>",
        begins=_begins(r"(?:print\(\s{0,16}+)?[\w.-]{1,128}+\("),
        parse=_code_calls,
        yes='<tool_code>\nprint(t(a="x"))\n</tool_code>',
        no="<tool_code>print(1)</tool_code>",
    ),
    MarkupDialect(
        name="Gemma tool tokens",
        opens="<|tool_call>",
        closes="<tool_call|>",
        begins=_begins(r"call:[\w.-]{1,128}+\s{0,16}+\{"),
        parse=_gemma_calls,
        yes='<|tool_call>call:t{a:<|"|>x<|"|>}<tool_call|>',
        no="<|tool_call>call:unknown{}<tool_call|>",
    ),
    MarkupDialect(
        name="DeepSeek tool tokens",
        opens="<｜tool▁calls▁begin｜>",
        closes="<｜tool▁calls▁end｜>",
        begins=_begins("<｜tool▁call▁begin｜>"),
        parse=_deepseek_calls,
        yes="<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>t\n"
        '```json\n{"a": "x"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
        no="<｜tool▁calls▁begin｜><｜tool▁calls▁end｜>",
    ),
    MarkupDialect(
        name="Kimi tool tokens",
        opens="<|tool_calls_section_begin|>",
        closes="<|tool_calls_section_end|>",
        begins=_begins(r"<\|tool_call_begin\|>"),
        parse=_kimi_calls,
        yes="<|tool_calls_section_begin|><|tool_call_begin|>functions.t:0"
        '<|tool_call_argument_begin|>{"a": "x"}<|tool_call_end|><|tool_calls_section_end|>',
        no="<|tool_calls_section_begin|><|tool_calls_section_end|>",
    ),
)
