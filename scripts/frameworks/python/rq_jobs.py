"""RQ: jobs, and jobs that fail once and are tried again after a while.

A worker that cannot tell the server of a job's end leaves the job to a clean-up minutes later: it stands at the gate.
"""

import sys

import redis
from rq import Queue, Retry, SimpleWorker

from driver import HOST, PORT, SCENARIO, Gate, Record, run, until, version, work_across_a_kill, worker

record = Record()
gate = Gate(record)


def job(name):
    gate.stand(name)
    record.add(name)
    return name


def twice(name):
    gate.stand(name)
    if f"tried-{name}" not in record.names():
        record.add(f"tried-{name}")
        raise RuntimeError("the first try fails")
    record.add(name)


def work():
    connection = redis.Redis(host=HOST, port=PORT)
    SimpleWorker(["queue"], connection=connection, default_worker_ttl=10, job_monitoring_interval=1).work(
        with_scheduler=True, logging_level="ERROR")


def across(function, **options):
    import rq_jobs

    version("rq")
    worker(sys.executable, "-B", "rq_jobs.py", SCENARIO, HOST, PORT, "worker")
    connection = redis.Redis(host=HOST, port=PORT, retry=None)
    queue = Queue("queue", connection=connection)
    sent = set()

    def enqueue(name):
        if name != "first" or name not in sent:
            queue.enqueue(getattr(rq_jobs, function), name, job_id=name, result_ttl=600, **options)
            sent.add(name)

    producer = work_across_a_kill(record, enqueue, pause=0.05, least=5, gate=gate, workers=1)
    until("every job is finished", lambda: all(
        queue.fetch_job(name).get_status() == "finished" for name in producer.acknowledged))
    return f"{len(producer.acknowledged)} jobs"


if __name__ == "__main__":
    if sys.argv[-1] == "worker":
        work()
    else:
        run({"jobs": lambda: across("job"), "retries": lambda: across("twice", retry=Retry(max=10, interval=1))})
