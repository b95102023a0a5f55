"""What a model thought before its reply, as it is kept for the button "Show thoughts".

Comes in: nothing. Goes out: a value that a worker writes into Redis and a gateway reads. It names
its turn's person and place, for the turn's own record is gone after minutes: who may look, and what
goes when somebody is forgotten, is known without it. Pure; anyone may import it.
"""

import msgspec

from shared.private import told_by_size
from shared.turns import CredentialSource


class KeptThoughts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The thoughts of one turn, and whose it was."""

    __repr__ = told_by_size

    text: str
    user_id: int
    channel_id: int
    guild_id: int | None = None
    source: CredentialSource = CredentialSource.SERVER
