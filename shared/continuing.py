"""A reply that was cut off at its length, and the turn that goes on with it.

Comes in: the turn, and what its reply had said. Goes out: the request of the next one, whose model
reads all of that as its own words. Pure; the worker, the gateway and ops import it.

The instruction is a message of its own, since an answer that begins in the middle of a message is
refused by some vendors and begun anew by others.
"""

import msgspec

from shared.errors import WireError
from shared.messages import Message, Role
from shared.private import told_by_size
from shared.turns import FollowUp, Target, TurnRequest, next_generation
from shared.wire import UNREADABLE

GO_ON = (
    "Your answer was cut off at its length limit. Go on exactly where it stops: repeat nothing of "
    "it, and say nothing about the interruption. If it stops inside a code block, open the block "
    "again first."
)


class Continuation(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of a reply that was cut off.

    Args:
        request: of its turn.
        target: who answered.
        rounds: the answers of completed tool rounds, and the tools' results.
        said: what the last answer said.
    """

    __repr__ = told_by_size

    request: TurnRequest
    target: Target
    said: str
    rounds: list[Message] = msgspec.field(default_factory=list)


_encode = msgspec.json.Encoder().encode
_decoder = msgspec.json.Decoder(Continuation)


def dump(kept: Continuation) -> bytes:
    """What is kept, as bytes."""
    return _encode(kept)


def load(payload: bytes) -> Continuation:
    """What was kept. Raises `WireError` where nobody here can read it."""
    try:
        return _decoder.decode(payload)
    except UNREADABLE as exc:
        raise WireError(f"not what is kept of a reply: {exc}") from exc


def continued(kept: Continuation, *, created_ms: int) -> TurnRequest:
    """The turn that goes on: its id follows from the old one's, so that there is but one."""
    old, target = kept.request, kept.target
    said = Message(
        role=Role.ASSISTANT, content=kept.said, provider=target.provider, model=target.model
    )
    return msgspec.structs.replace(
        old,
        turn_id=next_generation(old.turn_id),
        target=target,
        fallbacks=tuple(one for one in old.fallbacks if one != target),
        messages=[*old.messages, *kept.rounds, said, Message(role=Role.USER, content=GO_ON)],
        created_ms=created_ms,
        continue_of=old.turn_id,
        replay_of=None,
        merged=(),
        follow_up=FollowUp.QUEUE,
        wait_ms=0,
    )
