"""What decides where a turn waits and when it is started.

Comes in: requests, outcomes, settings. Goes out: words for `admit.lua` and `finish.lua`. Edges
import it; `shared.edges.queue` re-exports what others need.
"""

from collections.abc import Mapping
from typing import Final, assert_never

from shared.turns import Lanes, TurnOutcome, TurnRequest

MAX_WAIT_MS: Final = 3_600_000
"""The longest that a turn may ask to wait: its record must outlive it by far."""


def lane_of(request: TurnRequest, lanes: Lanes = Lanes.THREAD) -> str:
    """The lane of a turn: one of its turns runs at a time, in order."""
    route = request.route
    match request.lane or lanes:
        case Lanes.CHANNEL:
            return str(route.parent_id or route.channel_id)
        case Lanes.THREAD:
            return str(route.channel_id)
        case Lanes.USER:
            return f"{route.channel_id}:{route.user_id}"
        case _:
            assert_never(lanes)


def tokens_of(outcome: TurnOutcome | None) -> str:
    """What all attempts of a turn have used, '' where nobody counted."""
    if outcome is None:
        return ""
    used = [one.usage for one in outcome.attempts] or [outcome.usage]
    counts = [one.total or (one.input or 0) + (one.output or 0) for one in used]
    return str(sum(counts)) if any(counts) else ""


def provider_key(request: TurnRequest) -> str:
    """What a provider counts against: its name and the credential's reference."""
    return f"{request.target.provider}:{request.credential or request.credential_source}"


def standing_of(
    request: TurnRequest, weights: Mapping[str, float]
) -> tuple[str, str, str, str, int]:
    """A turn's weight, whether it is a replay, its model, whether it is pinned, and its wait.

    Pinned is a turn that cannot fall back to another provider: it waits for a key that rests.
    """
    weight = weights.get(request.fairness_key, weights.get("*", 1.0))
    target = request.target
    is_pinned = all(one.provider == target.provider for one in request.fallbacks)
    return (
        str(weight),
        str(int(request.replay_of is not None)),
        f"{target.provider}/{target.model}",
        str(int(is_pinned)),
        min(max(0, request.wait_ms), MAX_WAIT_MS),
    )
