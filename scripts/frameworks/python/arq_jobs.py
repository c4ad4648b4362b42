"""arq: asynchronous jobs, some of them deferred, some of them tried again."""

import asyncio
import sys
import time

from arq import Retry, Worker, create_pool
from arq.connections import RedisSettings
from redis.exceptions import RedisError

from driver import HOST, PORT, SCENARIO, Record, kill, run, version, worker

record = Record()
settings = RedisSettings(host=HOST, port=PORT, conn_timeout=2, conn_retries=20, conn_retry_delay=1)


async def job(context, name):
    if name.endswith("7") and context["job_try"] == 1:
        raise Retry(defer=0.3)
    record.add(name)
    return name


async def wait_for(what, holds):
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline, f"not in time: {what}"
        await asyncio.sleep(0.05)


async def across():
    version("arq")
    for _ in range(2):
        worker(sys.executable, "-B", "arq_jobs.py", SCENARIO, HOST, PORT, "worker")
    pool = await create_pool(settings)
    acknowledged, stop = [], asyncio.Event()

    async def produce():
        number = 0
        while not stop.is_set():
            number += 1
            name = f"job{number}"
            try:
                await pool.enqueue_job("job", name, _job_id=name, _defer_by=0.7 if name.endswith("5") else None)
                acknowledged.append(name)
            except (RedisError, OSError):
                await asyncio.sleep(0.05)
            await asyncio.sleep(0.02)

    producer = asyncio.create_task(produce())
    await wait_for("the worker works", lambda: len(record.done()) > 30)
    await asyncio.to_thread(kill)
    done = len(record.done())
    await wait_for("jobs are done again", lambda: len(record.done()) > done + 30)
    stop.set()
    await producer
    await wait_for("all acknowledged jobs are done", lambda: not set(acknowledged) - record.done())
    return f"{len(acknowledged)} jobs"


def work():
    """arq's worker ends when it loses the server; whoever runs it starts it again."""
    deadline = time.monotonic() + 100
    while time.monotonic() < deadline:
        try:
            Worker([job], redis_settings=settings, poll_delay=0.1, max_tries=20, job_timeout=3, handle_signals=False,
                   keep_result=60).run()
        except Exception:
            asyncio.set_event_loop(asyncio.new_event_loop())
            time.sleep(0.3)


if __name__ == "__main__":
    if sys.argv[-1] == "worker":
        work()
    else:
        run({"jobs": lambda: asyncio.run(across())})
