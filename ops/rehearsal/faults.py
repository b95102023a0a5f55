"""Errors as the vendors word them, read from `data/faults.toml`.

Comes in: the name of a fault, a vendor, and the facts of the request. Goes out: a `Fault`. Bodies
follow the vendors' published error pages: platform.openai.com/docs/guides/error-codes,
docs.anthropic.com/en/api/errors, ai.google.dev/gemini-api/docs/troubleshooting.
"""

from pathlib import Path

import msgspec

from ops.rehearsal.values import Fault
from shared.errors import ConfigError

FAULTS = Path(__file__).parent / "data" / "faults.toml"


class Faults:
    """Every fault by name and vendor (`openai`, `anthropic`, `google`)."""

    def __init__(self, path: Path = FAULTS) -> None:
        try:
            self._by_name = msgspec.toml.decode(path.read_bytes(), type=dict[str, dict[str, Fault]])
        except msgspec.DecodeError as exc:
            raise ConfigError(f"faults {path}: {exc}") from exc

    def names(self) -> list[str]:
        """Every fault's name."""
        return list(self._by_name)

    def worded(self, name: str, vendor: str, **facts: str) -> Fault:
        """A fault in a vendor's words, with `{model}`, `{key}` filled from the request.

        Raises:
            ConfigError: the table has no such fault for the vendor.
        """
        try:
            fault = self._by_name[name][vendor]
        except KeyError as exc:
            raise ConfigError(f"no fault {name!r} for {vendor} in the table of faults") from exc
        message = fault.message
        for word, value in facts.items():
            message = message.replace("{" + word + "}", value)
        return msgspec.structs.replace(fault, message=message)
