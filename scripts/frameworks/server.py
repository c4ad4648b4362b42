"""A server that a scenario runs on: Halite, or Redis to compare with. It is killed and started again on one port."""

import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

HOST = "127.0.0.1"
# How long a server may take until it answers PING, in seconds.
STARTING = 30


def free_port():
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        return listener.getsockname()[1]


class Server:
    """A server with a folder of its own, which is removed when the server is closed."""

    def __init__(self, choice, threads, base):
        pathlib.Path(base).mkdir(parents=True, exist_ok=True)
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="halite-frameworks.", dir=base))
        self.port = free_port()
        self.choice = choice
        self.threads = threads
        self.process = None
        self.start()

    def command(self):
        if self.choice.redis:
            return [self.choice.redis, "--port", str(self.port), "--bind", HOST, "--dir", str(self.folder),
                    "--save", "", "--appendonly", "yes", "--appendfsync", "always", "--loglevel", "warning"]
        return [self.choice.halite, "serve", str(self.folder / "db"), "--port", str(self.port),
                "--threads", str(self.threads), *self.choice.option]

    def start(self):
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + STARTING
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("the server did not start: " + self.log())
            time.sleep(0.02)

    def answers(self):
        try:
            with socket.create_connection((HOST, self.port), timeout=1) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(5) == b"+PONG"
        except OSError:
            return False

    def kill(self):
        """Ends the server by SIGKILL, as a crash of its process would."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def died(self):
        """If the server has ended by itself: how."""
        code = self.process.poll()
        return None if code is None else f"the server ended with {code}: {self.log()}"

    def log(self):
        return (self.folder / "log").read_text(errors="replace")[-500:]

    def close(self):
        """Stops the server and checks its database; returns the fault, if there is one."""
        try:
            fault = self.died()
            if fault is None and not self.choice.redis:
                fault = self.stop_and_check()
            if self.process.poll() is None:
                self.kill()
            return fault
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    def stop_and_check(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            return "SIGTERM did not end the server in 20 s"
        if code != 0:
            return f"SIGTERM ended the server with {code}: {self.log()}"
        check = subprocess.run([self.choice.halite, "check", str(self.folder / "db")], capture_output=True, text=True)
        return f"halite check: {(check.stdout + check.stderr)[-300:]}" if check.returncode else None


def default_base():
    shared = "/dev/shm"
    return shared if os.access(shared, os.W_OK) else tempfile.gettempdir()
