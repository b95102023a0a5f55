"""Secrets from files, as containers mount them, instead of from the environment.

Comes in: a process's environment. Goes out: the same, with what files hold: those of the directory
`TURNFLEET_SECRETS_DIR`, each named as its variable, and one under `X` wherever `X_FILE` names it.
Settings are read through it, and composition roots read their keys through it.

An environment ends up in crash dumps and in `/proc`, a mounted file does not. An empty file counts
as none, so that a deployment may have a place for each secret.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from shared.errors import ConfigError
from shared.secret_settings import HOLDERS

DIRECTORY: Final = "TURNFLEET_SECRETS_DIR"
SUFFIX: Final = "_FILE"
SECRET_ENDS: Final = ("_API_KEY", "_API_KEYS")
"""How the variables of provider keys end."""
SECRET_SETTINGS: Final = frozenset(
    f"TURNFLEET_{name.upper()}" for name in (*HOLDERS, "sealing_key")
)
"""Settings that hold a secret, or may; and the public key that is made and mounted with them."""
MAX_BYTES: Final = 64 * 1024


def with_files(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment, with every secret that a file holds. What is set as well, wins.

    An empty variable sets nothing, and names neither a file nor a directory.

    Raises:
        ConfigError: a file or the directory cannot be read.
    """
    found: dict[str, str] = {}
    given: dict[str, str] = {}
    for name, text in environ.items():
        wanted = name.removesuffix(SUFFIX)
        if name == DIRECTORY:
            found |= _of_directory(Path(text)) if text else {}
        elif wanted != name and _is_secret(wanted):
            found |= {wanted: _content(name, Path(text))} if text else {}
        elif text or not _is_secret(name):
            given[name] = text
    return {name: text for name, text in found.items() if text} | given


def _of_directory(directory: Path) -> dict[str, str]:
    try:
        paths = sorted(path for path in directory.iterdir() if _is_secret(path.name))
    except OSError as exc:
        raise ConfigError(f"{DIRECTORY}={directory} cannot be read: {exc.strerror}") from None
    return {path.name: _content(str(path), path) for path in paths}


def _is_secret(name: str) -> bool:
    return name in SECRET_SETTINGS or name.endswith(SECRET_ENDS)


def _content(name: str, path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES).decode().strip()
    except (OSError, UnicodeDecodeError) as exc:
        why = exc.strerror if isinstance(exc, OSError) else "it is no text"
        raise ConfigError(f"{name}={path} cannot be read: {why}") from None
