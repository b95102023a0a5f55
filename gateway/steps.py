"""The values of a turn's delivery: pieces, steps, and what the journal remembers of them.

Comes in: nothing. Goes out: what `gateway.sequencer` decides with, what the journal in
`gateway.edges` keeps, what `gateway.delivery` acts on. Pure; anyone in the gateway may import it.
"""

from base64 import b32encode
from enum import StrEnum
from hashlib import blake2b

import msgspec

from gateway.front import Button, OutgoingFile
from shared.errors import WireError
from shared.turns import Route

NONCE_HASH_BYTES = 15
"""120 bits are 24 characters of base32, and Discord takes 25."""


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """What one message shows.

    Args:
        text: its text.
        files: what is attached.
        buttons: what can be pressed below it.
        table: the source of a table that is still to be drawn into `files`.
        picture: the name of a picture that is still to be fetched into `files`, under `filename`.
        plain: the same without files, where they are not allowed.
        tries: how often the text was put otherwise, because it was refused.
    """

    text: str = ""
    files: tuple[OutgoingFile, ...] = ()
    buttons: tuple[Button, ...] = ()
    table: str | None = None
    picture: str | None = None
    filename: str = ""
    plain: tuple["Piece", ...] = ()
    tries: int = 0


class Slot(msgspec.Struct, frozen=True, kw_only=True):
    """One message of the reply. Without `message_id` it is being sent since `at_ms`.

    `has_stop`: it was sent with the button that stops the turn, or is being sent with it.
    `after_id`: the last message of ours in the channel, of whatever turn, as far as it was known
    then.
    """

    nonce: str
    at_ms: int
    message_id: int | None = None
    has_stop: bool = False
    after_id: int | None = None


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """Where a turn's delivery stands.

    `seq` is the last envelope that was shown whole, `parts` how many texts of the next one were;
    `cursor` is the slot that the next text goes to. `closed`: the terminal event was shown. `past`
    are the editions (attempt and claim) that were left for this one: what comes of them is void.
    Numbers alone would not tell: a server that forgot its last second counts attempts once more.
    `upto` is the last envelope of the run that is being shown, 0 for one alone; `again` are the
    places in it, in order, that were put otherwise. `writes` numbers the patches: no two have the
    same head, so that a copy of one that arrives after a later one is told apart. Journals of
    earlier versions have none.
    """

    attempt: int = 0
    claim: str = ""
    seq: int = 0
    parts: int = 0
    cursor: int = 0
    closed: bool = False
    past: tuple[str, ...] = ()
    upto: int = 0
    again: tuple[int, ...] = ()
    writes: int | msgspec.UnsetType = msgspec.UNSET


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """How a segment is shown, once begun: `upto` and `again` as `Head` has them."""

    upto: int = 0
    again: tuple[int, ...] = ()


class JournalRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The journal of a turn, as it was read."""

    head: Head = msgspec.field(default_factory=Head)
    slots: tuple[Slot, ...] = ()


class TornJournal(WireError):
    """The journal of a turn cannot be read. `head` is what stands there for one."""

    def __init__(self, message: str, head: bytes) -> None:
        super().__init__(message)
        self.head = head


class Patch(msgspec.Struct, frozen=True, kw_only=True):
    """What the journal must change, in one write. `drop` is the number of a slot that is gone.

    `before` is the head that the journal has, unless its server forgot; None puts this in the place
    of whatever is there; with `over`, the bytes of a head that cannot be read, only in its place.
    `armed` are the messages of a reply that ends with this, which still have their button to stop
    it.
    """

    head: Head
    before: Head | None
    over: bytes | None = None
    put: tuple[tuple[int, Slot], ...] = ()
    drop: tuple[int, ...] = ()
    armed: tuple[int, ...] = ()


class Armed(msgspec.Struct, frozen=True, kw_only=True):
    """Messages of a reply that has ended, whose button to stop it is still to be taken away."""

    turn_id: str
    route: Route
    message_ids: tuple[int, ...]


class Written(StrEnum):
    """What became of a patch."""

    DONE = "done"
    FENCED = "fenced"
    """The lease has passed to another gateway."""
    FORGOTTEN = "forgotten"
    """The journal is not as it was left: its server forgot, and wants the whole."""


class Post(msgspec.Struct, frozen=True, kw_only=True):
    """Send a new message. `since_ms` is set when an earlier send of it may have arrived.

    `has_stop`: with the button that stops the turn, which whoever sends it makes.
    """

    slot: int
    nonce: str
    text: str
    files: tuple[OutgoingFile, ...] = ()
    buttons: tuple[Button, ...] = ()
    has_stop: bool = False
    since_ms: int | None = None
    previous_id: int | None = None
    """The message before it in this reply: history after it is where a lost one would be."""
    after_id: int | None = None
    """The same of whatever reply, as `Slot` has it."""


class Rewrite(msgspec.Struct, frozen=True, kw_only=True):
    """Replace what a message shows that a void attempt left, or a preview."""

    slot: int
    message_id: int
    text: str
    files: tuple[OutgoingFile, ...] = ()
    buttons: tuple[Button, ...] = ()
    has_stop: bool = False


class Erase(msgspec.Struct, frozen=True, kw_only=True):
    """Delete a message that a void attempt left over; None: a send that never got its receipt."""

    slot: int
    message_id: int | None


Step = Post | Rewrite | Erase


def nonce_of(turn_id: str, attempt: int, claim: str, seq: int, part: int) -> str:
    """The nonce of one message: the same for every try, another for every other message.

    >>> nonce_of("m1", 1, "0a1b2c3d", 1, 0) == nonce_of("m1", 1, "0a1b2c3d", 1, 0)
    True
    >>> len(nonce_of("m1", 1, "0a1b2c3d", 1, 0))
    24
    """
    name = f"{turn_id}|{attempt}|{claim}|{seq}|{part}".encode()
    return b32encode(blake2b(name, digest_size=NONCE_HASH_BYTES).digest()).decode().lower()
