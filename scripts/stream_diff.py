"""Random commands on streams, sent to a Redis and to a Halite, whose replies have to be the same.

Both servers run already, and lose all of their data:

    redis-server --port 20001 --save "" &
    halite serve --in-memory 512MiB --port 20002 &
    python3 scripts/stream_diff.py 20001 20002 [seed] [commands] [counters]

Prints the first differences, and exits with 1 if there are any. Left out are times, the nodes of Redis' tree, and what
Redis 7.2 does otherwise than Redis 7.0: consumers are made by XGROUP CREATECONSUMER, and the counters of groups
(`lag`, `entries-read`) are compared only with the last argument, with which no entry is removed and no counter is set.
"""

import random
import re
import socket
import sys

KEYS = ["s1", "s2", "text"]
GROUPS = ["g1", "g2", "g 3"]
CONSUMERS = ["a", "b", "c"]
LAST = "18446744073709551615-18446744073709551615"
TIMES_AND_NODES = {b"seen-time", b"active-time", b"idle", b"inactive", b"radix-tree-keys", b"radix-tree-nodes"}
COUNTERS = {b"lag", b"entries-read"}


class Client:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.file = self.socket.makefile("rb")

    def send(self, words):
        request = b"*%d\r\n" % len(words)
        for word in words:
            word = word.encode()
            request += b"$%d\r\n%s\r\n" % (len(word), word)
        self.socket.sendall(request)

    def read(self):
        line = self.file.readline()
        kind, rest = line[:1], line[1:-2]
        if kind == b"$":
            return None if rest == b"-1" else self.file.read(int(rest) + 2)[:-2]
        if kind in b"*%":
            if rest == b"-1":
                return ["no array"]
            count = int(rest) * (2 if kind == b"%" else 1)
            return [kind.decode()] + [self.read() for _ in range(count)]
        return line[:-2].decode()

    def call(self, words):
        self.send(words)
        return self.read()


