"""docs/limits.md from the source itself: each number with its reason, where it stands.

Comes in: constants and fields of the four packages. Goes out: the page.
`python -m tests.support.limits_page` writes it; a test compares.
"""

import ast
import importlib
import itertools
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TypeGuard

import msgspec

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "limits.md"
PACKAGES = {
    "shared": "What all processes agree on",
    "gateway": "Gateway",
    "worker": "Worker",
    "ops": "Operators' side",
}
LEFT_OUT = ("ops/rehearsal/", "ops/store/migrations/", "shared/config.py")
"""What plays other people's services has their numbers, not ours; settings have a page."""
NO_LIMITS = {
    "a code, so that another number means something else, not more": (
        "ANSWERED",
        "CLOUDFLARE_CODE",
        "INVALID_FORM",
        "LEAVE_CODE",
        "NO_PERMISSION",
        "REFUSED",
    ),
    "bits": ("DIRECTORY_MODE", "INTENTS", "SEND_IN_THREADS"),
    "where something is found": ("CONSOLE_PORT", "DISCORD_EPOCH_MS", "LOCK", "PORT"),
    "which one of several, in order": (
        "FIRST_FOLLOWER",
        "GROUP_VERSION",
        "MIN_SQLITE",
        "MIN_VERSION",
        "WIRE_VERSION",
    ),
    "what something is counted in": ("DICE", "NANOS", "SECONDS"),
}
"""Constants with a reason that bound, time and pace nothing, by what they are instead. Zero
and what is below need no place here: zero bounds nothing, and a negative number is a mark."""
HEAD = """# Limits

Every number in the source that bounds, times or paces something and has its reason beside it:
public constants of modules, and the defaults of public fields, as `Class.field`. Made by
`python -m tests.support.limits_page`, and compared with the source by a test. Codes, ports, bits
and versions are no limits; a number without a reason beside it explains itself where it stands.
What a deployment may want otherwise is a setting, in [settings.md](settings.md).
"""
Number = int | float


class Limit(msgspec.Struct, frozen=True, kw_only=True):
    """One number, or some in a row, with its name and why that one."""

    name: str
    value: Number | tuple[Number, ...]
    reason: str


def limits_of(path: Path) -> Iterator[Limit]:
    """The public numbers of a module that bound something and have a reason beside them."""
    left_out = {name for names in NO_LIMITS.values() for name in names}
    yield from (limit for limit in numbers_of(path) if limit.name not in left_out)


def numbers_of(path: Path) -> Iterator[Limit]:
    """The public numbers of a module above zero that have a reason beside them."""
    body = ast.parse(path.read_text(encoding="utf-8")).body
    found = [*_constants(body), *_fields(body)]
    if not found:
        return
    relative = path.relative_to(ROOT).with_suffix("")
    module = importlib.import_module(".".join(relative.parts).removesuffix(".__init__"))
    for _, name, reason in sorted(found):
        value = _value(module, name)
        if _is_amount(value):
            yield Limit(name=name, value=value, reason=reason)


def _constants(body: list[ast.stmt]) -> Iterator[tuple[int, str, str]]:
    """(line, name, reason) of each constant."""
    for node, after in itertools.pairwise(body):
        match node:
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
                reason = _text_of(after)
                if reason and name.isupper() and not name.startswith("_"):
                    yield node.lineno, name, reason


def _fields(body: list[ast.stmt]) -> Iterator[tuple[int, str, str]]:
    """(line, `Class.field`, reason) of each field; what has no annotation is a word of an enum."""
    for owner in body:
        if not isinstance(owner, ast.ClassDef) or owner.name.startswith("_"):
            continue
        for node, after in itertools.pairwise(owner.body):
            match node:
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr()):
                    reason = _text_of(after)
                    if reason and not name.startswith("_"):
                        yield node.lineno, f"{owner.name}.{name}", reason


def _value(module: ModuleType, name: str) -> object:
    """A constant, or the default of a field."""
    owner, _, field = name.rpartition(".")
    holder = getattr(module, owner) if owner else module
    if isinstance(holder, type) and issubclass(holder, msgspec.Struct):
        return {each.name: each.default for each in msgspec.structs.fields(holder)}[field]
    return getattr(holder, field, None)


def _is_amount(value: object) -> TypeGuard[Number | tuple[Number, ...]]:
    numbers = value if isinstance(value, tuple) else (value,)
    are_numbers = all(isinstance(n, Number) and not isinstance(n, bool) for n in numbers)
    return are_numbers and any(n > 0 for n in numbers)


def _text_of(node: ast.stmt) -> str | None:
    match node:
        case ast.Expr(value=ast.Constant(value=str(text))):
            return " ".join(text.split())
        case _:
            return None


def shown(limit: Limit) -> str:
    """The number with its unit, as the name says it."""
    name = "_" + limit.name.rpartition(".")[2].upper()
    rate = next((suffix for suffix in _RATES if name.endswith(suffix)), "")
    name = name.removesuffix(rate)
    unit = next((word for suffix, word in _UNITS.items() if name.endswith(suffix)), "")
    numbers = limit.value if isinstance(limit.value, tuple) else (limit.value,)
    return ", ".join(_amount(number, unit) for number in numbers) + _RATES.get(rate, "")


_RATES = {"_PER_S": " a second", "_PER_MINUTE": " a minute"}
_UNITS = {"_BYTES": "bytes", "_MS": "ms", "_S": "s", "_CHARS": "characters", "_PERCENT": "%"}


def _amount(value: Number, unit: str) -> str:
    if unit == "bytes" and value % 1024 == 0:
        size, step = value / 1024, "KiB"
        if size % 1024 == 0:
            size, step = size / 1024, "MiB"
        return f"{size:g} {step}"
    if unit == "ms" and value >= 1_000:
        return _time(value / 1_000)
    if unit == "s":
        return _time(value)
    whole = int(value) if value == int(value) else value
    return f"{whole:,} {unit}".strip()


def _time(seconds: float) -> str:
    for size, word in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g} {word}"
    return f"{seconds:g} s"


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    for package, title in PACKAGES.items():
        parts.append(f"\n## {title}\n\n| limit | value | why |\n|---|---|---|\n")
        for path in sorted((ROOT / package).rglob("*.py")):
            where = path.relative_to(ROOT).as_posix()
            if where.startswith(LEFT_OUT):
                continue
            parts += [
                f"| [`{limit.name}`](../{where}) | {shown(limit)} | {cell(limit.reason)} |\n"
                for limit in limits_of(path)
            ]
    return "".join(parts)


def cell(text: str) -> str:
    """A text as it stands in a table; what is code shows a `<` as it is."""
    parts = text.replace("|", "\\|").split("`")
    parts[::2] = [part.replace("<", "&lt;") for part in parts[::2]]
    return "`".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
