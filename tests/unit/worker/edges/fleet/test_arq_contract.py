"""What `FleetWorker` relies on inside arq. A new arq that moves it fails here, not at night."""

import inspect

import arq
import pytest
from arq.connections import ArqRedis
from arq.constants import in_progress_key_prefix, job_key_prefix, retry_key_prefix
from arq.jobs import deserialize_job_raw, serialize_job
from arq.worker import Worker

from shared.edges.queue import job_payload
from shared.keys import ARQ_JOB
from worker.edges.fleet.jobs import decode_job, encode_job

PARAMETERS = {
    "_poll_iteration": ["self"],
    "_release_sem_dec_counter_on_complete": ["self"],
    "close": ["self"],
    "finish_failed_job": ["self", "job_id", "result_data"],
    "finish_job": [
        "self",
        "job_id",
        "finish",
        "result_data",
        "result_timeout_s",
        "keep_result_forever",
        "incr_score",
        "keep_in_progress",
    ],
    "main": ["self"],
    "run": ["self"],
    "run_job": ["self", "job_id", "score"],
}


async def _function(ctx: object) -> None: ...


@pytest.mark.parametrize(("name", "parameters"), PARAMETERS.items(), ids=PARAMETERS)
def test_overridden_methods_have_these_parameters(name: str, parameters: list[str]):
    assert list(inspect.signature(getattr(Worker, name)).parameters) == parameters


async def test_a_worker_has_the_attributes_that_are_used():
    worker = Worker([_function], redis_pool=ArqRedis(), handle_signals=False)
    assert worker.allow_pick_jobs is True
    assert worker.job_counter == 0
    assert (worker.tasks, worker.job_tasks) == ({}, {})
    assert worker.sem._value == worker.max_jobs + 1
    assert isinstance(worker.functions, dict)


def test_main_polls_through_the_overridden_method():
    assert "self._poll_iteration()" in inspect.getsource(Worker.main)


def test_a_job_ends_through_the_two_overridden_methods_only():
    source = inspect.getsource(Worker.run_job)
    assert source.count("self.finish_job(") == 1
    assert source.count("self.finish_failed_job(") == 2
    assert "self.finish" not in source.replace("self.finish_job(", "").replace(
        "self.finish_failed_job(", ""
    )


def test_the_scripts_know_the_names_of_its_keys():
    assert (job_key_prefix, retry_key_prefix) == (ARQ_JOB, "arq:retry:")
    assert in_progress_key_prefix == "arq:in-progress:"


def test_our_jobs_are_its_jobs():
    theirs = serialize_job("run_turn", ("l1",), {}, None, 5, serializer=encode_job)
    assert job_payload("l1", 5) == theirs
    name, args, kwargs, job_try, enqueued_ms = deserialize_job_raw(theirs, deserializer=decode_job)
    assert (name, list(args), kwargs, enqueued_ms) == ("run_turn", ["l1"], {}, 5)
    assert not job_try


def test_the_version_is_the_one_that_was_read():
    assert arq.VERSION.startswith("0.28")
