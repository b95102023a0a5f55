"""Who may do what in Redis: the users of a fleet's roles, as an ACL file.

Comes in: the key names of a cell and a password for each role. Goes out: lines for `aclfile`.
`turnfleet redis acl` prints them. The keys come from `shared.keys`: a new one is known here without
a line, with what `DEFAULT` says; only what is private or evidence is written down, in `RULES`.

Scripts run with their user's rights: what a role must not write it cannot write in Lua either.
"""

import hashlib
import inspect
from collections.abc import Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from shared.keys import ARQ_JOB, Keys
from shared.secrets import Secret

ARQ: Final = ARQ_JOB.partition(":")[0] + ":"


class Role(StrEnum):
    """A kind of process, or of person, with an account of its own in Redis."""

    GATEWAY = "gateway"
    WORKER = "worker"
    RECORDER = "recorder"
    CONSOLE = "console"
    """The console without `--write`: it reads."""
    OPERATOR = "operator"
    """The command line, and the console with `--write`."""


class May(StrEnum):
    """What a role may do with a key."""

    NOTHING = ""
    READ = "%R~"
    WRITE = "%W~"
    """Without reading it."""
    CHANGE = "~"
    """Read and write."""
    APPEND = "+"
    """Add to a stream, and neither read it nor take anything out of it."""


DEFAULT: Final[Mapping[Role, May]] = MappingProxyType(
    {
        Role.GATEWAY: May.CHANGE,
        Role.WORKER: May.CHANGE,
        Role.RECORDER: May.NOTHING,
        Role.CONSOLE: May.READ,
        Role.OPERATOR: May.CHANGE,
    }
)
"""Keys of the queue, which the scripts of gateway and worker move turns through."""

_GATEWAYS_OWN: Final = MappingProxyType({Role.WORKER: May.NOTHING})
_PEOPLES_TALK: Final = MappingProxyType({Role.WORKER: May.NOTHING})
_EVERYBODYS: Final = MappingProxyType({Role.RECORDER: May.CHANGE})
_THE_MIRRORS: Final = MappingProxyType(
    {Role.GATEWAY: May.NOTHING, Role.WORKER: May.NOTHING, Role.RECORDER: May.CHANGE}
)

RULES: Final[Mapping[str, Mapping[Role, May]]] = MappingProxyType(
    {
        # The recorder mirrors what is kept nowhere else; boxes stay closed to it.
        "credentials": {Role.WORKER: May.READ, Role.RECORDER: May.READ},
        "choices": {Role.WORKER: May.READ, Role.RECORDER: May.READ},
        "mirrored": _THE_MIRRORS,
        "mirror_version": _THE_MIRRORS,
        "pauses": {Role.RECORDER: May.READ},
        "credential_audit": {
            Role.GATEWAY: May.WRITE,
            Role.WORKER: May.NOTHING,
            Role.CONSOLE: May.NOTHING,
            Role.RECORDER: May.READ,
        },
        "credential_pauses": {Role.WORKER: May.NOTHING, Role.RECORDER: May.READ},
        # Whose key a guild may use is the operator's word, not the gateway's.
        "credential_loans": {
            Role.GATEWAY: May.READ,
            Role.WORKER: May.NOTHING,
            Role.RECORDER: May.READ,
        },
        "errors": {
            Role.GATEWAY: May.APPEND,
            Role.WORKER: May.APPEND,
            Role.RECORDER: May.CHANGE,
        },
        "buried": {
            Role.GATEWAY: May.APPEND,
            Role.WORKER: May.NOTHING,
            Role.RECORDER: May.APPEND,
        },
        # Segments go in by a worker's scripts; only gateways take them out.
        "out": {Role.WORKER: May.APPEND},
        # Whoever ends a turn drops the recordings of the oldest one; only operators look into them.
        "recording": {Role.GATEWAY: May.WRITE, Role.WORKER: May.WRITE, Role.CONSOLE: May.NOTHING},
        "fault": {Role.WORKER: May.WRITE},
        "thoughts": {Role.WORKER: May.WRITE, Role.CONSOLE: May.NOTHING},
        "continuation": {Role.WORKER: May.WRITE, Role.CONSOLE: May.NOTHING},
        "picture": {Role.WORKER: May.WRITE, Role.CONSOLE: May.NOTHING},
        "rounds": {Role.CONSOLE: May.NOTHING},
        "asked_about": {Role.WORKER: May.NOTHING, Role.CONSOLE: May.NOTHING},
        "recent_turns": _GATEWAYS_OWN,
        "alerts": {Role.WORKER: May.APPEND, Role.RECORDER: May.APPEND},
        "alert_mark": _EVERYBODYS,
        "forget_due": {Role.WORKER: May.NOTHING, Role.RECORDER: May.READ},
        "forget_rows": {Role.WORKER: May.NOTHING, Role.RECORDER: May.CHANGE},
        "forgotten": {Role.WORKER: May.NOTHING, Role.RECORDER: May.READ},
        "heartbeat": _EVERYBODYS,
        "processes": _EVERYBODYS,
        "journal": _GATEWAYS_OWN,
        "armed": _GATEWAYS_OWN,
        "forgot": _GATEWAYS_OWN,
        "leader": _GATEWAYS_OWN,
        "last_leader": _GATEWAYS_OWN,
        "memory": _GATEWAYS_OWN,
        "front": _GATEWAYS_OWN,
        "places": _GATEWAYS_OWN,
        "local_messages": _PEOPLES_TALK,
        "local_changes": _PEOPLES_TALK,
        "local_nonce": _PEOPLES_TALK,
        "local_typing": _PEOPLES_TALK,
        "local_prompts": _PEOPLES_TALK,
        "local_clock": _PEOPLES_TALK,
    }
)
"""Keys that are private, or that others must not be able to change, by their name in `Keys`."""

