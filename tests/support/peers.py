"""Programs of others that our tests speak to, each in an environment of its own.

Comes in: the cache directory of this machine. Goes out: commands that run the program. The first
use downloads it (some 800 MB of Python packages for litellm); later ones find it there.
"""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import platformdirs
import pytest

LITELLM = "litellm[proxy]==1.108.7"
EVERYTHING = "@modelcontextprotocol/server-everything@2026.8.31"
"""Pinned: what docs/peers.md tells of was seen with these."""


def cache() -> Path:
    return Path(platformdirs.user_cache_dir("turnfleet")) / "peers"


def litellm() -> Path:
    """The folder of litellm's programs."""
    home = cache() / "litellm"
    _once(home, LITELLM, _install_litellm)
    return home / "bin"


def everything() -> list[str]:
    """The command of the MCP reference server, without its transport."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("the MCP reference server needs node and npm")
    home = cache() / "everything"
    _once(home, EVERYTHING, lambda: _run(npm, "install", "--prefix", str(home), EVERYTHING))
    package = home / "node_modules" / EVERYTHING.rpartition("@")[0]
    return [node, str(package / "dist" / "index.js")]


def _install_litellm() -> None:
    home = cache() / "litellm"
    _run(sys.executable, "-m", "venv", str(home))
    _run(str(home / "bin" / "pip"), "install", "--quiet", LITELLM)


def _once(home: Path, name: str, install: Callable[[], None]) -> None:
    """Installs, unless this very version was installed whole before."""
    mark = home / "installed.txt"
    if mark.exists() and mark.read_text() == name:
        return
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    install()
    mark.write_text(name)


def _run(*words: str) -> None:
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
