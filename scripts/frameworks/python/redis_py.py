"""redis-py: locks, publish and subscribe, asyncio, and consumer groups of streams."""

import asyncio
import threading
import time

import redis
import redis.asyncio

from driver import HOST, PORT, Producer, kill, run, until, version

version("redis")


def client(**more):
    return redis.Redis(host=HOST, port=PORT, retry=None, decode_responses=True, **more)


def locks():
    """Counts by a read and a write under a lock, which one thread at most may hold."""
    state = {"inside": 0, "counted": 0, "overlap": False}
    stop = threading.Event()

    def count():
        own = client()
        while not stop.is_set():
            lock = own.lock("lock", timeout=3, sleep=0.005, blocking_timeout=5)
            try:
                if not lock.acquire():
                    continue
            except redis.RedisError:
                continue
            state["inside"] += 1
            state["overlap"] |= state["inside"] > 1
            try:
                value = int(own.get("counter") or 0)
                own.set("counter", max(value, state["counted"]) + 1)
                state["counted"] += 1
                lock.extend(3)
            except redis.RedisError:
                pass
            state["inside"] -= 1
            try:
                lock.release()
            except redis.RedisError:
                pass

    threads = [threading.Thread(target=count, daemon=True) for _ in range(5)]
    for thread in threads:
        thread.start()
    time.sleep(1.2)
    kill()
    before = state["counted"]
    until("locks are taken again", lambda: state["counted"] > before + 20)
    stop.set()
    for thread in threads:
        thread.join(10)
    stored = int(client().get("counter"))
    assert not state["overlap"], "two threads held the lock at once"
    assert stored >= state["counted"], f"{stored} counted, {state['counted']} acknowledged"
    return f"{stored} counts under the lock"


def pubsub():
    heard = set()

    def listen():
        subscriber = client().pubsub()
        while True:
            try:
                subscriber.subscribe("news")
                subscriber.psubscribe("ne*")
                for message in subscriber.listen():
                    heard.add((message["type"], message["data"]))
            except redis.RedisError:
                time.sleep(0.05)

    threading.Thread(target=listen, daemon=True).start()
    publisher = client(protocol=3)
    number = 0

    def hears():
        nonlocal number
        number += 1
        publisher.publish("news", number)
        time.sleep(0.02)
        return {("message", str(number)), ("pmessage", str(number))} <= heard

    until("a message", hears)
    kill()
    until("a message after the kill", hears)
    return "heard before and after"


def with_asyncio():
    async def job():
        pool = redis.asyncio.Redis(host=HOST, port=PORT, protocol=3, retry=None, decode_responses=True)
        acknowledged, stop = [], asyncio.Event()

        async def write(which):
            number = 0
            while not stop.is_set():
                number += 1
                name = f"{which}:{number}"
                try:
                    async with pool.pipeline(transaction=True) as pipe:
                        await pipe.hset("hash", name, number).zadd("set", {name: number}).rpush("list", name).execute()
                    acknowledged.append(name)
                except redis.RedisError:
                    await asyncio.sleep(0.02)

        writers = [asyncio.create_task(write(which)) for which in range(8)]
        await asyncio.sleep(1)
        await asyncio.to_thread(kill)
        before = len(acknowledged)
        deadline = time.monotonic() + 20
        while len(acknowledged) < before + 100:
            assert time.monotonic() < deadline, "nothing is written after the kill"
            await asyncio.sleep(0.02)
        stop.set()
        await asyncio.gather(*writers)
        hashed = set(await pool.hkeys("hash"))
        assert not set(acknowledged) - hashed, f"{len(set(acknowledged) - hashed)} transactions are lost"
        assert set(await pool.zrange("set", 0, -1)) == hashed == set(await pool.lrange("list", 0, -1)), "half a transaction"
        return f"{len(acknowledged)} transactions"

    return asyncio.run(job())


def streams():
    worked = set()
    client().xgroup_create("events", "workers", "0", mkstream=True)
    producer = Producer(lambda name, own=client(): own.xadd("events", {"job": name}), pause=0)

    def consume(consumer):
        own = client()
        while True:
            try:
                entries = own.xautoclaim("events", "workers", consumer, 500, count=50)[1]
                for _, fresh in own.xreadgroup("workers", consumer, {"events": ">"}, count=20, block=200) or []:
                    entries += fresh
                for entry, fields in entries:
                    worked.add(fields["job"])
                    own.xack("events", "workers", entry)
            except redis.RedisError:
                time.sleep(0.05)

    for consumer in ("one", "two"):
        threading.Thread(target=consume, args=(consumer,), daemon=True).start()
    time.sleep(1)
    kill()
    before = len(worked)
    until("work again", lambda: len(worked) > before + 50)
    producer.stop()
    until("all work done", lambda: not producer.lost(worked))
    until("nothing pending", lambda: client().xpending("events", "workers")["pending"] == 0)
    return f"{len(worked)} entries worked on"


run({"locks": locks, "pubsub": pubsub, "asyncio": with_asyncio, "streams": streams})
