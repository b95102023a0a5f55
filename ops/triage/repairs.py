"""What mends a cause: a sentence for the operator, and commands to paste.

Comes in: a cause's word and what its failures have in common. Goes out: steps, the likeliest first.
`errors show` and the console show the same. Pure.
"""

import shlex
from typing import Final

import msgspec

from shared.causes import CAUSES, Cause, Family
from shared.harmless import plain


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """Something to do. `command` is '' where it is done elsewhere, at the provider say."""

    what: str
    command: str = ""


class Common(msgspec.Struct, frozen=True, kw_only=True):
    """What the failures of a cause have in common, None where they differ or have none."""

    group_hash: str
    provider: str | None = None
    model: str | None = None
    key_id: str | None = None
    guild_id: int | None = None


_REPLAY: Final = ("then give the failed turns their replies", "turnfleet turns replay {cause}")
_ANOTHER: Final = (
    "give the failed turns their replies from another model",
    "turnfleet turns replay {cause} --with model=OTHER",
)
_KEYS: Final = ("see whose key it is", "turnfleet creds list")
_WAIT: Final = ("see whether it ends by itself", "turnfleet errors rate --since 1h --by provider")
_HOLD: Final = (
    "start nothing of that provider while it lasts: its turns wait instead of failing",
    "turnfleet fleet pause provider={provider} --for 4m",  # longer than they may wait ends them
)
_LOOK: Final = ("read what was said", "turnfleet errors list --cause {hash}")

STEPS: Final[dict[Family, tuple[tuple[str, str], ...]]] = {
    Family.AUTH: (
        _KEYS,
        (
            "put a working key in its place: a guild's or a person's so, the deployment's own in "
            "the environment of the workers",
            "turnfleet creds add {provider} --owner {guild}",
        ),
        _REPLAY,
    ),
    Family.BILLING: (
        _KEYS,
        ("top the account up at the provider, or put another key in its place", ""),
        _REPLAY,
    ),
    Family.ACCESS: (
        ("choose a model that this key and region may use, or another key", ""),
        _ANOTHER,
    ),
    Family.ENDPOINT: (
        ("check that the address answers", "turnfleet doctor"),
        _REPLAY,
    ),
    Family.MODEL: (
        ("the model's name is wrong or it was retired: set another one", "turnfleet doctor"),
        _ANOTHER,
    ),
    Family.CONTEXT: (("nothing is broken: a longer context needs another model", ""), _ANOTHER),
    Family.REQUEST: (
        _LOOK,
        (
            "run the recorded answer through this version",
            "turnfleet turns replay {turn} --recorded",
        ),
        _ANOTHER,
    ),
    Family.GENERATION: (_WAIT, _REPLAY),
    Family.RATE: (
        _WAIT,
        _HOLD,
        ("add a key to the pool, or a fallback model", ""),
        _REPLAY,
    ),
    Family.CONTENT: (
        ("the same model would refuse the same prompt again: ask another one", ""),
        _ANOTHER,
    ),
    Family.TIMEOUT: (_WAIT, _HOLD, _REPLAY),
    Family.OVERLOAD: (_WAIT, _HOLD, _REPLAY),
    Family.UPSTREAM: (
        _WAIT,
        ("see the bytes that came", "turnfleet turns replay {turn} --recorded --diff"),
        _REPLAY,
    ),
    Family.INTERNAL: (
        _LOOK,
        ("take everything about one of them for a bug report", "turnfleet turns export {turn}"),
        _REPLAY,
    ),
}
"""By what an operator can do: what to do, and with which command."""
OTHERWISE: Final = (_LOOK, ("check the settings and the servers", "turnfleet doctor"))
"""For a stage of our own, or a cause of another version."""


def steps_for(error_type: str, common: Common, turn_id: str | None = None) -> list[Step]:
    """The steps that mend a cause.

    Args:
        error_type: the cause's word.
        common: fills the commands; what is not known stays a word in capitals.
        turn_id: one of its failed turns, for commands about a single one.
    """
    try:
        rows = STEPS[CAUSES[Cause(error_type)].family]
    except ValueError:
        rows = OTHERWISE
    guild = "GUILD" if common.guild_id is None else str(common.guild_id)
    words = {
        # The group, where it is known: of two keys that are refused only one was replaced.
        "cause": f"--cause {quoted(common.group_hash[:12] or error_type)} --dry-run",
        "hash": quoted(common.group_hash[:12]),
        "provider": quoted(common.provider or "PROVIDER"),
        "guild": guild,
    }
    turn = quoted(turn_id or "TURN")
    return [Step(what=what, command=command.format(turn=turn, **words)) for what, command in rows]


def quoted(fact: str) -> str:
    """A fact as one word of a command: who pastes it runs nothing that somebody wrote into it."""
    return shlex.quote(plain(fact))


def log_command(name: str, value: str) -> str:
    """The command that shows the lines of a log in which a field has this value."""
    wanted = msgspec.json.encode(value).decode()
    return f"jq -c {quoted(f'select(.{name} == {wanted})')} LOG"
