"""What a stream says beside its events.

Comes in: facts that a dialect reads. Goes out: `Meta`, on the normalizer as `meta`; the chunk room,
the classifier and the reporter read it. Pure.
"""

import msgspec

from shared.messages import ArgumentState


class Meta(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Side data of one stream. Filled while it streams; whole after the terminal event.

    Args:
        raw_stop_reason: the provider's own finish word.
        native_stop_reason: what OpenRouter's host said before it was translated.
        stop_details: Anthropic's reason of a refusal, Google's `finishMessage`.
        block_reason: Google's `promptFeedback.blockReason`: the prompt was refused, not the answer.
        error_body: the provider's whole error object, which is what `classify` reads.
        usage: counts seen so far, also where the stream failed; names as in `done.usage`.
        skipped: events that were undecodable and skipped.
        unknown: events, blocks and deltas of a kind that we do not know.
        argument_states: by call id, every call whose state is not `ok`.
        reasoning_encrypted: OpenRouter's encrypted reasoning, to be sent back unmodified.
        grounding: Google's grounding and citation metadata, the last that came.
        message_starts: indices of text blocks that begin a further message of the same reply.
        stray: the beginning of a body that was no event stream (a proxy's page, bare JSON).
    """

    response_id: str | None = None
    raw_stop_reason: str | None = None
    native_stop_reason: str | None = None
    serving_provider: str | None = None
    stop_details: object = None
    block_reason: str | None = None
    error_body: object = None
    usage: dict[str, int | float] = msgspec.field(default_factory=dict)
    skipped: int = 0
    unknown: int = 0
    argument_states: dict[str, ArgumentState] = msgspec.field(default_factory=dict)
    reasoning_encrypted: list[object] = msgspec.field(default_factory=list)
    grounding: object = None
    message_starts: list[int] = msgspec.field(default_factory=list)
    stray: str | None = None
