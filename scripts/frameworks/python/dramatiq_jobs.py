"""Dramatiq: messages at once, with a delay, and again after they failed."""

import sys
import time

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from driver import HOST, PORT, SCENARIO, Record, run, version, work_across_a_kill, worker

record = Record()
broker = RedisBroker(host=HOST, port=PORT, heartbeat_timeout=3000, maintenance_chance=200_000)
dramatiq.set_broker(broker)
tried = set()


@dramatiq.actor(max_retries=20, min_backoff=200, max_backoff=500)
def job(name):
    if name.endswith("7") and name not in tried:
        tried.add(name)
        raise RuntimeError("the first try fails")
    record.add(name)


def jobs():
    version("dramatiq")
    worker(sys.executable, "-B", "dramatiq_jobs.py", SCENARIO, HOST, PORT, "worker")
    sent = set()

    def enqueue(name):
        if name != "first" or name not in sent:
            job.send_with_options(args=(name,), delay=500 if name.endswith("5") else None)
            sent.add(name)

    producer = work_across_a_kill(record, enqueue, pause=0.02)
    return f"{len(producer.acknowledged)} messages"


if __name__ == "__main__":
    if sys.argv[-1] == "worker":
        dramatiq.Worker(broker, worker_threads=4, worker_timeout=200).start()
        time.sleep(100)
    else:
        run({"jobs": jobs})
