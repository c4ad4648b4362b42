"""limits and Flask-Limiter: no more hits are allowed than the limit says, whatever happens to the server in between."""

import time

from driver import URL, kill, run, version

LIMIT = 200


def hits(allow):
    """Hits until the limit is reached, with a kill in the middle; `allow` says whether a hit is allowed."""
    allowed = refused = 0
    killed = False
    deadline = time.monotonic() + 50
    while refused < 20:
        assert time.monotonic() < deadline, f"the limit is not reached: {allowed} hits"
        try:
            if allow():
                allowed += 1
            else:
                refused += 1
        except Exception:  # the server is away
            time.sleep(0.02)
        if allowed == LIMIT // 2 and not killed:
            killed = True
            kill()
    # The hit in flight may count, though nobody was told.
    assert LIMIT - 5 <= allowed <= LIMIT, f"{allowed} hits of {LIMIT}"
    return f"{allowed} of {LIMIT} hits"


def with_limits(strategy):
    import limits

    version("limits")
    storage = limits.storage.storage_from_string(URL, retry=None)
    limiter = strategy(limits.strategies)(storage)
    limit = limits.parse(f"{LIMIT}/hour")
    return hits(lambda: limiter.hit(limit, "user"))


def flask():
    import flask
    from flask_limiter import Limiter
    from flask_limiter.util import get_remote_address

    version("Flask-Limiter")
    app = flask.Flask(__name__)
    limiter = Limiter(get_remote_address, app=app, storage_uri=URL, strategy="fixed-window")

    @app.get("/")
    @limiter.limit(f"{LIMIT}/hour")
    def page():
        return "welcome"

    client = app.test_client()

    def allow():
        status = client.get("/").status_code
        assert status in (200, 429), status
        return status == 200

    return hits(allow)


run({
    "fixed-window": lambda: with_limits(lambda s: s.FixedWindowRateLimiter),
    "moving-window": lambda: with_limits(lambda s: s.MovingWindowRateLimiter),
    "sliding-window": lambda: with_limits(lambda s: s.SlidingWindowCounterRateLimiter),
    "flask": flask,
})
