"""What arq reads and writes, in msgpack. Pickle would run code for whoever can write to Redis.

Comes in: jobs as bytes, results as objects. Goes out: the reverse. `FleetWorker` uses it.
"""

from typing import Any

import msgspec
from arq.connections import ArqRedis
from redis.asyncio import Redis

from shared.errors import ConfigError
from shared.wire import UNREADABLE


def _plain(value: object) -> object:
    """An exception as text. It reaches a report, which is redacted, and nothing else."""
    if isinstance(value, BaseException):
        return f"{type(value).__name__}: {value}"
    raise NotImplementedError(f"{type(value).__name__} is no part of a job")


_encoder = msgspec.msgpack.Encoder(enc_hook=_plain)
_decoder = msgspec.msgpack.Decoder(dict[str, Any])


def encode_job(value: dict[str, Any]) -> bytes:
    """A job or a result for arq."""
    return _encoder.encode(value)


def decode_job(payload: bytes) -> dict[str, Any]:
    """A job or a result from arq.

    Raises:
        msgspec.DecodeError: anything but msgpack, pickle above all; nothing of it is run.
    """
    return _decoder.decode(payload)


def arq_client(redis: Redis) -> ArqRedis:
    """The client that arq wants, on the connections of ours."""
    return ArqRedis(redis.connection_pool, job_serializer=encode_job, job_deserializer=decode_job)


def refuse_pickle(client: ArqRedis) -> None:
    """Passes a client that reads msgpack.

    Raises:
        ConfigError: it would unpickle what it finds.
    """
    if client.job_deserializer is not decode_job or client.job_serializer is not encode_job:
        raise ConfigError(
            "this arq client would read pickle, which runs code: build it with arq_client()"
        )


def reason_of(result: bytes | None) -> str:
    """Why arq gave a job up, from the result that it would have kept."""
    if result is None:
        return "arq gave the job up"
    try:
        return str(decode_job(result).get("r"))
    except UNREADABLE:
        return "arq gave the job up, and left an unreadable reason"
