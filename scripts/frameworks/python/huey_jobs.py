"""Huey: tasks at once and later, with results.

Huey's consumer pops a task before it does it: what is popped while the server is killed may be lost, on Redis as here.
So its worker waits in a task while the server is away.
"""

import os
import pathlib
import sys
import time

from huey import RedisHuey

from driver import HOST, PORT, SCENARIO, URL, Producer, Record, kill, run, until, version, worker

record = Record()
huey = RedisHuey("queue", url=URL)
gate = pathlib.Path(str(record.path) + ".gate")


@huey.task(retries=5, retry_delay=1)
def job(name):
    while name == "waits" and not gate.exists():
        time.sleep(0.02)
    record.add(name)
    return name


def jobs():
    version("huey")
    worker(sys.executable, "-B", "huey_jobs.py", SCENARIO, HOST, PORT, "worker")
    producer = Producer(lambda name: job.schedule((name,), delay=1) if name.endswith("5") else job(name), 0.01)
    until("the worker works", lambda: len(record.done()) > 30)
    job("waits")
    time.sleep(1)
    kill()
    gate.touch()
    done = len(record.done())
    until("tasks are done again", lambda: len(record.done()) > done + 30)
    producer.stop()
    until("all acknowledged tasks are done", lambda: not producer.lost(record.done()))
    gate.unlink()
    result = job("last")
    assert result.get(blocking=True, timeout=10) == "last"
    return f"{len(producer.acknowledged)} tasks"


if __name__ == "__main__":
    if sys.argv[-1] == "worker":
        consumer = huey.create_consumer(workers=1, periodic=False, scheduler_interval=1, max_delay=0.2)
        consumer.start()
        time.sleep(100)
        os._exit(0)
    run({"jobs": jobs})
