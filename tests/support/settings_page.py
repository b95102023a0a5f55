"""docs/settings.md from `Settings` itself: each variable, its default, who reads it, and why.

Comes in: `shared/config.py`, and the source of the processes. Goes out: the page.
`python -m tests.support.settings_page` writes it; a test compares.
"""

import ast
import itertools
import re
from enum import Enum
from pathlib import Path

import msgspec

from shared.config import PREFIX, Settings
from shared.configuration.checks import ELSEWHERE
from shared.secret_files import SECRET_SETTINGS
from shared.secret_settings import SECRETS
from tests.support.limits_page import cell

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "settings.md"
PROCESSES = {
    "gateway": "gateway",
    "worker": "worker",
    "recorder": "ops/cli/recorder.py",
    "console": "ops/cli/console.py",
    "commands": "ops",
}
"""Whose source is whose; `commands` has what is left of `ops`."""
EVERYBODY = tuple(PROCESSES)
ADMITS = ("gateway", "console", "commands")
"""Who puts turns into the queue; all but the gateway by replays."""
THROUGH_SHARED: dict[str, tuple[str, ...]] = {
    "config": EVERYBODY,
    "redis_url": EVERYBODY,
    "database_url": ("console",),
    "data_dir": EVERYBODY,
    "cell": EVERYBODY,
    "partitions": EVERYBODY,
    "model": ("gateway",),
    "opening_keys_file": ("worker",),
    "delivery_mode": ("gateway",),
    "follow_up": ("gateway",),
    "slots": ADMITS,
    "lane": ADMITS,
    "fair_by": ("worker",),
    "guild_weights": ADMITS,
    "guild_depth": ADMITS,
    "global_depth": ADMITS,
    "turn_deadline_s": ADMITS,
    "at_rest_key": ("console",),
    "log_level": EVERYBODY,
    "log_max_string_chars": EVERYBODY,
}
"""Who reads what `shared`, or the commands' session, reads for them: no search finds it."""
SAME = {
    "redis_url": "the same server; the account in it may be each process's own",
    "cell": "another name is another deployment",
    "partitions": "what is put into a stream that no gateway leads is not delivered",
    "database_url": "what the recorder writes is what console and commands show",
    "sealing_key": "it belongs to one of the keys that workers open with",
    "at_rest_key": "what one process has sealed another must open",
}
"""What must be the same wherever it is read, and why."""
ALIKE = {
    "slots": "a guild may run a quarter of them, of those that its asker was given",
    "turn_deadline_s": "who admits a turn says how long it waits, who claims it how long it runs",
    "lane": "turns of one channel are in order if all agree on what a lane is",
    "fair_by": "a guild's charges are added up",
    "crash_policy": "any worker may be the one that notices a death",
    "discord_requests_per_s": "gateways share one budget",
}
"""What need not be, but holds for a process's own part only, and why that is of no use."""
HERE = {"data_dir": "the system's place for a person's data"}
"""Defaults that depend on the machine."""
HEAD = """# Settings

What a process reads from its environment: `Settings` of `shared/config.py` as a table, made by
`python -m tests.support.settings_page`, and compared with it by a test. A variable with the prefix
`TURNFLEET_` that is not here is refused by name. `turnfleet config show` says which value holds and
where it comes from. Names without the prefix, in lower case, are other settings.

- **In the file**: any may stand in `[deployment]` of `turnfleet.toml`
  ([configuration.md](configuration.md)), by its name in lower case without the prefix, but for
  secrets ({secrets}, and
  addresses with a password in them) and what has another place there
  ({elsewhere}). The environment wins.
- **In files of their own**: those marked *file* may be given as `TURNFLEET_..._FILE=path`, or as a
  file of the variable's name in the directory `TURNFLEET_SECRETS_DIR`; so may the keys of providers
  (`OPENAI_API_KEY` and others), which are no settings ([security.md](security.md)).
- **Read by**: *commands* are those of `turnfleet` that are no process of their own, and
  `turnfleet up`, whose processes have its environment.
- **Written as**: a JSON object where the default is `{{}}`, else plain text; `true` and `false`. An
  empty variable sets nothing.

These must be the same wherever they are read:

{same}

These should be; a difference breaks nothing, but each process then goes by its own:

{alike}

| variable | default | read by | what it is, and why |
|---|---|---|---|
"""


def page() -> str:
    """The whole page."""
    head = HEAD.format(
        secrets=", ".join(f"`{name}`" for name in sorted(SECRETS)),
        elsewhere=", ".join(f"`{name}`" for name in sorted(ELSEWHERE)),
        same="\n".join(f"- `{variable(name)}`: {why}" for name, why in SAME.items()),
        alike="\n".join(f"- `{variable(name)}`: {why}" for name, why in ALIKE.items()),
    )
    reasons = reasons_of_settings()
    rows = [
        f"| `{variable(field.name)}`{_mark(field.name)} | {shown_default(field)} "
        f"| {_readers(field.name)} | {cell(_for_readers(reasons[field.name]))} |\n"
        for field in msgspec.structs.fields(Settings)
    ]
    return head + "".join(rows)


def variable(name: str) -> str:
    """The environment's name of a setting."""
    return f"{PREFIX}{name.upper()}"


def reasons_of_settings() -> dict[str, str]:
    """The text beside each field."""
    tree = ast.parse((ROOT / "shared" / "config.py").read_text(encoding="utf-8"))
    owner = next(n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "Settings")
    found = {}
    for node, after in itertools.pairwise(owner.body):
        match node, after:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                found[name] = " ".join(text.split())
    return found


def readers(name: str) -> set[str]:
    """The processes that read a setting: by their source, or through `shared`."""
    return in_source(name) | set(THROUGH_SHARED.get(name, ()))


def in_source(name: str) -> set[str]:
    """The processes whose own source reads it."""
    reads = re.compile(rf"\bsettings(?:_now\(\))?\.{name}\b")
    return {process for process, texts in _SOURCES.items() if reads.search(texts)}


def _sources() -> dict[str, str]:
    texts, taken = {}, set[Path]()
    for process, place in PROCESSES.items():
        path = ROOT / place
        own = ({path} if path.is_file() else set(path.rglob("*.py"))) - taken
        taken |= own
        texts[process] = "".join(one.read_text(encoding="utf-8") for one in sorted(own))
    return texts


_SOURCES = _sources()


def shown_default(field: msgspec.structs.FieldInfo) -> str:
    """A default as one would write it; what has none is unset."""
    if field.name in HERE:
        return HERE[field.name]
    value = field.default
    if value is msgspec.NODEFAULT:
        return f"`{msgspec.json.encode(field.default_factory()).decode()}`"
    if value is None or value == "":
        return "unset"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, float):
        return f"`{value:g}`"
    return f"`{value.value if isinstance(value, Enum) else value}`"


def _readers(name: str) -> str:
    found = readers(name)
    return "all" if found == set(PROCESSES) else ", ".join(p for p in PROCESSES if p in found)


def _mark(name: str) -> str:
    return " *file*" if variable(name) in SECRET_SETTINGS else ""


def _for_readers(reason: str) -> str:
    """None is a word of Python: a variable is unset. Pages are linked."""
    reason = re.sub(r"(^|[.:] )None\b", r"\1Unset", reason)
    reason = re.sub(r"\bNone\b", "unset", reason)
    return re.sub(r"docs/(\w+\.md)", r"[\1](\1)", reason)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
