"""Celery with the server as its broker and for its results: tasks at once, with a countdown, and tried again.

Its worker may end when it loses the broker, on Redis as here: it is started again, as a service manager does. Tasks
that it had taken come back after the visibility timeout.
"""

import sys

from celery import Celery

from driver import HOST, PORT, SCENARIO, URL, Gate, Record, run, supervise, until, version, work_across_a_kill, worker

record = Record()
gate = Gate(record)
THREADS = 4
app = Celery("celery_jobs", broker=URL + "/0", backend=URL + "/1")
app.conf.update(
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    broker_connection_retry_on_startup=True,
    broker_transport_options={"visibility_timeout": 5, "unacked_restore_interval": 1, "unacked_restore_throttle": 1,
                              "socket_timeout": 5},
    broker_pool_limit=1,
    redis_socket_timeout=5,
    worker_prefetch_multiplier=1,
    task_publish_retry=False,
    worker_cancel_long_running_tasks_on_connection_loss=False,
)


@app.task
def job(name):
    gate.stand(name)
    record.add(name)
    return name


@app.task(bind=True, max_retries=10)
def twice(self, name):
    gate.stand(name)
    if self.request.retries == 0:
        raise self.retry(countdown=0.5)
    record.add(name)
    return name


def start():
    version("celery")
    worker(sys.executable, "-B", "celery_jobs.py", SCENARIO, HOST, PORT, "service")


def results():
    start()
    kept = {}

    def enqueue(name):
        if name == "first" and kept:
            return
        kept[name] = job.apply_async((name,), countdown=0.5 if name.endswith("5") else None)

    producer = work_across_a_kill(record, enqueue, pause=0.02, gate=gate, workers=THREADS)
    until("every result is there", lambda: all(kept[name].get(timeout=3) == name for name in producer.acknowledged))
    return f"{len(producer.acknowledged)} tasks and their results"


def retries():
    start()
    sent = set()

    def enqueue(name):
        if name != "first" or name not in sent:
            twice.apply_async((name,))
            sent.add(name)

    producer = work_across_a_kill(record, enqueue, pause=0.02, gate=gate, workers=THREADS)
    return f"{len(producer.acknowledged)} tasks, each tried again"


if __name__ == "__main__":
    if sys.argv[-1] == "worker":
        app.worker_main(["worker", "--pool", "threads", "--concurrency", str(THREADS), "--loglevel", "ERROR", "--without-mingle", "--without-gossip"])
    elif sys.argv[-1] == "service":
        supervise(*[sys.executable, "-B", *sys.argv[:-1], "worker"])
    else:
        run({"results": results, "retries": retries})
