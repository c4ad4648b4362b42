"""Clients that write, and know what the database may hold of their writes."""
import collections
import random
import threading
import time

from mounts import Failed
from server import Gone, Refusal

WRITERS = 3
KEYS = 60


class Key:
    """`durable`: the value of the last acknowledged write; `possible`: those of later ones whose end is not known."""

    def __init__(self):
        self.durable, self.possible = None, []


class Expected:
    """The content that a database has to have."""

    def __init__(self):
        self.keys = collections.defaultdict(Key)
        self.acknowledged = self.refused = 0

    def is_right(self, name, value):
        key = self.keys[name]
        return value == key.durable or any(value == other for other in key.possible)

    def difference(self, name, value):
        key = self.keys[name]
        return (f"{name} is {shown(value)}, and {shown(key.durable)} was acknowledged"
                + (f" (or {', '.join(shown(other) for other in key.possible[:3])})" if key.possible else ""))

    def check(self, client):
        """Every key has its last acknowledged value, or that of a later write."""
        wrong = []
        for name, key in self.keys.items():
            value = client.call("GET", name)
            if isinstance(value, Refusal):
                wrong.append(f"GET {name}: {value}")
            elif not self.is_right(name, value):
                wrong.append(self.difference(name, value))
            else:
                key.durable, key.possible = value, []
        if wrong:
            raise Failed(f"{len(wrong)} of {len(self.keys)} keys are wrong: " + "; ".join(wrong[:3]))


def shown(value):
    return "not there" if value is None else f"{value.split(b' ')[0].decode(errors='replace')} of {len(value)} B"


class Writer:
    """Writes keys of its own, one request at a time."""

    def __init__(self, number, seed, expected, new_keys):
        self.number, self.expected, self.new_keys = number, expected, new_keys
        self.chance = random.Random(f"{seed}-{number}")
        self.count = 0

    def key(self):
        if self.new_keys:
            return f"w{self.number}:{self.count}"
        return f"w{self.number}:{self.chance.randrange(KEYS)}"

    def value(self):
        self.count += 1
        size = self.chance.choices([self.chance.randrange(4, 200), self.chance.randrange(200, 4000),
                                    self.chance.randrange(4000, 60_000), self.chance.randrange(66_000, 200_000),
                                    self.chance.randrange(1 << 20, 1_300_000)],
                                   [40, 40, 20, 2, 1])[0]
        head = b"%d.%d " % (self.number, self.count)
        # Not compressible, and cheap.
        return head + self.chance.randbytes(size)

    def step(self, client):
        """One request; the refusal, if it was refused."""
        kind = self.chance.random()
        if kind < 0.75 or self.new_keys:
            changes = {self.key(): self.value()}
            words = ["SET", *next(iter(changes.items()))]
        elif kind < 0.9:
            changes = {self.key(): None}
            words = ["DEL", next(iter(changes))]
        else:
            changes = {self.key(): self.value() for _ in range(3)}
            words = ["MSET", *(word for pair in changes.items() for word in pair)]
        for name, value in changes.items():
            self.expected.keys[name].possible.append(value)
        reply = client.call(*words)
        keys = [(self.expected.keys[name], value) for name, value in changes.items()]
        if not isinstance(reply, Refusal):
            for key, value in keys:
                key.durable, key.possible = value, []
            self.expected.acknowledged += 1
            return None
        self.expected.refused += 1
        if reply.lacks_room():
            # Nothing of it happened.
            for key, _ in keys:
                key.possible.pop()
        return reply


class Load:
    """Writers that run until they are stopped, have done their part, or their server has ended."""

    """`refusals`: how many in a row end a writer. `new_keys`: each write has its own key."""

    def __init__(self, server, expected, seed, steps, refusals=200, writers=WRITERS, new_keys=False):
        self.server, self.expected, self.steps, self.refusals_max = server, expected, steps, refusals
        self.refusals = []
        self.failure = None
        self.stopping = False
        self.threads = [threading.Thread(target=self.write, args=(Writer(number, seed, expected, new_keys),))
                        for number in range(writers)]
        for thread in self.threads:
            thread.start()

    def write(self, writer):
        refused, is_durable = 0, True
        try:
            client = self.server.client()
            for _ in range(self.steps):
                if self.stopping or refused > self.refusals_max:
                    break
                try:
                    refusal = writer.step(client)
                except Gone:
                    # A client whose write could not be made durable is disconnected; the server goes on.
                    if is_durable or self.server.has_ended(1):
                        raise
                    client = self.server.client()
                    continue
                if refusal is None:
                    if not is_durable:
                        raise Failed("a write is acknowledged after one that could not be made durable")
                    refused = 0
                else:
                    refused += 1
                    is_durable &= not refusal.says_not_durable()
                    self.refusals.append(refusal)
                    self.server.context.messages.note("-" + refusal, self.server.folder)
        except Gone:
            if not self.server.has_ended(10):
                self.failure = Failed("the server closed the connection of a writer without a reply, and goes on")
        except Exception as failure:
            self.failure = failure

    def wait(self, seconds=120):
        end = time.monotonic() + seconds
        for thread in self.threads:
            thread.join(max(0, end - time.monotonic()))
        self.stopping = True
        for thread in self.threads:
            thread.join(130)
            if thread.is_alive():
                raise Failed("a writer has had no reply for minutes")
        if self.failure:
            raise self.failure