_CONNECTING: Final = ("+@connection", "+@transaction", "-@dangerous", "+info", "+dbsize", "+time")
"""A connection's own life, and what a start asks the server. Nothing dangerous, `INFO` aside."""
_READING: Final = ("+@read", "-@dangerous", "+info")
_CHANGING: Final = (
    *("+@string", "+@hash", "+@list", "+@set", "+@sortedset", "+@stream"),
    *("+del", "+unlink", "+exists", "+type", "+expire", "+pexpire", "+ttl", "+pttl"),
    *("+eval", "+evalsha", "-@dangerous", "+info"),
)
"""Every command on the values we use. Key rules decide which values; nothing renames, copies,
sorts, flushes, or loads code that stays."""
COMMANDS: Final[Mapping[Role, tuple[str, ...]]] = MappingProxyType(
    {
        Role.GATEWAY: (*_CONNECTING, *_CHANGING, "+scan"),  # to forget somebody
        Role.WORKER: (*_CONNECTING, *_CHANGING),
        Role.RECORDER: (*_CONNECTING, *_CHANGING, "+memory|usage"),
        Role.CONSOLE: (*_CONNECTING, *_READING),
        Role.OPERATOR: (
            *(*_CONNECTING, *_CHANGING, "+@read", "-@dangerous", "+info"),
            *("+acl|load", "+acl|log", "+acl|whoami"),  # a changed file, and who was refused
        ),
    }
)


def patterns_of(keys: Keys) -> dict[str, str]:
    """Every key of the cell by its name in `Keys`, with `*` for what varies."""
    found = {name: _pattern(keys, name) for name in dir(Keys) if not name.startswith("_")}
    named = {name: text for name, text in found.items() if text.startswith(("tf:", "tfsec:"))}
    # One pattern for all that arq keeps of a job: `arq:in-progress:` and `arq:retry:` are its own.
    return {**named, "job": f"{ARQ}*"}


def _pattern(keys: Keys, name: str) -> str:
    """What `Keys` says under a name; nothing where that is no key."""
    member = getattr(keys, name)
    if name in _NO_KEYS or not callable(member):
        return "" if name in _NO_KEYS else str(member)
    return str(member(*["*"] * len(inspect.signature(member).parameters)))


_NO_KEYS: Final = frozenset({"cell", "prefix", "partitions", "partition_of", "out_of"})
"""What `Keys` has beside the names of keys."""


def rights_of(role: Role, keys: Keys) -> dict[str, May]:
    """What a role may do with each key pattern of the cell."""
    return {
        pattern: RULES.get(name, {}).get(role, DEFAULT[role])
        for name, pattern in patterns_of(keys).items()
    }


def user_line(role: Role, keys: Keys, digests: Sequence[str]) -> str:
    """A role's line of the ACL file; digests stand in for the passwords that are good."""
    rights = rights_of(role, keys)
    patterns = [f"{may}{name}" for name, may in sorted(rights.items()) if may in _PATTERNS]
    appended = [f"~{name}" for name, may in sorted(rights.items()) if may is May.APPEND]
    # A script names its keys together: the mark that an alert was raised, and the alerts.
    beside = [f"~{keys.alert_mark('*')}"] if rights[keys.alert_mark("*")] is May.CHANGE else []
    appends = [f"(+xadd +xlen +eval +evalsha {' '.join([*appended, *beside])})"] if appended else []
    passwords = [f"#{digest}" for digest in digests]
    words = ["user", role, "on", *passwords, "resetkeys", "resetchannels", "-@all"]
    return " ".join([*words, *patterns, *COMMANDS[role], *appends])


_PATTERNS: Final = frozenset({May.READ, May.WRITE, May.CHANGE})


def acl_file(keys: Keys, digests: Mapping[Role, Sequence[str]]) -> str:
    """The whole file. Whoever comes without a name may ask whether the server lives, no more."""
    lines = ["user default on nopass resetkeys resetchannels -@all +ping"]
    lines += [user_line(role, keys, digests[role]) for role in Role]
    return "".join(f"{line}\n" for line in lines)


def digest_of(password: Secret) -> str:
    """A password as the ACL file has it."""
    return hashlib.sha256(password.reveal().encode()).hexdigest()


def digests_in(text: str, role: Role) -> list[str]:
    """The passwords that an ACL file has for a role."""
    for line in text.splitlines():
        words = line.split(" ")
        if words[:2] == ["user", role]:
            return [word.removeprefix("#") for word in words if word.startswith("#")]
    return []
