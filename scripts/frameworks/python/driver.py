"""A program's side of the talk with the driver, and what several programs need."""

import importlib.metadata
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
import traceback

# A program that starts itself again as a worker passes these arguments on.
SCENARIO, HOST, PORT = sys.argv[1], sys.argv[2], int(sys.argv[3])
URL = f"redis://{HOST}:{PORT}"


def kill():
    """Has the server killed, and waits until it is back."""
    ask("kill")


def ask(word):
    print(word, flush=True)
    sys.stdin.readline()


def version(*packages):
    for package in packages:
        print(f"version {package} {importlib.metadata.version(package)}", flush=True)


def until(condition_is, holds):
    """Waits until the condition holds; one that raises is asked again."""
    deadline = time.monotonic() + 30
    while True:
        try:
            if holds():
                return
        except Exception:  # the server may be away
            pass
        assert time.monotonic() < deadline, f"not in time: {condition_is}"
        time.sleep(0.02)


class Record:
    """Names of jobs that were done, in a file to which several processes append."""

    def __init__(self):
        path = os.environ.get("RECORD")
        if path is None:
            handle, path = tempfile.mkstemp()
            os.close(handle)
            os.environ["RECORD"] = path
        self.path = pathlib.Path(path)

    def add(self, name):
        with open(self.path, "a") as file:
            file.write(f"{name}\n")

    def names(self):
        return self.path.read_text().split()

    def done(self):
        return set(self.names())


class Gate:
    """A gate at which jobs wait. Workers of some frameworks pop a job before they do it, so that one popped while the
    server is killed may be lost, on Redis as here: such a worker stands at the gate while the server is away."""

    def __init__(self, record):
        self.record = record
        self.path = pathlib.Path(str(record.path) + ".gate")

    def stand(self, name):
        if name.startswith("waits"):
            self.record.add(f"standing-{name}")
            while not self.path.exists():
                time.sleep(0.02)

    def close(self, workers, enqueue):
        """Has all the workers stand at the gate."""
        names = [f"waits{number}" for number in range(workers)]
        for name in names:
            enqueue(name)
        until("all workers stand at the gate", lambda: {f"standing-{name}" for name in names} <= self.record.done())
        time.sleep(0.3)

    def open(self):
        self.path.touch()


class Producer:
    """A thread that does work again and again, and keeps the names of what was acknowledged."""

    def __init__(self, work, pause=0.005):
        self.acknowledged = []
        self.work = work
        self.pause = pause
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        number = 0
        while not self.stopped.is_set():
            name = f"job{number}"
            number += 1
            try:
                self.work(name)
                self.acknowledged.append(name)
            except Exception:  # it was not acknowledged
                time.sleep(0.05)
            time.sleep(self.pause)

    def stop(self):
        self.stopped.set()
        self.thread.join(20)

    def lost(self, done):
        return set(self.acknowledged) - set(done)


def worker(*command):
    """Starts a worker in another process; what it prints comes before the driver, as ours does."""
    return subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL)


def supervise(*command):
    """Starts a worker whenever it has ended, as a service manager does."""
    deadline = time.monotonic() + 100
    while time.monotonic() < deadline:
        worker(*command).wait()
        time.sleep(0.3)


def work_across_a_kill(record, enqueue, pause=0.005, least=30, before=1.5, gate=None, workers=0):
    """Enqueues jobs across a kill, at which so many workers stand at the gate, if there is one: each acknowledged job
    must be done. Returns the producer."""
    until("the worker works", lambda: enqueue("first") is not False and record.done())
    producer = Producer(enqueue, pause)
    time.sleep(before)
    if gate:
        gate.close(workers, enqueue)
    kill()
    if gate:
        gate.open()
    done = len(record.done())
    until("jobs are done again", lambda: len(record.done()) > done + least)
    producer.stop()
    try:
        until("all acknowledged jobs are done", lambda: not producer.lost(record.done()))
    except AssertionError as late:
        lost = sorted(producer.lost(record.done()))
        raise AssertionError(f"{len(lost)} of {len(producer.acknowledged)} jobs are lost: {lost[:10]}") from late
    return producer


def run(jobs):
    try:
        print(f"pass {jobs[SCENARIO]()}", flush=True)
    except BaseException as error:
        traceback.print_exc(file=sys.stdout)
        print("fail", repr(error).replace("\n", " ")[:300], flush=True)
    finally:
        path = os.environ.get("RECORD")
        if path:
            for file in (path, path + ".gate"):
                pathlib.Path(file).unlink(missing_ok=True)
    os._exit(0)
