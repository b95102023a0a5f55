"""docs/limits.md from the constants themselves: each number with its reason, where it stands.

Comes in: the source of the four packages. Goes out: the page. `python -m tests.support.limits_page`
writes it; a test compares.
"""

import ast
import importlib
import itertools
from collections.abc import Iterator
from pathlib import Path

import msgspec

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "limits.md"
PACKAGES = {
    "shared": "What all processes agree on",
    "gateway": "Gateway",
    "worker": "Worker",
    "ops": "Operators' side",
}
LEFT_OUT = ("ops/rehearsal/", "ops/store/migrations/")
"""What plays other people's services has their numbers, not ours."""
HEAD = """# Limits

Every number that bounds, times or paces something, with its reason: made from the constants in the
source by `python -m tests.support.limits_page`, and compared with them by a test. Those that a
deployment may want otherwise are settings, in [configuration.md](configuration.md).
"""


class Limit(msgspec.Struct, frozen=True, kw_only=True):
    """One constant: its name, its number, and why that one."""

    name: str
    value: int | float
    reason: str


def limits_of(path: Path) -> Iterator[Limit]:
    """The public numbers of a module that have a reason beside them."""
    body = ast.parse(path.read_text(encoding="utf-8")).body
    module = None
    for node, after in itertools.pairwise(body):
        name, reason = _name_of(node), _text_of(after)
        if name is None or reason is None:
            continue
        if module is None:
            relative = path.relative_to(ROOT).with_suffix("")
            module = importlib.import_module(".".join(relative.parts).removesuffix(".__init__"))
        value = getattr(module, name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            yield Limit(name=name, value=value, reason=reason)


def _name_of(node: ast.stmt) -> str | None:
    match node:
        case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
            return name if name.isupper() and not name.startswith("_") else None
        case _:
            return None


def _text_of(node: ast.stmt) -> str | None:
    match node:
        case ast.Expr(value=ast.Constant(value=str(text))):
            return " ".join(text.split())
        case _:
            return None


def shown(limit: Limit) -> str:
    """The number with its unit, as the name says it."""
    name, value = limit.name, limit.value
    unit = next((word for suffix, word in _UNITS.items() if name.endswith(suffix)), "")
    if unit == "bytes" and value % 1024 == 0:
        size, step = value / 1024, "KiB"
        if size % 1024 == 0:
            size, step = size / 1024, "MiB"
        return f"{size:g} {step}"
    if unit == "ms" and value >= 1_000:
        return _time(value / 1_000)
    if unit == "s":
        return _time(value)
    return f"{value:,} {unit}".strip()


_UNITS = {"_BYTES": "bytes", "_MS": "ms", "_S": "s", "_CHARS": "characters"}


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
                f"| [`{limit.name}`](../{where}) | {shown(limit)} | {_cell(limit.reason)} |\n"
                for limit in limits_of(path)
            ]
    return "".join(parts)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
