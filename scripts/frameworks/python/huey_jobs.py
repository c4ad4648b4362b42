"""Huey: tasks at once and later, with results.

Huey's consumer pops a task before it does it, so its worker stands at the gate while the server is away. Its scheduler
pops what is due before it adds it to the queue: what is due later is due after the kill.
"""

import logging
import os
import sys
import time

from huey import RedisHuey

from driver import HOST, PORT, SCENARIO, URL, Gate, Record, run, version, work_across_a_kill, worker

record = Record()
huey = RedisHuey("queue", url=URL)
gate = Gate(record)
LATER = 6


@huey.task(retries=5, retry_delay=LATER)
def job(name):
    gate.stand(name)
    record.add(name)
    return name


def jobs():
    version("huey")
    worker(sys.executable, "-B", "huey_jobs.py", SCENARIO, HOST, PORT, "worker")
    sent = set()

    def enqueue(name):
        if name != "first" or name not in sent:
            job.schedule((name,), delay=LATER) if name.endswith("5") else job(name)
            sent.add(name)

    producer = work_across_a_kill(record, enqueue, pause=0.02, gate=gate, workers=1)
    result = job("last")
    assert result.get(blocking=True, timeout=10) == "last"
    return f"{len(producer.acknowledged)} tasks"


if __name__ == "__main__":
    if sys.argv[-1] == "worker":
        logging.basicConfig(level=logging.ERROR, stream=sys.stdout, format="%(asctime)s %(message)s")
        consumer = huey.create_consumer(workers=1, periodic=False, scheduler_interval=1, max_delay=0.2)
        consumer.start()
        time.sleep(100)
        os._exit(0)
    run({"jobs": jobs})
