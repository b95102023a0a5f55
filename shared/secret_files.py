"""Secrets from files, as containers mount them, instead of from the environment.

Comes in: a process's environment. Goes out: the same with the content of a file under `X` wherever
`X_FILE` named one. Composition roots call it before they read settings or keys.

An environment ends up in crash dumps and in `/proc`, a mounted file does not.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from shared.errors import ConfigError

SUFFIX: Final = "_FILE"
SECRET_ENDS: Final = ("_API_KEY", "_API_KEYS")
"""How the variables of provider keys end."""
SECRET_SETTINGS: Final = frozenset(
    f"TURNFLEET_{name}"
    for name in (
        *("REDIS_URL", "DATABASE_URL", "DISCORD_TOKEN", "CONSOLE_TOKEN", "SENTRY_DSN"),
        "ENDPOINTS",
    )
)
"""Settings that hold a secret, or may."""
MAX_BYTES: Final = 64 * 1024


def with_files(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment, with every secret that a file holds.

    Raises:
        ConfigError: a file that cannot be read, or is empty.
    """
    found = {}
    for name, text in environ.items():
        wanted = name.removesuffix(SUFFIX)
        if wanted == name or not _is_secret(wanted):
            found[name] = text
        elif wanted not in environ:  # else it is given for this one process, and wins
            found[wanted] = _content(name, Path(text))
    return found


def _is_secret(name: str) -> bool:
    return name in SECRET_SETTINGS or name.endswith(SECRET_ENDS)


def _content(name: str, path: Path) -> str:
    try:
        with path.open("rb") as file:
            text = file.read(MAX_BYTES).decode().strip()
    except (OSError, UnicodeDecodeError) as exc:
        why = exc.strerror if isinstance(exc, OSError) else "it is no text"
        raise ConfigError(f"{name}={path} cannot be read: {why}") from None
    if not text:
        raise ConfigError(f"{name}={path} is empty")
    return text
