"""How a running worker follows its configuration.

Comes in: a changed configuration. Goes out: addresses and guard that hold from the next request on,
depths from the next admission on. Only `worker.app` imports it.
"""

from collections.abc import Iterator, Mapping

from shared.configuration.loading import Loaded
from shared.edges.live_configuration import LiveConfiguration
from shared.edges.queue import TurnQueue
from worker.edges.guard import guard_of
from worker.edges.http import HttpEdge


class LiveEndpoints(Mapping[str, str]):
    """The base URLs by provider, as they stand now."""

    def __init__(self, live: LiveConfiguration) -> None:
        self._live = live

    def __getitem__(self, provider: str) -> str:
        return self._live.current.settings.endpoints[provider]

    def __iter__(self) -> Iterator[str]:
        return iter(self._live.current.settings.endpoints)

    def __len__(self) -> int:
        return len(self._live.current.settings.endpoints)


def follow(live: LiveConfiguration, http: HttpEdge, queue: TurnQueue) -> None:
    """Lets client and queue hear of every change; the file was checked, its addresses are good."""

    def changed(loaded: Loaded) -> None:
        settings = loaded.settings
        http.follow(guard_of(settings.private_endpoints, settings.endpoints))
        queue.follow(settings)

    live.on_change(changed)
