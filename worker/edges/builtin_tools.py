"""The built-in tools: the time, and a calculator. Both touch nothing outside of the process.

Comes in: arguments that fit the schema. Goes out: text. `worker.edges.tools` offers them where an
operator allows it.
"""

import ast
import math
import operator
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final
from zoneinfo import ZoneInfo

from shared.errors import ToolError
from shared.tools import Tool, ToolContext

MAX_EXPRESSION_CHARS: Final = 500
"""More than anybody writes; the parser's work and the depth of what it gives stay small."""
MAX_BITS: Final = 4096
"""Of any whole number on the way, about 1,200 digits: a power must not occupy the worker."""
_LEVELS: Final = 50
"""Nested operations; a sum of 200 numbers is one level for each, so it is refused."""

Number = int | float

_BINARY: Final[dict[type[ast.operator], Callable[[Number, Number], Number]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_UNARY: Final[dict[type[ast.unaryop], Callable[[Number], Number]]] = {
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
}
_FUNCTIONS: Final[dict[str, Callable[[Number], Number]]] = {
    "abs": abs,
    "ceil": math.ceil,
    "cos": math.cos,
    "exp": math.exp,
    "floor": math.floor,
    "log": math.log,
    "round": round,
    "sin": math.sin,
    "sqrt": math.sqrt,
    "tan": math.tan,
}
_CONSTANTS: Final[dict[str, Number]] = {"e": math.e, "pi": math.pi}


def calculate(expression: str) -> Number:
    """The value of an arithmetic expression; nothing of Python but its grammar is used.

    Raises:
        ToolError: `not_arithmetic`, `too_large`, or `undefined` (a division by zero).
    """
    if len(expression) > MAX_EXPRESSION_CHARS:
        raise ToolError("too_large")
    text = expression.replace("^", "**").replace("×", "*").replace("÷", "/").replace("−", "-")
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as exc:
        raise ToolError("not_arithmetic") from exc
    try:
        return _value(tree.body, 0)
    except (ArithmeticError, ValueError) as exc:
        raise ToolError("undefined") from exc


def _value(node: ast.expr, level: int) -> Number:
    if level > _LEVELS:
        raise ToolError("too_large")
    match node:
        case ast.Constant(value=bool()):
            raise ToolError("not_arithmetic")
        case ast.Constant(value=int() | float() as number):
            return _bounded(number)
        case ast.Name(id=name) if name in _CONSTANTS:
            return _CONSTANTS[name]
        case ast.UnaryOp(op=sign, operand=operand) if type(sign) in _UNARY:
            return _UNARY[type(sign)](_value(operand, level + 1))
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            return _power(_value(left, level + 1), _value(right, level + 1))
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _BINARY:
            return _bounded(_BINARY[type(sign)](_value(left, level + 1), _value(right, level + 1)))
        case ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]) if name in _FUNCTIONS:
            return _FUNCTIONS[name](_value(argument, level + 1))
        case _:
            raise ToolError("not_arithmetic")


def _power(base: Number, exponent: Number) -> Number:
    is_whole = isinstance(base, int) and isinstance(exponent, int)
    if is_whole and abs(int(base)).bit_length() * abs(int(exponent)) > MAX_BITS:
        raise ToolError("too_large")
    value = base**exponent
    if isinstance(value, complex):
        raise ToolError("undefined")
    return _bounded(value)


def _bounded(number: Number) -> Number:
    if isinstance(number, int) and number.bit_length() > MAX_BITS:
        raise ToolError("too_large")
    return number


async def _run_calculate(args: dict[str, object], _context: ToolContext) -> object:
    return str(calculate(str(args["expression"])))


async def _run_current_time(args: dict[str, object], _context: ToolContext) -> object:
    zone = args.get("timezone")
    if zone is None:
        return f"{datetime.now(UTC):%A %Y-%m-%d %H:%M:%S} UTC"
    try:
        now = datetime.now(ZoneInfo(str(zone)))
    except (OSError, ValueError, LookupError) as exc:
        raise ToolError("unknown_timezone") from exc
    return f"{now:%A %Y-%m-%d %H:%M:%S} {zone} (UTC{now:%z})"


CALCULATE: Final = Tool(
    name="calculate",
    description=(
        "Computes an arithmetic expression exactly: + - * / // % ** parentheses, abs ceil cos exp "
        "floor log round sin sqrt tan, e and pi. Use it for any calculation."
    ),
    parameters={
        "type": "object",
        "properties": {
            "expression": {"type": "string", "description": "Such as (17 + 4) * 2 ** 10"}
        },
        "required": ["expression"],
        "additionalProperties": False,
    },
    run=_run_calculate,
    repeatable=True,
)
CURRENT_TIME: Final = Tool(
    name="current_time",
    description="Tells the current date and time, in UTC or in a time zone.",
    parameters={
        "type": "object",
        "properties": {
            "timezone": {"type": "string", "description": "An IANA name such as Europe/Zurich"}
        },
        "additionalProperties": False,
    },
    run=_run_current_time,
    repeatable=True,
)
BUILTIN_TOOLS: Final = (CALCULATE, CURRENT_TIME)
