import pickle

import msgspec
import pytest
from arq.connections import ArqRedis

from shared.edges.redis import connect
from shared.errors import ConfigError
from worker.edges.fleet.jobs import arq_client, decode_job, encode_job, reason_of, refuse_pickle


class Explosive:
    def __reduce__(self):
        return (pytest.fail, ("pickle was run",))


def test_pickle_is_refused_and_not_run():
    with pytest.raises(msgspec.DecodeError):
        decode_job(pickle.dumps(Explosive()))


def test_a_client_that_would_unpickle_is_refused():
    with pytest.raises(ConfigError, match="arq_client"):
        refuse_pickle(ArqRedis())


async def test_our_client_is_not_refused():
    refuse_pickle(arq_client(connect("redis://localhost")))


def test_an_exception_becomes_its_words():
    assert reason_of(encode_job({"r": ValueError("no")})) == "ValueError: no"


def test_no_other_object_is_encoded():
    with pytest.raises(NotImplementedError):
        encode_job({"r": object()})


@pytest.mark.parametrize("result", [None, b"\xc1"])
def test_a_missing_reason_is_said(result: bytes | None):
    assert reason_of(result).startswith("arq gave the job up")
