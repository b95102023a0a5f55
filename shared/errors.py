"""The exception tree. Comes in: facts. Goes out: one class per situation that a caller can act on.

    TurnfleetError
    ├── ConfigError            the operator's settings are wrong; exit code 2
    │   └── SettingError       one setting has a value that it cannot have (says which, what to do)
    ├── StoreError             Redis or the database refused or is away
    │   ├── StoreUnavailable   nobody answers at the address
    │   ├── StoreUnsafe        it answers, but would lose accepted work (eviction, no AOF)
    │   ├── StoreFull          it answers, but has no memory for new work
    │   └── StoreRejected      the database is well, but refuses this data
    ├── WireError              bytes that are not a message of ours
    │   ├── WireVersionError   a message of another version
    │   └── RequestTooLarge    a request over the limit
    ├── FleetError             a move that the state of a turn does not allow
    │   └── Fenced             the attempt was taken over; stop and stay silent
    ├── EndpointError          the provider's endpoint could not be used (says how)
    ├── CredentialError        a sealed credential cannot be used (says why)
    └── ToolError              a tool gave no result (says why, in one word)

The docstring of a class is its default message. Expected outcomes are values, not exceptions.
Anyone may import this module.
"""


class TurnfleetError(Exception):
    """turnfleet failed."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or "").split("\n")[0])


class ConfigError(TurnfleetError):
    """A setting is wrong. The message names it and says what to do."""


class SettingError(ConfigError):
    """A setting has a value that it cannot have.

    Args:
        name: the setting's, as a field of `Settings`.
        what: what is wrong with it.
        deed: what to do.
        shown: the value; empty for one that may not be shown, or that says nothing.
    """

    def __init__(self, name: str, what: str, deed: str, *, shown: str = "") -> None:
        value = f"={shown}" if shown else ""
        super().__init__(f"TURNFLEET_{name.upper()}{value}: {what}; {deed}")
        self.name = name
        self.what = what
        self.deed = deed


class StoreError(TurnfleetError):
    """Redis or the database refused."""


class StoreUnavailable(StoreError):
    """Nobody answers at the configured address."""


class StoreUnsafe(StoreError):
    """The server answers, but its configuration would lose accepted work."""


class StoreFull(StoreError):
    """The server has no memory for new work."""


class StoreRejected(StoreError):
    """The database refuses this data: a number too large, a value that a rule forbids."""


class WireError(TurnfleetError):
    """The bytes are no message of turnfleet's."""


class WireVersionError(WireError):
    """The message was written by another version of turnfleet."""


class RequestTooLarge(WireError):
    """The turn request is over 256 KiB. Send less history, or images as addresses."""


class FleetError(TurnfleetError):
    """The state of the turn does not allow this."""


class Fenced(FleetError):
    """This attempt is no longer the one that may write."""


class EndpointError(TurnfleetError):
    """The provider's endpoint could not be used.

    Args:
        exception: the class name of the transport's exception. Its text is left behind: it holds
            addresses, and with them perhaps a key.
    """

    def __init__(self, exception: str) -> None:
        super().__init__(f"the provider's endpoint could not be used: {exception}")
        self.exception = exception


class CredentialError(TurnfleetError):
    """The sealed credential cannot be used."""


class ToolError(TurnfleetError):
    """A tool gave no result.

    Args:
        cause: one fixed word such as `timeout`, which the model is told. Never a message: what a
            tool writes when it fails may hold what nobody in the channel should see.
        status: of the server behind the tool, where there was one.
    """

    def __init__(self, cause: str, status: int | None = None) -> None:
        super().__init__(f"a tool gave no result: {cause}")
        self.cause = cause
        self.status = status
