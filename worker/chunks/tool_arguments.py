"""Tool calls for the turn loop, and what the model hears about a call that must not run.

Comes in: the blocks of `done.content`, the normalizer's verdicts, calls found in prose. Goes out:
`FunctionCall`s, and refusals in the model's words. Pure; `worker.chunks.processor` and the turn
loop import it. The strict verdict over argument text is `worker.normalize.partial_json`'s.
"""

import hashlib
from collections.abc import Mapping

from shared.messages import ArgumentState, ToolCallBlock
from worker.chunks.pieces import Called
from worker.chunks.types import FunctionCall

REFUSALS: dict[ArgumentState, str] = {
    ArgumentState.TRUNCATED: (
        "The arguments of this call were cut off on their way from the model, so it was not "
        "executed and nothing was changed. Send the call again with complete arguments."
    ),
    ArgumentState.INVALID: (
        "The arguments of this call are not valid JSON, so it was not executed and nothing was "
        "changed. Send the call again with one JSON object as arguments."
    ),
    ArgumentState.NOT_OBJECT: (
        "The arguments of this call are JSON, but not an object, so it was not executed and "
        "nothing was changed. Send the call again with one JSON object as arguments."
    ),
}
"""By state: what went wrong, that nothing was run, what to do. Models that are told less assume
success, or repeat the same cut call."""


def refusal(call: FunctionCall) -> str | None:
    """The tool result that stands for a call that must not run; None where it may."""
    return REFUSALS.get(call.state)


def call_of_block(block: ToolCallBlock, states: Mapping[str, ArgumentState]) -> FunctionCall:
    """The call of a finished block. A flag without a verdict counts as cut."""
    state = states.get(block.id, ArgumentState.OK)
    if state is ArgumentState.OK and block.arguments_truncated:
        state = ArgumentState.TRUNCATED
    args = block.arguments
    if not isinstance(args, dict):
        args, state = {}, ArgumentState.NOT_OBJECT
    return FunctionCall(
        id=block.id,
        name=block.name,
        args=args,
        state=state,
        thought_signature=block.thought_signature,
    )


def call_of_prose(
    called: Called, number: int, response_id: str | None, *, has_hole: bool = False
) -> FunctionCall:
    """The call that stood in the prose, under an id that a replay makes again.

    In a prose that lost an event (`has_hole`) it may be the call that lost something.
    """
    state = called.state
    if has_hole and state is ArgumentState.OK:
        state = ArgumentState.TRUNCATED
    seed = f"{response_id or ''}|prose|{number}".encode("utf-8", "replace")
    digest = hashlib.blake2s(seed, digest_size=6).hexdigest()
    return FunctionCall(id=f"call_{digest}", name=called.name, args=called.args, state=state)
