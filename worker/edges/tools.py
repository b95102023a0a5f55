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
"""What OpenAI takes in one request; a model chooses badly long before. Further ones, by name, are
not offered."""
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
        coming: beginnings of names of tools that may be put in later.

    Raises:
        ConfigError: two tools of one name, a wrong schema, a name that nobody installed.
    """

    def __init__(
        self,
        tools: Iterable[Tool],
        allowed: Mapping[str, Sequence[str]],
        coming: tuple[str, ...] = (),
    ) -> None:
        self._tools: dict[str, Tool] = {}
        self._validators: dict[str, Draft202012Validator] = {}
        self._brought: dict[str, list[str]] = {}
        for tool in tools:
            self._add(tool)
        self._allowed = {place: frozenset(names) for place, names in allowed.items()}
        for place, names in self._allowed.items():
            self._check(place, names, coming)

    def put(self, source: str, tools: Iterable[Tool]) -> None:
        """Replaces the tools of a source that comes and goes. Unusable ones are left out."""
        self.drop(source)
        brought = self._brought[source] = []
        for tool in tools:
            try:
                self._add(tool)
            except ConfigError as exc:
                log.warning("tool.unusable", extra=fields(source=source, reason=str(exc)))
            else:
                brought.append(tool.name)

    def drop(self, source: str) -> bool:
        """Takes the tools of a source out. Returns whether it was there."""
        names = self._brought.pop(source, None)
        for name in names or ():
            del self._tools[name], self._validators[name]
        return names is not None

    def offered(self, guild_id: int | None) -> tuple[ToolSpec, ...]:
        """What a model may call for this guild, always in the same order (prompt caches)."""
        place = DIRECT if guild_id is None else str(guild_id)
        names = self._allowed.get(place, self._allowed.get(EVERYWHERE, frozenset()))
        chosen = [name for name in sorted(self._tools) if name in names or EVERYWHERE in names]
        return tuple(
            ToolSpec(
                name=name,
                description=self._tools[name].description,
                parameters=dict(self._tools[name].parameters),
            )
            for name in chosen[:MAX_TOOLS]
        )

    def complaint(self, name: str, args: dict[str, object]) -> str | None:
        """What is wrong with the arguments of an offered tool, in words for the model.

        A tool that has gone meanwhile has no complaint; `run` says that it is gone.
        """
        validator = self._validators.get(name)
        if validator is None:
            return None
        try:
            errors = sorted(validator.iter_errors(args), key=_place)
        except (Unresolvable, RecursionError):
            return UNCHECKABLE
        return "; ".join(map(_worded, errors[:MAX_COMPLAINTS])) or None

    def is_repeatable(self, name: str) -> bool:
        """Whether an offered tool may run twice without harm; one that has gone does not run."""
        tool = self._tools.get(name)
        return tool is None or tool.repeatable

    async def run(self, name: str, args: dict[str, object], context: ToolContext) -> str:
        """Runs an offered tool.

        Cancelled, it passes the cancellation on to the tool; what the tool did stays done.

        Raises:
            ToolError: it gave no result, whatever it raised.
        """
        tool = self._tools.get(name)
        if tool is None:
            raise ToolError("unreachable")
        try:
            return _as_text(await tool.run(args, context))
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

    def _check(self, place: str, names: frozenset[str], coming: tuple[str, ...]) -> None:
        if not (place in {EVERYWHERE, DIRECT} or place.isdecimal()):
            raise ConfigError(f"TURNFLEET_TOOLS: {place!r} is no guild id, nor `dm`, nor `*`")
        for name in sorted(names - {EVERYWHERE} - self._tools.keys()):
            if not name.startswith(coming):
                have = ", ".join(sorted(self._tools))
                raise ConfigError(f"TURNFLEET_TOOLS: no tool is called {name!r}; there are: {have}")


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
