"""Files for reports that Redis cannot hold any longer while the database is away.

Comes in: lines. Goes out: NDJSON files, each whole and on the disk before its name is there; later
the same files, oldest first. `errors import` reads them too. Blocking: call it from a thread.
"""

import os
import secrets
import time
from collections.abc import Sequence
from pathlib import Path


class Overflow:
    """A directory of such files.

    Args:
        directory: of this deployment on this machine; made when it is needed.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def keep(self, lines: Sequence[bytes]) -> Path:
        """Writes a file. When this returns the disk has it; when it raises there is none.

        Raises:
            OSError: the disk is full or the directory cannot be written.
        """
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        name = f"{time.time_ns():020d}-{secrets.token_hex(4)}.ndjson"
        partial = self._directory / f"{name}.partial"
        try:
            with partial.open("xb") as file:
                partial.chmod(0o600)
                file.write(b"".join(line + b"\n" for line in lines))
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            partial.unlink(missing_ok=True)
            raise
        path = self._directory / name
        partial.rename(path)
        handle = os.open(self._directory, os.O_RDONLY)
        try:
            os.fsync(handle)  # the name, too
        finally:
            os.close(handle)
        return path

    def files(self) -> list[Path]:
        """What is kept, the oldest first."""
        return sorted(self._directory.glob("*.ndjson")) if self._directory.is_dir() else []
