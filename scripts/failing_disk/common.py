"""What all cases do: make a database, open it again, and compare it with what its clients were told."""
import contextlib
import time

from mounts import Failed
from server import Gone, Refusal, Server, command
from workload import Load

STEPS = 200


def sampled(chance, total, count):
    """Up to `count` different numbers below `total`; small ones more often, as the first calls are all different."""
    chosen = set()
    for _ in range(20 * count):
        if len(chosen) == min(count, total):
            break
        small = int((total + 1) ** chance.random()) - 1
        chosen.add(min(chance.choice([small, chance.randrange(max(total, 1))]), max(total - 1, 0)))
    return sorted(chosen)


@contextlib.contextmanager
def both_told():
    """A failure of the inner block, by the context manager that this yields, does not keep the rest from running: that
    may show what is worse. Both are told."""
    failures = []

    @contextlib.contextmanager
    def inner():
        try:
            yield
        except Failed as failure:
            failures.append(str(failure))
    try:
        yield inner()
    except Failed as failure:
        failures.append(str(failure))
    if failures:
        raise Failed("; and ".join(failures))


def start(context, folder, **options):
    """A server that is ready."""
    server = Server(context, folder, **options)
    if not server.wait_ready():
        with server:
            server.end()
            raise Failed(f"it does not start: {server.reason()}")
    return server


def made(context, folder, expected, steps=STEPS, how="kill", **options):
    """A database with some content."""
    with start(context, folder, **options) as server:
        Load(server, expected, context.seed, steps).wait()
        if how == "kill":
            server.kill()
        elif server.stop() != 0:
            raise Failed(f"SIGTERM: {server.reason()}")


def reopen(context, folder, expected, **options):
    """Without failures: everything is there and can be written, also after a close, and checksums are right."""
    for number in range(2):
        try:
            with start(context, folder, new=False, **options) as server:
                client = server.client()
                expected.check(client)
                write_again(client, expected, number)
                if server.stop() != 0:
                    raise Failed(f"SIGTERM: {server.reason()}")
        except Gone as gone:
            raise Failed(f"the server closed the connection: {server.output()[-300:]}") from gone
        except Failed as failure:
            raise Failed(f"{'after reopening' if number == 0 else 'after a close'}: {failure}") from failure
        if number == 0:
            code, text = command(context, "check", folder)
            if code:
                raise Failed(f"halite check after reopening: exit code {code}: {text.splitlines()[-1]}")


def write_again(client, expected, seed, seconds=0):
    """Writes work; if they do not yet, within `seconds`."""
    end = time.monotonic() + seconds
    for number in range(5):
        name, value = f"again:{number}", b"%d" % seed * 1000
        while isinstance(reply := client.call("SET", name, value), Refusal):
            if time.monotonic() > end:
                raise Failed(f"SET is refused still: -{reply}")
            time.sleep(0.1)
        expected.keys[name].durable, expected.keys[name].possible = value, []


def reads_go_on(server, expected, may_fail=False):
    """Whether the server is there; then its reads are right. `may_fail`: they may be refused, not wrong."""
    try:
        client, refused = server.client(), []
        for name in list(expected.keys):
            value = client.call("GET", name)
            if isinstance(value, Refusal):
                refused.append(value)
                server.context.messages.note("GET: -" + value, server.folder)
            elif not expected.is_right(name, value):
                raise Failed("beside failing writes, " + expected.difference(name, value))
        if refused and not may_fail:
            raise Failed(f"{len(refused)} of {len(expected.keys)} GETs are refused: -{refused[0]}")
        return True
    except Gone:
        if not server.has_ended(10):
            raise Failed("the server closed the connection of a reader, and goes on") from None
        return False


def finish(server, lose=None):
    """Kills a server, or, if it ended before, makes sure that it said why; whether it ended before."""
    if not server.has_ended():
        server.kill(lose)
        return False
    server.end(lose)
    server.reason()
    return True
