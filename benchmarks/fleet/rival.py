"""Other queues, as one process: `python rival.py NAME produce|work URL JOBS`.

Comes in: a name (`arq`, `saq`, `streaq`, `taskiq`) and a server. Goes out: jobs on it, or a worker
of a hundred slots whose every job counts up the key `done`. Runs in an environment of its own, so
it imports nothing of ours, and a rival only when it is asked for.
"""

import asyncio
import sys
from importlib import import_module
from typing import Any

SLOTS = 100


async def arq(role: str, url: str, jobs: int) -> None:
    """Stock arq with as many slots as ours, else as it comes."""
    connections, worker = import_module("arq.connections"), import_module("arq.worker")
    pool = await connections.create_pool(connections.RedisSettings.from_dsn(url))
    if role == "produce":
        for _ in range(jobs):
            await pool.enqueue_job("noop")
        return

    async def noop(_: dict[str, Any]) -> None:
        await pool.incr("done")

    job = worker.func(noop, name="noop")
    await worker.Worker([job], redis_pool=pool, max_jobs=SLOTS, keep_result=0).main()


async def saq(role: str, url: str, jobs: int) -> None:
    """The queue saq."""
    module = import_module("saq")
    queue = module.Queue.from_url(url)
    await queue.connect()
    if role == "produce":
        for _ in range(jobs):
            await queue.enqueue("noop", ttl=-1)
        return

    async def noop(_: dict[str, Any]) -> None:
        await queue.redis.incr("done")

    await module.Worker(queue, [("noop", noop)], concurrency=SLOTS).start()


async def streaq(role: str, url: str, jobs: int) -> None:
    """The queue streaq."""
    worker = import_module("streaq").Worker(redis_url=url, concurrency=SLOTS)

    @worker.task(ttl=0)  # type: ignore[untyped-decorator]  # a rival that is not installed here
    async def noop() -> None:
        await worker.redis.incr("done")

    if role == "work":
        await worker.run_async()
        return
    async with worker:
        for _ in range(jobs):
            await noop.enqueue()


async def taskiq(role: str, url: str, jobs: int) -> None:
    """The queue taskiq on a Redis stream, which acknowledges after the run and keeps no results."""
    broker = import_module("taskiq_redis").RedisStreamBroker(url, consumer_id="0")
    client = import_module("redis.asyncio").Redis.from_url(url)

    @broker.task  # type: ignore[untyped-decorator]  # a rival that is not installed here
    async def noop() -> None:
        await client.incr("done")

    if role == "work":
        broker.is_worker_process = True
        await broker.startup()
        await import_module("taskiq.api").run_receiver_task(broker, max_async_tasks=SLOTS)
        return
    await broker.startup()
    for _ in range(jobs):
        await noop.kiq()


RIVALS = {"arq": arq, "saq": saq, "streaq": streaq, "taskiq": taskiq}


if __name__ == "__main__":
    asyncio.run(RIVALS[sys.argv[1]](sys.argv[2], sys.argv[3], int(sys.argv[4])))
