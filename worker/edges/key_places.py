"""The keys that the configuration names by their places: variables and files.

Comes in: a provider's name. Goes out: secrets. `worker.edges.keys` adds them to the pool of the
provider's own variables; only `worker.app` constructs it.

A file is read for every use, so that a key that was replaced in it is used at once.
"""

import logging
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from shared.configuration.loading import Loaded
from shared.logs import fields
from shared.secrets import Secret

MAX_FILE_BYTES: Final = 64 * 1024
"""A thousand keys; a file that is longer is some other file."""

log = logging.getLogger(__name__)


class PlacedKeys:
    """The keys of all providers of the file.

    Args:
        loaded: gives the configuration of this process.
        environ: the process's environment.
    """

    def __init__(self, loaded: Callable[[], Loaded], environ: Mapping[str, str]) -> None:
        self._loaded = loaded
        self._environ = environ
        self._missing: set[str] = set()

    def of(self, provider: str) -> list[Secret]:
        """A provider's keys, each once; a place that has none is logged once."""
        entry = self._loaded().configuration.providers.get(provider)
        texts: dict[str, None] = {}
        for place in () if entry is None else entry.keys:
            found = self._at(place)
            if not found and place not in self._missing:
                self._missing.add(place)
                log.warning("key.not_found", extra=fields(provider=provider, place=place))
            texts |= dict.fromkeys(found)
        return [Secret(text) for text in texts]

    def every(self) -> list[Secret]:
        """All keys that the file names now, for who must not show them; it logs nothing."""
        entries = self._loaded().configuration.providers.values()
        texts = (text for entry in entries for place in entry.keys for text in self._at(place))
        return [Secret(text) for text in dict.fromkeys(texts)]

    def _at(self, place: str) -> list[str]:
        kind, _, name = place.partition(":")
        text = self._environ.get(name, "") if kind == "env" else _text_of(Path(name))
        return [word for word in re.split(r"[,\s]+", text) if word]


def _text_of(path: Path) -> str:
    try:
        with path.expanduser().open("rb") as file:
            return file.read(MAX_FILE_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
