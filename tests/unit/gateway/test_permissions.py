"""Who may read a failure whole: whoever could replace the key that it is about."""

import pytest

from gateway.asks import Caller, Owned
from gateway.interactions.permissions import Act, may
from shared.turns import CredentialSource

ME, OTHER = 1, 2
MANAGE_SERVER = 1 << 5
"""Discord's bit (developer docs, permissions)."""


@pytest.mark.parametrize(
    ("source", "guild", "user", "manages", "allowed"),
    [
        (CredentialSource.SERVER, 7, ME, False, False),
        (CredentialSource.SERVER, 7, OTHER, True, True),
        (CredentialSource.SERVER, None, ME, False, True),
        (CredentialSource.SERVER, None, OTHER, True, False),
        (CredentialSource.PERSONAL, 7, ME, False, True),
        (CredentialSource.PERSONAL, 7, OTHER, True, False),
        (CredentialSource.SUPPORTER, 7, ME, True, False),
    ],
)
def test_who_could_replace_the_key_may_read_the_failure(
    source: CredentialSource, guild: int | None, user: int, manages: bool, allowed: bool
):
    permissions = MANAGE_SERVER if manages else 0
    caller = Caller(user_id=user, channel_id=5, guild_id=guild, permissions=permissions)
    owned = Owned(user_id=ME, channel_id=5, guild_id=guild, source=source)
    assert may(Act.FULL_ERROR, caller, owned) is allowed


def test_another_server_has_no_say():
    caller = Caller(user_id=ME, channel_id=5, guild_id=8, permissions=MANAGE_SERVER)
    owned = Owned(user_id=ME, channel_id=5, guild_id=7, source=CredentialSource.SERVER)
    assert not any(may(act, caller, owned) for act in Act)
