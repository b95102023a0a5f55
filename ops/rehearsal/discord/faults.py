"""What shall go wrong, request by request.

Comes in: faults, from a test or a rehearsal. Goes out: the fault that a request meets. Pure.
"""

from enum import StrEnum

import msgspec


class Stage(StrEnum):
    """When a fault strikes: before anything is done, or when only the answer is missing."""

    BEFORE = "before"
    AFTER = "after"


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that goes wrong.

    With `drop` the connection is cut; with a `status` that is answered; with neither the answer is
    only late. `retry_after_s` makes a 429 of the scope `scope`; `is_html` is Cloudflare speaking.
    """

    method: str = "POST"
    path: str = "/messages"
    """A part of the path: a fault for messages must not strike a typing sign."""
    channel_id: int | None = None
    stage: Stage = Stage.BEFORE
    status: int = 0
    code: int = 0
    drop: bool = False
    delay_s: float = 0.0
    retry_after_s: float | None = None
    scope: str = "user"
    is_html: bool = False


class FaultPlan:
    """Faults in order; each strikes once."""

    def __init__(self) -> None:
        self._faults: list[Fault] = []

    def add(self, fault: Fault, *, times: int = 1) -> None:
        """Adds a fault for the next matching requests."""
        self._faults.extend([fault] * times)

    def clear(self) -> None:
        """Forgets all faults."""
        self._faults.clear()

    def take(self, method: str, path: str, channel_id: int | None) -> Fault | None:
        """The first fault that meets this request; it is used up."""
        for index, fault in enumerate(self._faults):
            is_meant = fault.method == method and fault.path in path
            if is_meant and fault.channel_id in (None, channel_id):
                return self._faults.pop(index)
        return None