class Commands:
    """Random commands; most of the ids are about those that are there."""

    def __init__(self, seed, removes):
        self.random = random.Random(seed)
        self.top = 0
        self.removes = removes
        self.in_transaction = False

    def one(self, *of):
        return self.random.choice(of)

    def maybe(self, chance, *words):
        return list(words) if self.random.random() < chance else []

    def key(self):
        return self.random.choices(KEYS, [8, 4, 0.3])[0]

    def id(self, high=None):
        ms = self.random.randint(0, self.top if high is None else high)
        odd = ["-", "+", "$", ">", "*", "x", "1-", "-1", "1-x", "(1", "01-02", "5-*", "", " 3", "0-0", LAST]
        forms = [f"{ms}-{self.random.randint(0, 3)}", str(ms), f"{ms}-0", self.random.choice(odd)]
        return self.random.choices(forms, [50, 30, 10, 4])[0]

    def bound(self):
        return self.one("-", "+", "(" + self.id(), self.id(), self.id())

    def count(self):
        return self.one("0", "1", "2", "3", "5", "10", "-1", "x")

    def new_id(self):
        if self.random.random() < 0.8:
            self.top += self.random.randint(0, 1)
            return f"{self.top}{self.one('-*', '', '-1', '-2')}"
        found = self.id(self.top + 1)
        return "5" if found in ("*", LAST) else found

    def trim(self):
        words = [self.one("MAXLEN", "minid")] + self.maybe(0.3, "=")
        words.append(str(self.random.randint(-1, 12)) if words[0] == "MAXLEN" else self.id())
        return words + self.maybe(0.1, "LIMIT", self.count())

    def add(self):
        words = ["XADD", self.key()] + self.maybe(0.1, "nomkstream")
        if self.removes and self.random.random() < 0.15:
            words += self.trim()
        words.append(self.new_id())
        for _ in range(self.random.randint(1, 2)):
            words += [f"f{self.random.randint(0, 2)}", f"v{self.random.randint(0, 9)}"]
        return words[:-1] if self.random.random() < 0.02 else words

    def read(self, group):
        keys = [self.key() for _ in range(self.random.randint(1, 2))]
        words = ["XREADGROUP", "GROUP", self.one(*GROUPS), self.one(*CONSUMERS)] if group else ["XREAD"]
        words += self.maybe(0.6, "COUNT", self.count()) + self.maybe(0.1 if group else 0.01, "NOACK") + ["STREAMS"]
        ids = [self.one(">", ">", ">", "0", self.id()) if group else self.one(self.id(), "$", "0") for _ in keys]
        return words + keys + [id if id != "+" else "0" for id in ids] + self.maybe(0.02, "x")

    def claim(self):
        words = ["XCLAIM", self.key(), self.one(*GROUPS), self.one(*CONSUMERS), self.one("0", "0", "1000000", "-5", "x")]
        words += [self.id() for _ in range(self.random.randint(1, 4))]
        words += self.maybe(0.3, "JUSTID") + self.maybe(0.3, "FORCE")
        words += self.maybe(0.2, "IDLE", self.one("1000", "0", "-1", "x"))
        words += self.maybe(0.2, "TIME", self.one("1000", "99999999999999", "-1", "x"))
        words += self.maybe(0.3, "RETRYCOUNT", self.one("0", "7", "-1", "x"))
        return words + self.maybe(0.1, "LASTID", self.id()) + self.maybe(0.02, "NO")

    def of_group(self):
        key, group, consumer = self.key(), self.one(*GROUPS), self.one(*CONSUMERS)
        ids = [self.id() for _ in range(self.random.randint(1, 4))]
        pending = self.maybe(0.2, "IDLE", self.one("0", "1000000", "x")) + [self.bound(), self.bound(), self.count()]
        chance = 0.2 if self.removes else 0
        read = self.maybe(chance, "ENTRIESREAD", self.one("0", "3", "-1", "-2", "x"))
        forms = [
            (8, ["XACK", key, group] + ids),
            (3, ["XPENDING", key, group]),
            (4, ["XPENDING", key, group] + pending + self.maybe(0.4, consumer) + self.maybe(0.03, "z")),
            (4, ["XAUTOCLAIM", key, group, consumer, self.one("0", "0", "1000000", "x"), self.bound()]
                + self.maybe(0.6, "COUNT", self.count()) + self.maybe(0.3, "JUSTID")),
            (2, ["XINFO", "GROUPS", key]),
            (1, ["XINFO", "CONSUMERS", key, group]),
            (2, ["XGROUP", "SETID", key, group, self.one("$", "0", self.id())] + read),
        ]
        if not self.in_transaction:
            forms += [
                (5, ["XGROUP", "create", key, group, self.one("$", "0", self.id())] + self.maybe(0.5, "MKSTREAM") + read),
                (1, ["XGROUP", "DESTROY", key, group]),
                (1, ["XGROUP", "DELCONSUMER", key, group, consumer]),
            ]
        return self.random.choices([form for _, form in forms], [weight for weight, _ in forms])[0]

    def of_key(self):
        key = self.key()
        forms = [["XLEN", key], ["TYPE", key], ["OBJECT", "ENCODING", key], ["EXISTS", key]]
        forms += [["XINFO", "STREAM", key] + self.maybe(0.6, "FULL") + self.maybe(0.2, "COUNT", self.count())] * 3
        forms += [[self.one("XRANGE", "XREVRANGE"), key, self.bound(), self.bound()]
                  + self.maybe(0.4, "COUNT", self.count())] * 8
        if self.removes:
            forms += [["XDEL", key] + [self.id() for _ in range(self.random.randint(1, 3))]] * 5
            forms += [["XTRIM", key] + self.trim()] * 3
            at = str(self.top + self.random.randint(0, 2))
            forms += [["XSETID", key, at] + self.maybe(0.4, "ENTRIESADDED", self.one("0", "5", "100", "-1", "x"))
                      + self.maybe(0.3, "MAXDELETEDID", self.id())]
        if not self.in_transaction:
            forms += [["DEL", key], ["RENAME", key, self.key()], ["COPY", key, self.key()] + self.maybe(0.5, "REPLACE")]
            forms += [["SET", "text", "x"], ["HELLO", self.one("2", "3")]]
        return self.random.choice(forms)

    def wrong(self):
        key = self.key()
        return self.one(
            ["XADD", key], ["XGROUP"], ["XINFO", "STREAM"], ["XREADGROUP", "COUNT", "1", "STREAMS", key, ">"],
            ["XPENDING", key], ["XGROUP", "CREATE", key, "g1"], ["XGROUP", "CREATE", key, "g1", "0", "NO"],
            ["XTRIM", key, "NO", "1"], ["XTRIM", key, "MAXLEN"], ["XINFO", "STREAM", key, "NO"], ["XSETID", key],
            ["XADD", key, "MAXLEN", "3", "MINID", "4", "*", "a", "b"], ["XADD", key, "LIMIT", "3", "*", "a", "b"],
            ["XREAD", "BLOCK", "x", "STREAMS", key, "0"], ["XREAD", "BLOCK", "-1", "STREAMS", key, "0"],
            ["XRANGE", key, "-", "+", "NO", "1"], ["XAUTOCLAIM", key, "g1", "a", "0", "0", "NO"],
        )

    def next(self):
        if self.in_transaction and self.random.random() < 0.1:
            return ["EXEC"]
        if not self.in_transaction and self.random.random() < 0.01:
            return ["MULTI"]
        kinds = [self.add, lambda: self.read(False), lambda: self.read(True), self.claim, self.of_group, self.of_key, self.wrong]
        return self.random.choices(kinds, [22, 4, 13, 5, 26, 28, 1])[0]()


