"""What all partitions of a gateway share.

Comes in: nothing. Goes out: a value of ports. `gateway.app` makes it, delivery reads it.
"""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from gateway.delivery.channels import BlockedChannels
from gateway.delivery.courier import Courier
from gateway.delivery.ports import Clock, Fleet, Reporter, TablePainter
from gateway.notices import Notices
from gateway.ports import Signs
from shared.turns import Front

MAX_MESSAGES: Final = 20
"""Messages of one turn; what is beyond goes into a file. Nobody reads more in a channel."""


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """What all partitions of a gateway share. `new_report_id` and `clock` are the outside world.

    `shows_stop`: whether a running reply has a button to stop it.
    """

    couriers: Mapping[Front, Courier]
    reporter: Reporter
    fleet: Fleet
    typing: Signs
    notices: Notices
    clock: Clock
    new_report_id: Callable[[], str]
    painter: TablePainter
    channels: BlockedChannels
    max_messages: int = MAX_MESSAGES
    shows_stop: bool = True
