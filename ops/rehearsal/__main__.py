"""`python -m ops.rehearsal`: serves the rehearsal provider until it is told to stop.

Comes in: command line. Goes out: one line on stdout with the URL, the same in `--ready-file`, and
exit code 2 with one clear line where it cannot start.
"""

import argparse
import sys
from pathlib import Path

import uvloop

from ops.rehearsal.scenarios import SCENARIOS
from ops.rehearsal.server import configured, open_socket, serve
from shared.errors import ConfigError


def main(argv: list[str] | None = None) -> int:
    """Parses the command line and serves."""
    parser = argparse.ArgumentParser(prog="python -m ops.rehearsal", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free port")
    parser.add_argument("--ready-file", type=Path, help="file that gets the URL once it listens")
    parser.add_argument("--scenarios", type=Path, default=SCENARIOS, help="folder of *.toml")
    options = parser.parse_args(argv)
    try:
        _, config = configured(options.scenarios)
        listener, url = open_socket(options.host, options.port)
    except (ConfigError, OSError) as exc:
        sys.stderr.write(f"the rehearsal provider cannot start: {exc}\n")
        return 2
    sys.stdout.write(url + "\n")
    sys.stdout.flush()
    if options.ready_file is not None:
        _write_whole(options.ready_file, url + "\n")
    uvloop.run(serve(listener, config))
    return 0


def _write_whole(path: Path, text: str) -> None:
    """Writes so that a reader sees the whole text or no file."""
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)


if __name__ == "__main__":
    sys.exit(main())
