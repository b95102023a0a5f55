"""Who may do what: one table, asked by every button and command.

Comes in: an act, who asks, and whose turn with whose key it is about. Goes out: yes or no. Pure.
"""

from enum import StrEnum
from types import MappingProxyType
from typing import Final

from gateway.asks import Caller, Owned
from shared.turns import CredentialSource


class Act(StrEnum):
    """What may be done with a turn."""

    STOP = "stop"
    RETRY = "retry"
    CONTINUE = "continue"
    FULL_ERROR = "error"
    THOUGHTS = "thoughts"


class Role(StrEnum):
    """What somebody is to a turn."""

    ASKER = "asker"
    """Whose prompt it is; in direct messages that is everybody there."""
    MODERATOR = "moderator"
    """Keeps order in the channel, but set up nothing."""
    MANAGER = "manager"
    """Could replace the server's key."""
    OTHER = "other"


_ASKER = frozenset({Role.ASKER})
_KEEPERS = frozenset({Role.ASKER, Role.MODERATOR, Role.MANAGER})
_MANAGERS = frozenset({Role.ASKER, Role.MANAGER})
_ALL = frozenset(Role)
_SERVER, _PERSONAL, _SUPPORTER = (
    CredentialSource.SERVER,
    CredentialSource.PERSONAL,
    CredentialSource.SUPPORTER,
)

TABLE: Final = MappingProxyType(
    {
        # Stopping costs nobody anything, and a channel must be kept in order.
        (Act.STOP, _SERVER): _KEEPERS,
        (Act.STOP, _PERSONAL): _KEEPERS,
        (Act.STOP, _SUPPORTER): _KEEPERS,
        # Another request is paid by whose key it is: nobody else spends a personal one.
        (Act.RETRY, _SERVER): _MANAGERS,
        (Act.RETRY, _PERSONAL): _ASKER,
        (Act.RETRY, _SUPPORTER): _MANAGERS,
        (Act.CONTINUE, _SERVER): _MANAGERS,
        (Act.CONTINUE, _PERSONAL): _ASKER,
        (Act.CONTINUE, _SUPPORTER): _MANAGERS,
        # Only who could replace the failing key sees what the provider said. In a server that is
        # not the person who asked; a supporter's key is the billing's, and nobody's here.
        (Act.FULL_ERROR, _SERVER): frozenset({Role.MANAGER}),
        (Act.FULL_ERROR, _PERSONAL): _ASKER,
        (Act.FULL_ERROR, _SUPPORTER): frozenset[Role](),
        # Whoever reads the reply may read how it came about, where the server allows that.
        (Act.THOUGHTS, _SERVER): _ALL,
        (Act.THOUGHTS, _PERSONAL): _ALL,
        (Act.THOUGHTS, _SUPPORTER): _ALL,
    }
)


def roles_of(caller: Caller, owned: Owned) -> frozenset[Role]:
    """What somebody is to a turn; nothing at all outside of its channel's server."""
    if caller.guild_id != owned.guild_id:
        return frozenset()
    roles = {Role.OTHER}
    if caller.user_id == owned.user_id:
        roles.add(Role.ASKER)
        if caller.guild_id is None:  # as in a server of their own (docs/decisions/0016)
            roles.add(Role.MANAGER)
    if caller.guild_id is not None and caller.moderates:
        roles.add(Role.MODERATOR)
    if caller.guild_id is not None and caller.manages_server:
        roles.add(Role.MANAGER)
    return frozenset(roles)


def may(act: Act, caller: Caller, owned: Owned) -> bool:
    """Whether somebody may do this with a turn."""
    return bool(roles_of(caller, owned) & TABLE[act, owned.source])
