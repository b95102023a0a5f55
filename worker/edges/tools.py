"""The toolbox: installed tools, who may use them, and how one is run.

Comes in: `shared.tools.Tool`s, built in or registered by packages, and the operator's allow-lists.
Goes out: specifications for requests, results as text, every failure as `ToolError`. It is the real
`ToolsPort` of `worker.turn`; only `worker.app` constructs it.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import entry_points

import msgspec
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError
from referencing import Registry
from referencing.exceptions import Unresolvable

from shared.errors import ConfigError, ToolError
from shared.logs import fields
from shared.tools import ENTRY_POINTS, NAME, Tool, ToolContext
from shared.turns import ToolSpec
from worker.edges.builtin_tools import BUILTIN_TOOLS

EVERYWHERE = "*"
"""As a place: all that have no list of their own. As a name: every installed tool."""
DIRECT = "dm"
"""The place of direct messages in an allow-list."""
MAX_TOOLS = 128
"""What OpenAI takes in one request; a model chooses badly long before."""
MAX_COMPLAINTS = 3
MAX_COMPLAINT_CHARS = 200
"""Of each: enough to name the field and what it must be; the value may be a whole document."""
UNCHECKABLE = "the schema of this tool cannot be checked, which only its author can mend"

log = logging.getLogger(__name__)


class Toolbox:
    """The tools of a worker.

    Args:
        tools: all that are installed.
        allowed: names by guild id, `dm`, or `*` for the places without a list of their own.

    Raises:
        ConfigError: two tools of one name, a wrong schema, a name that nobody installed.
    """

    def __init__(self, tools: Iterable[Tool], allowed: Mapping[str, Sequence[str]]) -> None:
        self._tools: dict[str, Tool] = {}
        self._validators: dict[str, Draft202012Validator] = {}
        for tool in tools:
            self._add(tool)
        self._allowed = {place: self._expanded(place, allowed[place]) for place in allowed}

    def offered(self, guild_id: int | None) -> tuple[ToolSpec, ...]:
        """What a model may call for this guild, always in the same order (prompt caches)."""
        place = DIRECT if guild_id is None else str(guild_id)
        names = self._allowed.get(place, self._allowed.get(EVERYWHERE, ()))
        return tuple(
            ToolSpec(name=tool.name, description=tool.description, parameters=dict(tool.parameters))
            for tool in (self._tools[name] for name in names)
        )

    def complaint(self, name: str, args: dict[str, object]) -> str | None:
        """What is wrong with the arguments of an installed tool, in words for the model."""
        try:
            errors = sorted(self._validators[name].iter_errors(args), key=_place)
        except (Unresolvable, RecursionError):
            return UNCHECKABLE
        return "; ".join(map(_worded, errors[:MAX_COMPLAINTS])) or None

    async def run(self, name: str, args: dict[str, object], context: ToolContext) -> str:
        """Runs an installed tool.

        Cancelled, it passes the cancellation on to the tool; what the tool did stays done.

        Raises:
            ToolError: it gave no result, whatever it raised.
        """
        try:
            return _as_text(await self._tools[name].run(args, context))
        except ToolError:
            raise
        except Exception as exc:  # foreign code: whatever it raises is the tool's failure
            log.warning("tool.crashed", extra=fields(tool=name, exception=type(exc).__name__))
            log.debug("tool.traceback", exc_info=exc)
            raise ToolError("crashed") from exc

    def _add(self, tool: Tool) -> None:
        if not NAME.fullmatch(tool.name):
            raise ConfigError(f"{tool.name!r} is no name of a tool: letters, digits, _ and -")
        if tool.name in self._tools:
            raise ConfigError(f"two installed tools are called {tool.name!r}: remove one")
        try:
            Draft202012Validator.check_schema(tool.parameters)
        except SchemaError as exc:
            raise ConfigError(f"the tool {tool.name!r} has a wrong schema: {exc.message}") from exc
        self._tools[tool.name] = tool
        # Its own registry: a schema must not make the worker fetch addresses.
        self._validators[tool.name] = Draft202012Validator(tool.parameters, registry=Registry())

    def _expanded(self, place: str, names: Sequence[str]) -> tuple[str, ...]:
        if not (place in {EVERYWHERE, DIRECT} or place.isdecimal()):
            raise ConfigError(f"TURNFLEET_TOOLS: {place!r} is no guild id, nor `dm`, nor `*`")
        chosen = sorted(self._tools if EVERYWHERE in names else set(names))
        for name in chosen:
            if name not in self._tools:
                have = ", ".join(sorted(self._tools))
                raise ConfigError(f"TURNFLEET_TOOLS: no tool is called {name!r}; there are: {have}")
        if len(chosen) > MAX_TOOLS:
            raise ConfigError(f"TURNFLEET_TOOLS: {len(chosen)} tools are over the {MAX_TOOLS}")
        return tuple(chosen)


def installed_tools() -> list[Tool]:
    """The built-in tools, and those that installed packages register.

    Raises:
        ConfigError: a package registers something else, or cannot be imported.
    """
    found = list(BUILTIN_TOOLS)
    for entry in sorted(entry_points(group=ENTRY_POINTS), key=lambda one: one.name):
        try:
            given = entry.load()
        except Exception as exc:  # foreign code: whatever it raises, the operator must know
            raise ConfigError(
                f"the tool {entry.name!r} cannot be imported: {type(exc).__name__}"
            ) from exc
        found.extend(_tools_of(entry.name, given))
    return found


def _tools_of(name: str, given: object) -> list[Tool]:
    several = [given] if isinstance(given, Tool) else given
    if not isinstance(several, Iterable):
        raise ConfigError(f"the entry point {name!r} gives no Tool")
    tools = [tool for tool in several if isinstance(tool, Tool)]
    if not tools:
        raise ConfigError(f"the entry point {name!r} gives no Tool")
    return tools


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _place(error: ValidationError) -> str:
    return str(error.json_path)


def _worded(error: ValidationError) -> str:
    return f"{error.json_path}: {error.message}"[:MAX_COMPLAINT_CHARS]
