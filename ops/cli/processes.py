"""`turnfleet gateway` and `turnfleet worker`: start the fleet's processes in place of this one.

Comes in: the settings, in the environment. Goes out: `python -m gateway` or `python -m worker`,
executed, not imported: operators' code and theirs never share a process.
"""

import os
import sys
from importlib.util import find_spec

from ops.cli.session import redis_url, settings_now
from shared.errors import ConfigError


def become(package: str) -> None:
    """Replaces this process by `python -m package`, with the address of the fleet's server.

    Raises:
        ConfigError: a setting is wrong, no server is known, or this build lacks the package.
    """
    settings = settings_now()
    if find_spec(f"{package}.__main__") is None:
        raise ConfigError(f"this build has no {package}")
    environment = dict(os.environ)
    if settings.redis_url is None:  # else the process reads it itself: a password stays in its file
        environment["TURNFLEET_REDIS_URL"] = redis_url(settings)
    sys.stdout.flush()
    os.execve(sys.executable, [sys.executable, "-m", package], environment)  # noqa: S606 - no shell is meant
