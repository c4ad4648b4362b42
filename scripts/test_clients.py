"""The parts of scripts/test-clients that use redis-py.

Each command prints PASS or FAIL for what it checks, and exits with 1 if something failed.
"""

import argparse
import base64
import json
import os
import pathlib
import sys
import threading
import time

import redis

PEOPLE = 100_000
WRITERS = 8


class Checks:
    """Functions that are checks of a client, in the order of their definition."""

    def __init__(self):
        self.all = []

    def __call__(self, check):
        self.all.append(check)
        return check

    def run(self, client, prefix):
        failed = 0
        for check in self.all:
            client.flushall()
            try:
                check(client)
                print(f"PASS {prefix}: {check.__name__.replace('_', ' ')}")
            except Exception as error:  # a check may fail in any way
                failed += 1
                print(f"FAIL {prefix}: {check.__name__.replace('_', ' ')}: {error!r}")
        return failed


suite = Checks()


def another(client, **more):
    """A second client of the same server and protocol."""
    settings = client.connection_pool.connection_kwargs
    return redis.Redis(port=settings["port"], protocol=settings["protocol"], **more)


def equal(got, expected):
    assert got == expected, f"expected {expected!r}, got {got!r}"


def raises(kind, call):
    try:
        call()
    except kind:
        return
    raise AssertionError(f"no {kind.__name__}")


@suite
def strings(client):
    every_byte = bytes(range(256)) * 40
    equal(client.set(every_byte, every_byte), True)
    equal(client.get(every_byte), every_byte)
    equal(client.get("missing"), None)
    equal(client.set("n", 1, nx=True), True)
    equal(client.set("n", 2, nx=True), None)
    equal(client.set("n", 10, get=True), b"1")
    equal(client.incrby("n", 32), 42)
    equal(client.incrbyfloat("f", "0.1"), 0.1)
    equal(client.append("n", "0"), 3)
    equal(client.getrange("n", 0, 1), b"42")
    equal(client.setrange("n", 1, "xx"), 3)
    equal(client.strlen("n"), 3)
    equal(client.mset({"a": 1, "b": 2}), True)
    equal(client.mget("a", "none", "b"), [b"1", None, b"2"])
    equal(client.msetnx({"a": 3, "c": 3}), False)
    equal(client.getdel("a"), b"1")
    equal(client.exists("a", "b", "b"), 2)
    raises(redis.ResponseError, lambda: client.incr("n"))


@suite
def large_values(client):
    value = os.urandom(8 << 20)
    client.set("large", value)
    assert client.get("large") == value, "8 MiB differ"
    equal(client.strlen("large"), len(value))


@suite
def keys(client):
    client.mset({"a": 1, "b": 2})
    equal(client.rename("a", "c"), True)
    equal(client.renamenx("b", "c"), False)
    equal(client.copy("c", "d"), True)
    equal(sorted(client.keys("*")), [b"b", b"c", b"d"])
    equal(sorted(client.keys("[cd]")), [b"c", b"d"])
    equal(client.type("b"), b"string")
    equal(client.dbsize(), 3)
    equal(client.touch("b", "c", "x"), 2)
    equal(client.unlink("b", "c", "x"), 2)
    equal(client.randomkey(), b"d")


@suite
def expiry(client):
    client.set("soon", 1, px=60)
    client.set("later", 1, ex=100)
    client.set("never", 1)
    assert 90 < client.ttl("later") <= 100
    equal((client.ttl("never"), client.ttl("missing")), (-1, -2))
    equal(client.expire("never", 100, gt=True), False)
    equal(client.expire("later", 200, gt=True), True)
    equal(client.persist("later"), True)
    equal(client.ttl("later"), -1)
    at = int(time.time()) + 1000
    equal(client.expireat("later", at), True)
    equal(client.expiretime("later"), at)
    equal(client.getex("later", persist=True), b"1")
    equal(client.ttl("later"), -1)
    deadline = time.time() + 10
    while client.exists("soon"):
        assert time.time() < deadline, "a key of 60 ms lives on"
        time.sleep(0.01)
    equal(client.dbsize(), 2)


