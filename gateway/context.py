"""From a prompt and what holds for it to a turn request.

Comes in: a prompt of a front, `Settled`. Goes out: the place it was written at, the request. Pure;
intake imports it.
"""

from gateway.addressing import route_of, turn_id_of
from gateway.front import Prompt
from shared.configuration.choices import Place, Settled
from shared.messages import Message, Role
from shared.turns import TurnRequest


def place_of(prompt: Prompt) -> Place:
    """Where a prompt was written, and by whom."""
    return Place(
        channel_id=prompt.channel_id,
        user_id=prompt.user_id,
        guild_id=prompt.guild_id,
        parent_id=prompt.parent_id,
        roles=prompt.roles,
    )


def request_of(prompt: Prompt, text: str, settled: Settled, *, now_ms: int) -> TurnRequest:
    """The turn that answers a prompt. A model that the person chose has no fallbacks."""
    return TurnRequest(
        turn_id=turn_id_of(prompt),
        route=route_of(prompt, settled.locale),
        target=prompt.target or settled.target,
        fallbacks=() if prompt.target else settled.fallbacks,
        sampling=settled.sampling,
        system=settled.system,
        messages=[Message(role=Role.USER, content=text)],
        created_ms=now_ms,
        delivery_mode=settled.delivery_mode,
        follow_up=settled.follow_up,
        lane=settled.lane,
        tool_names=settled.tools,
        persona=settled.persona_id,
        keep_thoughts_s=round(settled.details_hours * 3_600) if settled.show_thoughts else 0,
    )
