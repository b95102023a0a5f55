"""What the console looks at and acts through, and who may do what.

Comes in: open connections, from the command that runs the console. Goes out: one value that every
page gets. Only `ops.console` and the command use it.
"""

from collections.abc import Callable

import msgspec
from starlette.requests import Request

from ops.replay.turns import Replays
from ops.store.engine import Database
from shared.edges.backlog import Backlog
from shared.edges.local_channel import LocalChannel
from shared.edges.queue import TurnQueue
from shared.edges.records import TurnRecords


class Desk(msgspec.Struct, frozen=True, kw_only=True):
    """The fleet and the database. `writable` is None where the console only shows."""

    cell: str
    records: TurnRecords
    queue: TurnQueue
    channel: LocalChannel
    database: Database
    replays: Replays
    backlog: Backlog
    now_ms: Callable[[], int]
    writable: Database | None = None
    sentry_url: str | None = None

    @property
    def may_write(self) -> bool:
        """Whether the console may do more than show."""
        return self.writable is not None


def desk_of(request: Request) -> Desk:
    """The desk of the console that serves this request."""
    desk: Desk = request.app.state.desk
    return desk
