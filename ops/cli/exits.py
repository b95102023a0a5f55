"""Exit codes: what a script may rely on. `docs/commands.md` has the same table; a test compares.

Comes in: exceptions. Goes out: a code. Every command of `ops.cli` uses these.
"""

from enum import IntEnum
from typing import Final

from shared.errors import ConfigError, StoreError, TurnfleetError, WireError


class Exit(IntEnum):
    """Why a command ended."""

    OK = 0
    """It did what it says."""
    FAILED = 1
    """It ran, and what it was asked for failed: the turn, the check, turnfleet itself."""
    BAD_INPUT = 2
    """An argument or a setting is wrong, or a server does not answer; one line says what to do."""
    FOUND = 3
    """A check ran well and found something that somebody should look at."""
    MISSING = 4
    """There is no such turn, error or other thing."""
    INTERRUPTED = 130
    """Ctrl-C, as shells count it: 128 and the number of SIGINT."""


_CODES: Final[tuple[tuple[type[TurnfleetError], Exit], ...]] = (
    (ConfigError, Exit.BAD_INPUT),
    (StoreError, Exit.BAD_INPUT),
    (WireError, Exit.BAD_INPUT),
)


class NotFound(TurnfleetError):
    """There is no such thing."""


def exit_code(error: BaseException) -> Exit:
    """The code of a command that ended with this exception."""
    if isinstance(error, KeyboardInterrupt):
        return Exit.INTERRUPTED
    if isinstance(error, NotFound):
        return Exit.MISSING
    for kind, code in _CODES:
        if isinstance(error, kind):
            return code
    return Exit.FAILED
