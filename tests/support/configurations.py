"""A configuration file with everything in it."""

from pathlib import Path

from shared.configuration.reading import read_configuration
from shared.configuration.schema import Configuration

GOOD = (Path(__file__).parents[1] / "data" / "turnfleet.toml").read_text(encoding="utf-8")


def configuration_of(text: str = GOOD) -> Configuration:
    """The configuration of a text that is right."""
    found = read_configuration(text)
    assert isinstance(found, Configuration), str(found)
    return found
