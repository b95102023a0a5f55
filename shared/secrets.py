"""A value that must not be seen. Comes in: a key, token or password. Goes out: only by `reveal()`.

The last line of defence, not the first: a `Secret` that lands in a log call, an f-string, a
traceback of locals, a JSON encoder or a pickle shows nothing, or refuses. Pure; anyone may
import it.
"""

import hmac
from typing import NoReturn

HIDDEN = "[secret]"
"""What `str`, `repr` and `format` of a secret give."""


class Secret:
    """A string that hides itself; `reveal()` is the one way to its value, easy to search for.

    Two secrets are equal if their values are, compared in constant time. A secret is no key of a
    dict and cannot be pickled or copied into a message: only its reference travels.
    """

    __slots__ = ("_value",)
    __hash__ = None  # type: ignore[assignment]  # unhashable on purpose: a dict would keep it alive

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Gives the value, for the one line that sends, opens or redacts it."""
        return self._value

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        mine, theirs = (
            text.encode("utf-8", "surrogatepass") for text in (self._value, other._value)
        )
        return hmac.compare_digest(mine, theirs)

    def __repr__(self) -> str:
        return HIDDEN

    def __str__(self) -> str:
        return HIDDEN

    def __format__(self, spec: str) -> str:
        return format(HIDDEN, spec)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Secret does not travel: send a reference to the credential instead")
