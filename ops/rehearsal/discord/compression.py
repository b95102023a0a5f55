"""Transport compression of the gateway: one stream for all payloads of a connection.

Comes in: payloads. Goes out: what a client unpacks with one decompressor for the whole connection,
complete after each payload (developer docs, gateway, transport compression). `sockets` uses it.

zstd comes from the standard library (Python 3.14) or from `backports.zstd`, where hikari looks for
it, too.
"""

import zlib
from collections.abc import Callable
from importlib import import_module
from typing import Any

Pack = Callable[[str], bytes]


class Unsupported(Exception):
    """A compression that is not known, or that nothing here can do."""


def stream_of(name: str | None) -> Pack | None:
    """What packs a connection's payloads; None where the client asks for none.

    Raises:
        Unsupported: see there.
    """
    match name:
        case None | "":
            return None
        case "zlib-stream":
            return _zlib()
        case "zstd-stream":
            return _zstd()
        case _:
            raise Unsupported(name)


def _zlib() -> Pack:
    stream = zlib.compressobj()

    def pack(text: str) -> bytes:
        return stream.compress(text.encode()) + stream.flush(zlib.Z_SYNC_FLUSH)

    return pack


def _zstd() -> Pack:
    library = zstd_library()
    stream = library.ZstdCompressor()

    def pack(text: str) -> bytes:
        packed: bytes = stream.compress(text.encode(), mode=stream.FLUSH_BLOCK)
        return packed

    return pack


def zstd_library() -> Any:
    """The module that does zstd. Raises `Unsupported` where there is none."""
    for name in ("compression.zstd", "backports.zstd"):
        try:
            return import_module(name)
        except ModuleNotFoundError:
            continue
    raise Unsupported("zstd-stream needs Python 3.14 or the package backports.zstd")
