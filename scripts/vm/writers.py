"""Clients that write until the power goes, and that know what must be there afterwards.

Each writer has keys of its own. What it asked for takes its keys from one state to the next; what
is found after a power cut must be the state after the last acknowledged step, or one of those after
the steps that were under way, in order. `crates/cli/tests/command/kill.rs` checks the same for
killed processes.
"""

import dataclasses
import random
import socket

from machine import Failed

KEYS = 40
# Keys of a transaction, which always have one value.
TWINS = 5


@dataclasses.dataclass
class Violations:
    """Counts of events that must not happen."""

    # Keys whose acknowledged value is gone, or that have a value that no client wrote after it.
    lost: int = 0
    # Transactions of which a part is there.
    half: int = 0
    # Writers that find steps done whose predecessors are not.
    disordered: int = 0

    def __iadd__(self, other):
        self.lost += other.lost
        self.half += other.half
        self.disordered += other.disordered
        return self

    def __bool__(self):
        return self.lost + self.half + self.disordered > 0


@dataclasses.dataclass
class Step:
    """One request, or several that happen together: all keys get the value, or are deleted (None)."""

    keys: list[bytes]
    value: bytes | None

    def changes(self):
        """The keys that the step changes, with their values."""
        return {key: self.value for key in self.keys}

    def requests(self):
        if self.value is None:
            return request(b"DEL", *self.keys)
        sets = b"".join(request(b"SET", key, self.value) for key in self.keys)
        return sets if len(self.keys) == 1 else request(b"MULTI") + sets + request(b"EXEC")

    def replies(self):
        """For each line of the replies, what it may be."""
        count = len(self.keys)
        if self.value is None:
            return [(b":0", b":1")]
        if count == 1:
            return [(b"+OK",)]
        return [(b"+OK",), *[(b"+QUEUED",)] * count, (b"*%d" % count,), *[(b"+OK",)] * count]


def request(*words):
    lines = b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)
    return b"*%d\r\n%s" % (len(words), lines)


def apply(step, state):
    for key, value in step.changes().items():
        if value is None:
            state.pop(key, None)
        else:
            state[key] = value


def compare(found, state, steps, keys, twins):
    """Compares what was found with a state and those that follow from it by some or all of the steps, in order."""
    expected = {key: {state.get(key)} for key in keys + twins}
    for step in steps:
        for key, value in step.changes().items():
            expected[key].add(value)
    violations = Violations()
    violations.lost += sum(found.get(key) not in values for key, values in expected.items())
    violations.half += len({found.get(twin) for twin in twins}) > 1
    if not violations and found != state:
        state = dict(state)
        for step in steps:
            apply(step, state)
            if found == state:
                break
        else:
            violations.disordered += 1
    return violations


class Writer:
    """One connection's writes, and what is known of them."""

    def __init__(self, number, seed):
        self.number = number
        self.random = random.Random(f"{seed} {number}")
        self.keys = [b"%d:%d" % (number, key) for key in range(KEYS)]
        self.twins = [b"%d:twin:%d" % (number, twin) for twin in range(TWINS)]
        self.acknowledged = {}
        self.under_way = []
        self.asked_count = 0
        self.acknowledged_count = 0
        self.is_to_stop = False

    def step(self):
        self.asked_count += 1
        value = b"%d:%d:" % (self.number, self.asked_count)
        long = self.random.randrange(200) == 0
        value += b"." * (100_000 if long else self.random.randrange(300))
        key = self.random.choice(self.keys)
        match self.random.randrange(10):
            case 0:
                return Step([key], None)
            case 1 | 2:
                return Step(self.twins, value)
            case _:
                return Step([key], value)

    def write_until_power_cut(self, port):
        """Writes, some requests at a time, until the connection breaks, or the writer is to stop; what counts is
        what was acknowledged before."""
        try:
            with socket.create_connection(("127.0.0.1", port)) as connection:
                self._write(connection)
        except OSError:
            pass

    def _write(self, connection):
        replies = connection.makefile("rb")
        while not self.is_to_stop:
            steps = [self.step() for _ in range(8 if self.random.randrange(4) == 0 else 1)]
            self.under_way += steps
            self.note_sent(steps)
            connection.sendall(b"".join(step.requests() for step in steps))
            for step in steps:
                for expected in step.replies():
                    line = replies.readline()
                    if not line.endswith(b"\n"):
                        return
                    if line.rstrip() not in expected:
                        raise Failed(f"writer {self.number}: the server replied {line!r}")
                apply(self.under_way.pop(0), self.acknowledged)
                self.acknowledged_count += 1
                self.note_acknowledged()

    def check(self, port):
        """Compares what the server has with what it acknowledged and what was under way, and goes on
        from what it has."""
        found = self.read_all(port)
        violations = compare(found, self.acknowledged, self.under_way, self.keys, self.twins)
        self.acknowledged = found
        self.under_way = []
        return violations

    def note_sent(self, steps):
        """These steps are about to be sent."""

    def note_acknowledged(self):
        """The oldest step under way was acknowledged just now."""

    def read_all(self, port):
        found = {}
        with socket.create_connection(("127.0.0.1", port)) as connection:
            replies = connection.makefile("rb")
            keys = self.keys + self.twins
            connection.sendall(b"".join(request(b"GET", key) for key in keys))
            for key in keys:
                head = replies.readline()
                if not head.startswith(b"$"):
                    raise Failed(f"GET {key.decode()}: the server replied {head!r}")
                length = int(head[1:])
                if length >= 0:
                    found[key] = replies.read(length + 2)[:length]
        return found
