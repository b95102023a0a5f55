"""The configuration of a process: its environment and the file that it names.

Comes in: environment variables. Goes out: `Loaded`: settings, configuration, where they come from.
The environment wins. Every process begins here; `shared.edges.live_configuration` comes again when
the file changes.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from shared.config import Settings, named_settings, settings_from
from shared.configuration.reading import Wrong, read_configuration
from shared.configuration.schema import Configuration
from shared.configuration.settling import Basis
from shared.errors import ConfigError
from shared.turns import Target

FILE_NAME: Final = "turnfleet.toml"
_FORCING: Final = frozenset({"provider", "model"})


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """What a process runs with.

    Args:
        settings: the deployment's, environment over file over defaults.
        configuration: the file, or an empty one.
        path: the file; None where there is none.
        digest: of the file's text, 12 digits; empty where there is none.
        text: of the file; it has no secrets.
        from_environment: settings that the environment sets.
    """

    settings: Settings
    configuration: Configuration = msgspec.field(default_factory=Configuration)
    path: Path | None = None
    digest: str = ""
    text: str = ""
    from_environment: frozenset[str] = frozenset()

    @property
    def basis(self) -> Basis:
        """What answers where nobody chose anything."""
        settings = self.settings
        return Basis(
            target=Target(provider=settings.provider, model=settings.model),
            delivery_mode=settings.delivery_mode,
            follow_up=settings.follow_up,
            is_target_forced=bool(_FORCING & self.from_environment),
        )


def load(environ: Mapping[str, str]) -> Loaded:
    """Reads environment and file.

    Raises:
        ConfigError: one of them is wrong; of a file every problem is named, a line each.
    """
    named = named_settings(environ)
    path = config_path(named)
    if path is None:
        return Loaded(
            settings=settings_from(named),
            from_environment=frozenset(named),
        )
    text = read_text(path)
    configuration = read_configuration(text, str(path))
    if isinstance(configuration, Wrong):
        raise ConfigError(str(configuration))
    return Loaded(
        settings=settings_from(_joined(configuration, named)),
        configuration=configuration,
        path=path,
        digest=digest_of(text),
        text=text,
        from_environment=frozenset(named),
    )


def config_path(named: Mapping[str, object]) -> Path | None:
    """The file that these settings of the environment mean; None where there is none.

    Raises:
        ConfigError: the environment names a file that does not exist.
    """
    wanted = named.get("config")
    if isinstance(wanted, str):
        path = Path(wanted).expanduser()
        if not path.is_file():
            raise ConfigError(
                f"TURNFLEET_CONFIG={wanted}: there is no such file; "
                "write one (docs/configuration.md), or leave the variable out"
            )
        return path
    data_dir = settings_from({key: named[key] for key in ("data_dir",) if key in named}).data_dir
    for directory in (Path(), Path(data_dir).expanduser()):
        if (found := directory / FILE_NAME).is_file():
            return found.absolute()
    return None


def read_text(path: Path) -> str:
    """The text of a file. Raises `ConfigError`."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise ConfigError(f"{path} is no UTF-8 at byte {exc.start}; save it as UTF-8") from exc
    except OSError as exc:
        raise ConfigError(
            f"cannot read {path}: {exc.strerror}; check the path and its mode"
        ) from exc


def digest_of(text: str) -> str:
    """The name of a file's state in records."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _joined(configuration: Configuration, named: Mapping[str, object]) -> dict[str, object]:
    """The values of settings: the file's, those of the environment over them."""
    values = dict(configuration.deployment)
    limits = configuration.limits
    for name in ("guild_depth", "global_depth"):
        if (bound := getattr(limits, name)) is not None:
            values[name] = bound
    own = {name: one.base_url for name, one in configuration.providers.items() if one.base_url}
    endpoints = named.get("endpoints")
    values |= named
    values["endpoints"] = own | (dict(endpoints) if isinstance(endpoints, Mapping) else {})
    return values
