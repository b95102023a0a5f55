"""A recorded stream through the worker's normalizer: what anyone needs to report a provider bug.

Comes in: the bytes of a stream, as saved from anywhere. Goes out: its canonical events and side
data. The worker's own pure room decides, so that this cannot differ from what a turn does.
"""

from collections.abc import Iterable

import msgspec

from shared.turns import Api
from worker.normalize.events import StreamEvent, event_fields
from worker.normalize.storable import scrub
from worker.providers import normalizer_for


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """What one stream says. `meta` holds ids, the raw finish word, usage, the provider's error."""

    file: str
    events: list[dict[str, object]]
    meta: dict[str, object]


def read_stream(
    file: str,
    body: bytes,
    *,
    provider: str,
    model: str = "",
    tools: Iterable[str] = (),
    api: Api = Api.AUTO,
    cut: int | None = None,
) -> Reading:
    """Feeds a stream whole, or in pieces of `cut` bytes: the events must be the same."""
    normalizer = normalizer_for(provider, model, tools, api)
    events: list[StreamEvent] = []
    size = cut or max(len(body), 1)
    for at in range(0, len(body), size):
        events += normalizer.feed(body[at : at + size])
    events += normalizer.flush()
    meta = scrub(msgspec.to_builtins(normalizer.meta))
    assert isinstance(meta, dict)  # noqa: S101  # a Struct becomes one; this tells the type checker
    return Reading(file=file, events=[event_fields(event) for event in events], meta=meta)