def comparable(reply, ignored):
    """A reply without what need not be the same."""
    if isinstance(reply, str):
        if reply.startswith("-ERR Unbalanced"):
            return "-ERR Unbalanced"
        if re.fullmatch(r":\d{12,14}", reply):
            return "a time"
    if not isinstance(reply, list):
        return reply
    is_pending = len(reply) == 5 and all(isinstance(item, bytes) for item in reply[1:3]) and isinstance(reply[3], str)
    kept, items = [], iter(reply)
    for item in items:
        if isinstance(item, bytes) and item in ignored:
            next(items, None)
            continue
        is_idle = is_pending and len(kept) == 3
        kept.append(f"idle {int(item[1:]) // 60000}" if is_idle else comparable(item, ignored))
    return kept


def difference(one, other, path=""):
    if isinstance(one, list) and isinstance(other, list):
        for at in range(max(len(one), len(other))):
            pair = [reply[at] if at < len(reply) else "nothing" for reply in (one, other)]
            if pair[0] != pair[1]:
                return difference(*pair, f"{path}/{at}")
    return f"{path} {str(one)[:300]}\n    {str(other)[:300]}"


def make_consumers(clients):
    words = [["XGROUP", "CREATECONSUMER", key, group, consumer]
             for key in KEYS[:2] for group in GROUPS for consumer in CONSUMERS]
    for client in clients:
        for request in words:
            client.send(request)
        for _ in words:
            client.read()


def main():
    arguments = sys.argv[1:]
    clients = [Client(int(port)) for port in arguments[:2]]
    seed, count = (int(word) for word in (arguments[2:4] + ["1", "3000"][len(arguments[2:4]):]))
    counters = "counters" in arguments
    ignored = TIMES_AND_NODES if counters else TIMES_AND_NODES | COUNTERS
    for client in clients:
        client.call(["FLUSHALL"])
    commands, found = Commands(seed, not counters), 0
    for number in range(count):
        request = commands.next()
        replies = [client.call(request) for client in clients]
        if request[0] in ("MULTI", "EXEC"):
            commands.in_transaction = request[0] == "MULTI"
        if not commands.in_transaction:
            make_consumers(clients)
        replies = [comparable(reply, ignored) for reply in replies]
        if request[0] != "HELLO" and replies[0] != replies[1]:
            found += 1
            print(f"{number}: {request}\n    {difference(*replies)}")
            if found == 5:
                break
    print(f"seed {seed}: {number + 1} commands, {found} differences")
    sys.exit(found > 0)


if __name__ == "__main__":
    main()
