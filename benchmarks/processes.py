"""What a bench of several processes needs: what this one took, and a certificate for its server.

Comes in: nothing, or a directory. Goes out: seconds, kibibytes, files. It imports little, since who
asks for its memory has this in it.
"""

import os
import resource
import subprocess
from pathlib import Path


def own_cpu_s() -> float:
    """Seconds of a processor that this process took."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def own_rss_kib() -> float:
    """What this process has in memory now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1024


def certify(directory: str) -> None:
    """Writes a certificate of this machine, `cert.pem` with its `key.pem`."""
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext",
         "subjectAltName=DNS:localhost", "-keyout", f"{directory}/key.pem",
         "-out", f"{directory}/cert.pem"],
        check=True, capture_output=True,
    )  # fmt: skip