@suite
def transactions(client):
    with client.pipeline(transaction=True) as pipe:
        equal(pipe.set("a", 1).incr("a").get("a").execute(), [True, 2, b"2"])
    # Another client changes the watched key: the transaction must not happen.
    with client.pipeline() as pipe:
        pipe.watch("a")
        client.set("a", 7)
        pipe.multi()
        pipe.set("a", 8)
        raises(redis.WatchError, pipe.execute)
    equal(client.get("a"), b"7")
    # Optimistic increments from many threads lose none.
    client.set("n", 0)

    def increment(pipe):
        value = int(pipe.get("n"))
        pipe.multi()
        pipe.set("n", value + 1)

    threads = [
        threading.Thread(target=lambda: [client.transaction(increment, "n") for _ in range(20)])
        for _ in range(5)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    equal(client.get("n"), b"100")
    # An error inside does not undo the rest, as Redis does it.
    with client.pipeline(transaction=True) as pipe:
        replies = pipe.set("s", "text").incr("s").set("t", 1).execute(raise_on_error=False)
    assert isinstance(replies[1], redis.ResponseError) and replies[2] is True


@suite
def pipelines(client):
    with client.pipeline(transaction=False) as pipe:
        for n in range(10_000):
            pipe.set(f"key{n}", n)
        equal(pipe.execute(), [True] * 10_000)
        for n in range(10_000):
            pipe.get(f"key{n}")
        equal(pipe.execute(), [b"%d" % n for n in range(10_000)])


@suite
def scan_iter(client):
    client.mset({f"user:{n}": n for n in range(2500)} | {f"other:{n}": n for n in range(100)})
    equal(len(set(client.scan_iter(count=77))), 2600)
    equal(len(set(client.scan_iter(match="user:1*"))), 1 + 10 + 100 + 1000)
    # Keys that are there throughout are returned, while others come and go.
    seen = set()
    for nth, key in enumerate(client.scan_iter(match="user:*", count=10)):
        seen.add(key)
        client.set(f"new:{nth}", 1)
        client.delete(f"other:{nth}")
    equal(len(seen), 2500)


@suite
def decoded_responses(client):
    decoded = another(client, decode_responses=True)
    decoded.set("köln", "straße")
    equal(decoded.get("köln"), "straße")
    equal(decoded.keys(), ["köln"])
    info = decoded.info()
    assert info["redis_version"] and info["role"] == "master"
    equal(decoded.info("keyspace")["db0"]["keys"], 1)
    decoded.close()


@suite
def connections(client):
    equal(client.ping(), True)
    equal(client.echo("x"), b"x")
    equal(client.client_setname("tester"), True)
    named = another(client, client_name="named")
    assert named.client_getname() in ("named", b"named")
    assert any(other["name"] == "named" for other in client.client_list())
    assert named.client_id() != client.client_id()
    named.close()
    assert "maxclients" in client.config_get("max*")
    assert client.command_count() > 50
    assert client.time()[0] > 1_600_000_000


@suite
def databases(client):
    other = another(client, db=5)
    client.set("a", "zero")
    other.set("a", "five")
    equal((client.get("a"), other.get("a")), (b"zero", b"five"))
    client.swapdb(0, 5)
    equal((client.get("a"), other.get("a")), (b"five", b"zero"))
    other.flushdb()
    equal((client.dbsize(), other.dbsize()), (1, 0))
    other.close()


def files_below(folder):
    """The regular files, as `halite load --dir` keys them."""
    root = os.fsencode(folder)
    for directory, _, names in os.walk(root):
        for name in names:
            path = os.path.join(directory, name)
            if os.path.isfile(path) and not os.path.islink(path):
                yield os.path.relpath(path, root), path


def compare_tree(folder, contents_of, count):
    files = differ = 0
    for key, path in files_below(folder):
        files += 1
        if contents_of(key) != pathlib.Path(os.fsdecode(path)).read_bytes():
            differ += 1
            print(f"FAIL {key!r} differs")
    print(f"{'FAIL' if differ or files != count else 'PASS'} {files} files, {count} records")
    return differ or files != count or files == 0


def tree(client, folder):
    return compare_tree(folder, client.get, client.dbsize())


def tree_dump(folder):
    def field(record, name):
        text = record.get(name)
        return base64.b64decode(record[f"{name}_base64"]) if text is None else text.encode()

    records = {}
    for line in sys.stdin.buffer:
        record = json.loads(line)
        records[field(record, "key")] = field(record, "value")
    return compare_tree(folder, records.get, len(records))


def people():
    for n in range(PEOPLE):
        print(json.dumps({"id": f"person:{n}", "name": f"Zoë {n}", "tags": [n % 7, None], "x": n / 3}))


def people_served(client):
    lines = [line.rstrip(b"\n") for line in sys.stdin.buffer]
    keys = [json.loads(line)["id"] for line in lines]
    differ = 0
    for start in range(0, len(lines), 1000):
        got = client.mget(keys[start : start + 1000])
        differ += sum(a != b for a, b in zip(got, lines[start : start + 1000]))
    failed = differ or client.dbsize() != PEOPLE or len(lines) != PEOPLE
    print(f"{'FAIL' if failed else 'PASS'} {len(lines)} objects, {differ} differ")
    return failed


def write(port, acknowledged):
    """Writes until the server is killed; then notes the last acknowledged number of each writer.

    Each write is a transaction over two keys, so that half a one would show.
    """
    last = [None] * WRITERS

    def writer(which):
        client = redis.Redis(port=port, retry=None)
        number = 0
        try:
            while True:
                number += 1
                value = b"%d:" % number + b"x" * (number % 3000)
                with client.pipeline(transaction=True) as pipe:
                    pipe.set(f"a{which}", value).set(f"b{which}", value)
                    pipe.set(f"log{which}:{number}", value).execute()
                last[which] = number
        except redis.RedisError:
            pass

    threads = [threading.Thread(target=writer, args=(which,)) for which in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    pathlib.Path(acknowledged).write_text(json.dumps(last))
    return any(number is None for number in last)


def verify(client, acknowledged):
    last = json.loads(pathlib.Path(acknowledged).read_text())
    wrong = 0
    for which, number in enumerate(last):
        a, b = client.mget(f"a{which}", f"b{which}")
        stored = int(a.split(b":")[0])
        # The write after the last acknowledged one may have happened, whole.
        whole = a == b and stored in (number, number + 1)
        logged = client.exists(*(f"log{which}:{n}" for n in range(1, number + 1))) == number
        wrong += not (whole and logged)
    print(f"{'FAIL' if wrong else 'PASS'} {sum(last)} acknowledged transactions, {wrong} writers lost some")
    client.flushall()
    return wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("command")
    parser.add_argument("--port", type=int, default=6379)
    parser.add_argument("--protocol", type=int, default=2)
    parser.add_argument("--dir")
    parser.add_argument("--acknowledged")
    arguments = parser.parse_args()
    client = redis.Redis(port=arguments.port, protocol=arguments.protocol)
    match arguments.command:
        case "suite":
            failed = suite.run(client, f"RESP{arguments.protocol}")
        case "tree":
            failed = tree(client, arguments.dir)
        case "tree-dump":
            failed = tree_dump(arguments.dir)
        case "people":
            failed = people()
        case "people-served":
            failed = people_served(client)
        case "write":
            failed = write(arguments.port, arguments.acknowledged)
        case "verify":
            failed = verify(client, arguments.acknowledged)
        case other:
            parser.error(f"no such command: {other}")
    sys.exit(1 if failed else 0)


main()
