"""A file that keeps what Redis cannot take now.

Comes in: lines, from a reporter whose server is away. Goes out: the same lines, oldest first, when
it is back, or at the start of the next process that uses the directory. Blocking; the reporter
calls it from a thread.
"""

import contextlib
import fcntl
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

SPOOL: Final = "spool"
"""The directory of all spools within a deployment's `data_dir`."""
RING_BYTES: Final = 64 * 1024 * 1024
"""What one process keeps at most: about 25,000 reports, hours of an outage."""
PART_BYTES: Final = 4 * 1024 * 1024
"""A file of the ring; the oldest one is what a full ring loses at once."""


class Spool:
    """A bounded ring of NDJSON files of one process, each line on disk when `append` returns.

    A process owns its files by a lock that the kernel releases when it dies, whatever killed it.
    Files without an owner belong to whoever asks first.

    Args:
        directory: shared by the processes of a deployment on this machine.
        name: unique among living processes, such as `worker-1-4711`.
        ring_bytes: when exceeded, the oldest file is dropped and its lines counted.
        part_bytes: size of one file.
    """

    def __init__(
        self,
        directory: Path,
        name: str,
        *,
        ring_bytes: int = RING_BYTES,
        part_bytes: int = PART_BYTES,
    ) -> None:
        self._directory = directory
        self._name = name
        self._ring_bytes = ring_bytes
        self._part_bytes = part_bytes
        self._mutex = threading.Lock()
        self._owned: IO[bytes] | None = None
        self._part: IO[bytes] | None = None
        self._part_number = 0
        self.dropped = 0
        """Lines lost to a full ring."""

    def append(self, line: bytes) -> None:
        """Adds one line and waits until the disk has it.

        Raises:
            OSError: the disk is full or the directory cannot be written.
        """
        with self._mutex:
            part = self._open_part()
            try:
                part.write(line + b"\n")
                part.flush()
                os.fsync(part.fileno())
            except OSError:
                self._abandon(part)
                raise
            if part.tell() >= self._part_bytes:
                self._close_part()
            self._keep_within_ring()

    def take(self) -> list[Path]:
        """The closed files to send: this process's and those of dead ones, each oldest first.

        `discard` each when its lines are safe. Lines that are added meanwhile go to a new file.
        """
        with self._mutex:
            self._close_part()
            if not self._directory.is_dir():
                return []
            names = {path.name.rsplit(".", 2)[0] for path in self._directory.glob("*.ndjson")}
            orphans = [name for name in names if name == self._name or self._is_orphan(name)]
            return [path for name in sorted(orphans) for path in self._parts(name)]

    def discard(self, path: Path) -> None:
        """Removes a file whose lines are safe elsewhere."""
        path.unlink(missing_ok=True)

    def close(self) -> None:
        """Gives the files up; the next process that takes from the directory sends them."""
        with self._mutex:
            self._close_part()
            if self._owned is not None:
                self._lock_path(self._name).unlink(missing_ok=True)
                self._owned.close()
                self._owned = None

    def _open_part(self) -> IO[bytes]:
        if self._part is None:
            self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._own()
            self._part_number += 1
            path = self._directory / f"{self._name}.{self._part_number:06d}.ndjson"
            self._part = path.open("ab")
            path.chmod(0o600)
        return self._part

    def _own(self) -> None:
        if self._owned is None:
            owned = self._lock_path(self._name).open("ab")
            fcntl.flock(owned, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._owned = owned

    def _close_part(self) -> None:
        if self._part is not None:
            self._part.close()
            self._part = None

    def _abandon(self, part: IO[bytes]) -> None:
        # The next line goes to a new file: half a line at the end of this one is then no line.
        self._part = None
        with contextlib.suppress(OSError):
            part.close()

    def _keep_within_ring(self) -> None:
        parts = self._parts(self._name)
        sizes = [path.stat().st_size for path in parts]
        while sum(sizes) > self._ring_bytes and len(parts) > 1:
            self.dropped += sum(1 for _ in lines_of(parts[0]))
            parts.pop(0).unlink(missing_ok=True)
            sizes.pop(0)

    def _parts(self, name: str) -> list[Path]:
        return sorted(self._directory.glob(f"{name}.*.ndjson"))

    def _lock_path(self, name: str) -> Path:
        return self._directory / f"{name}.lock"

    def _is_orphan(self, name: str) -> bool:
        path = self._lock_path(name)
        try:
            with path.open("rb") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink(missing_ok=True)
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True


def lines_of(path: Path) -> Iterator[bytes]:
    """The whole lines of a file; a last one that a crash cut short was never acknowledged."""
    with path.open("rb") as part:
        for line in part:
            if line.endswith(b"\n"):
                yield line[:-1]
