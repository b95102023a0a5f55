"""Runs a recorded or invented stream through a normalizer, in any cutting."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from shared.turns import Api
from worker.normalize.events import Done, StreamEvent, StreamFailed, event_fields
from worker.normalize.meta import Meta
from worker.providers import normalizer_for

AT_PROVIDER = {"openai-chat": Api.OPENAI_CHAT, "openai-responses": Api.OPENAI_RESPONSES}
"""Names of the corpus that name a wire format and not a provider."""


@dataclass(frozen=True)
class Run:
    """What came of one stream."""

    events: list[StreamEvent]
    meta: Meta

    @property
    def end(self) -> Done | StreamFailed:
        """The terminal event."""
        end = self.events[-1]
        assert isinstance(end, Done | StreamFailed)
        return end

    def fields(self) -> list[dict[str, Any]]:
        """The events as the seed writes them."""
        return [event_fields(event) for event in self.events]

    def joined(self, kind: str) -> str:
        """All deltas of a kind (`text_delta`, `thinking_delta`) in order."""
        return "".join(row["delta"] for row in self.fields() if row["type"] == kind)


def run(
    provider: str, chunks: Iterable[bytes], *, model: str = "req-model", tools: Iterable[str] = ()
) -> Run:
    """Feeds `chunks` and flushes."""
    api = AT_PROVIDER.get(provider, Api.AUTO)
    name = "openai" if provider in AT_PROVIDER else provider
    normalizer = normalizer_for(name, model, tools, api)
    events = [event for chunk in chunks for event in normalizer.feed(chunk)]
    events += normalizer.flush()
    return Run(events, normalizer.meta)
