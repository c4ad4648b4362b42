"""A running server, and a client of it."""
import collections
import contextlib
import json
import os
import pathlib
import re
import select
import signal
import socket
import subprocess
import sys
import threading

from mounts import Failed, Unavailable

SECONDS_MAX = 120


class Gone(Exception):
    """The server has closed the connection."""


class Client:
    def __init__(self, port):
        try:
            self.socket = socket.create_connection(("127.0.0.1", port), timeout=SECONDS_MAX)
        except OSError as failure:
            raise Gone from failure
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.socket.makefile("rb")

    def call(self, *words):
        """The reply: bytes of a value, None, an integer, a list, a status, or Refusal."""
        words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        try:
            self.socket.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words))
            return self.reply()
        except TimeoutError as failure:
            raise Failed(f"no reply to {words[0].decode()} within {SECONDS_MAX} s") from failure
        except OSError as failure:
            raise Gone from failure

    def reply(self):
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise Gone
        kind, rest = line[:1], line[1:-2]
        match kind:
            case b"$":
                return None if int(rest) < 0 else self.file.read(int(rest) + 2)[:-2]
            case b"*":
                return [self.reply() for _ in range(int(rest))]
            case b":":
                return int(rest)
            case b"-":
                return Refusal(rest.decode(errors="replace"))
        return rest.decode()


class Refusal(str):
    """An error that the server replied."""

    def lacks_room(self):
        return self.startswith("OOM")

    def says_not_durable(self):
        return self.startswith("MISCONF")


class Messages:
    """The distinct messages that were seen, without what differs from run to run."""

    def __init__(self):
        self.counts = collections.Counter()
        self.lock = threading.Lock()

    def note(self, text, folder=None):
        text = str(text)
        if folder:
            text = text.replace(str(folder), "DATA")
        text = re.sub(r"(?<=[A-Z-])\d{6}|(?<![\w.])\d{6}(?=\.)", "N", text)
        text = re.sub(r"\b(?<!os error )(?<!signal )(?<!exit code )\d+(\.\d+)?\b", "#", text)
        with self.lock:
            self.counts[text] += 1

    def list(self):
        return [text for text, _ in self.counts.most_common()]


class Server:
    """`halite serve`, under the supervisor if its calls are to fail."""

    def __init__(self, context, folder, supervised=False, user=None, new=True, plan=None, partitions=2, more=()):
        self.context, self.folder = context, pathlib.Path(folder)
        command = [context.halite, "serve", folder, "--port", "0", "--threads", "2", "--max-size", context.max_size]
        if new:
            command += ["--engine", context.engine, "--partitions", partitions]
        command = [str(word) for word in (*command, *more)]
        self.control = theirs = self.status = None
        self.lost = 0
        if supervised:
            if not context.has_seccomp:
                raise Unavailable("no seccomp filter with a listener here")
            self.control, theirs = socket.socketpair()
            supervisor = pathlib.Path(__file__).with_name("supervisor.py")
            command = [sys.executable, "-B", str(supervisor), str(theirs.fileno()), str(folder), json.dumps(plan)]\
                + command
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            errors="replace", pass_fds=[theirs.fileno()] if theirs else [], user=user, group=user,
            extra_groups=[] if user else None)
        self.pid = self.process.pid
        if supervised:
            theirs.close()
            self.replies = self.control.makefile("r")
            line = self.replies.readline()
            if not line:
                raise Unavailable("the supervisor did not start: " + self.process.stdout.read().strip())
            self.pid = json.loads(line)["pid"]
        self.pidfd = os.pidfd_open(self.pid)
        self.lines, self.port = [], None
        self.is_ready = threading.Event()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))
            found = re.search(r"listening on 127\.0\.0\.1:(\d+)", line)
            if found:
                self.port = int(found[1])
            if "ready to accept" in line:
                self.is_ready.set()

    def tell(self, **command):
        try:
            self.control.sendall((json.dumps(command) + "\n").encode())
            return json.loads(self.replies.readline())
        except (OSError, ValueError) as failure:
            raise Failed(f"the supervisor is gone: {self.output()}") from failure

    def has_ended(self, seconds=0):
        return bool(select.select([self.pidfd], [], [], seconds)[0])

    def wait_ready(self):
        """Whether it serves; if not, it has ended."""
        for _ in range(SECONDS_MAX * 20):
            if self.is_ready.wait(0.05):
                return True
            if self.has_ended():
                return False
        raise Failed(f"neither ready nor ended after {SECONDS_MAX} s: {self.output()}")

    def client(self):
        return Client(self.port)

    def output(self):
        return "\n".join(self.lines)

    def kill(self, lose=None):
        """`lose`: a seed by which pages are lost that a failed sync was about."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        return self.end(lose)

    def stop(self):
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGTERM)
        if not self.has_ended(60):
            self.kill()
            raise Failed(f"it did not end within 60 s of SIGTERM: {self.output()}")
        return self.end()

    def end(self, lose=None):
        """Waits for the end; the exit code, or the signal as a negative number."""
        if not self.has_ended(60):
            raise Failed("it does not end")
        if self.control:
            if self.process.poll() is None:
                self.status = self.tell(do="wait")["status"]
                if lose is not None:
                    self.lost = self.tell(do="lose", seed=lose)["lost"]
                self.control.shutdown(socket.SHUT_RDWR)
            self.process.wait(60)
        else:
            self.status = self.process.wait(60)
        self.reader.join(60)
        self.check_output()
        return self.status

    def __enter__(self):
        return self

    def __exit__(self, kind, failure, trace):
        """Kills it if it is still there."""
        if self.status is None:
            try:
                self.kill()
            except Failed:
                # Of two failures, the first one is told.
                if kind is None or kind is Gone:
                    raise
        os.close(self.pidfd)

    def check_output(self):
        """A panic, or a signal that this script did not send, is never right."""
        text = self.output()
        if "panicked" in text:
            raise Failed(f"it panicked: {first_line_with(text, 'panicked')}")
        if self.status < 0 and self.status != -signal.SIGKILL:
            raise Failed(f"it was ended by signal {-self.status} ({signal.Signals(-self.status).name})")

    def reason(self):
        """Its last words, which have to say why it ended."""
        lines = [line for line in self.lines if line.strip() and not line.startswith("  ")]
        said = [line for line in lines if not re.search(r"listening on|ready to|version|shutting down|stopped$", line)]
        if not said:
            raise Failed(f"it ended with {self.status} and did not say why")
        self.context.messages.note(f"exit code {self.status}: {said[-1]}", self.folder)
        return said[-1]


def first_line_with(text, word):
    return next(line for line in text.splitlines() if word in line)


def command(context, *arguments, folder=None):
    """`halite ARGUMENTS`: exit code and output."""
    done = subprocess.run([str(word) for word in (context.halite, *arguments)], capture_output=True, text=True,
                          errors="replace", stdin=subprocess.DEVNULL, timeout=SECONDS_MAX, check=False)
    text = (done.stdout + done.stderr).strip()
    if "panicked" in text:
        raise Failed(f"halite {arguments[0]} panicked: {first_line_with(text, 'panicked')}")
    if done.returncode < 0:
        raise Failed(f"halite {arguments[0]} was ended by signal {-done.returncode}")
    if done.returncode and folder is not None:
        last = done.stderr.strip().splitlines()[-1]
        context.messages.note(f"{arguments[0]}: exit code {done.returncode}: {last}", folder)
    return done.returncode, text
