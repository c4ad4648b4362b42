"""django-redis: the cache, its locks, and Django's sessions in it."""

import threading
import time

import django
from django.conf import settings

from driver import URL, Producer, kill, run, until, version

settings.configure(
    CACHES={"default": {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": URL + "/2",
                        "OPTIONS": {"CLIENT_CLASS": "django_redis.client.DefaultClient"}}},
    SESSION_ENGINE="django.contrib.sessions.backends.cache",
    INSTALLED_APPS=["django.contrib.sessions"],
    SECRET_KEY="secret",
)
django.setup()

from django.contrib.sessions.backends.cache import SessionStore  # noqa: E402  (Django must be set up before)
from django.core.cache import cache  # noqa: E402

version("django-redis", "Django")


def with_cache():
    cache.set("count", 0, timeout=None)

    def work(name):
        cache.set(name, {"name": name, "list": [1, 2]}, timeout=600)
        cache.incr("count")

    producer = Producer(work, pause=0)
    time.sleep(1)
    kill()
    before = len(producer.acknowledged)
    until("the cache is written to again", lambda: len(producer.acknowledged) > before + 50)
    producer.stop()
    names = producer.acknowledged
    kept = cache.get_many(names)
    assert set(kept) == set(names), f"{len(names) - len(kept)} entries are lost"
    assert cache.get("count") >= len(names), "increments are lost"
    assert cache.ttl(names[0]) > 0 and cache.add(names[0], 1) is False and cache.touch(names[0], 5)
    found = sum(1 for _ in cache.iter_keys("job*"))
    assert found >= len(names), f"iter_keys found {found} of {len(names)}"
    assert cache.delete_pattern("job*") >= len(names) and cache.get(names[0]) is None
    return f"{len(names)} entries"


def locks():
    state = {"inside": 0, "counted": 0, "overlap": False}
    stop = threading.Event()

    def count():
        while not stop.is_set():
            try:
                with cache.lock("lock", timeout=3, sleep=0.005, blocking_timeout=5):
                    state["inside"] += 1
                    state["overlap"] |= state["inside"] > 1
                    try:
                        cache.set("counter", max(cache.get("counter", 0), state["counted"]) + 1, timeout=None)
                        state["counted"] += 1
                    finally:
                        state["inside"] -= 1
            except Exception:  # the server is away, or the lock's lease ran out
                time.sleep(0.02)

    threads = [threading.Thread(target=count, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    time.sleep(1)
    kill()
    before = state["counted"]
    until("locks are taken again", lambda: state["counted"] > before + 20)
    stop.set()
    for thread in threads:
        thread.join(10)
    assert not state["overlap"], "two threads held the lock at once"
    assert cache.get("counter") >= state["counted"], "counts are lost"
    return f"{state['counted']} counts under the lock"


def sessions():
    keys = {}

    def work(name):
        session = SessionStore()
        session["user"] = name
        session.save()
        keys[name] = session.session_key

    producer = Producer(work, pause=0)
    time.sleep(1)
    kill()
    before = len(producer.acknowledged)
    until("sessions are made again", lambda: len(producer.acknowledged) > before + 20)
    producer.stop()
    for name in producer.acknowledged:
        assert SessionStore(keys[name]).get("user") == name, f"the session of {name} is lost"
    return f"{len(producer.acknowledged)} sessions"


run({"cache": with_cache, "locks": locks, "sessions": sessions})
