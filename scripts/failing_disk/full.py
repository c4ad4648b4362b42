"""Full file systems, and quotas."""
import os

import mounts
from calls import refused_calls
from common import STEPS, finish, reads_go_on, reopen, start, write_again
from mounts import Failed
from server import Refusal, Server
from workload import Expected, Load

NOBODY = 65534


def left_bytes(context):
    """Bytes that are left on a file system: from none to much."""
    sizes = [0, 4 << 10, 64 << 10, 256 << 10, 1 << 20, 2 << 20, 4 << 20, 8 << 20, 16 << 20]
    chosen = context.chance.sample(sizes, min(len(sizes), 2 * context.runs))
    return sorted(size + context.chance.randrange(size // 2 + 1) // 4096 * 4096 for size in chosen)


def full(context, mount):
    runs = refused = reopened_full = 0
    for is_full_first in (False, True):
        for left in left_bytes(context):
            with mounts.scratch(context.work) as scratch, mount(scratch) as at:
                runs += 1
                try:
                    if is_full_first:
                        begin_full(context, at, left)
                    else:
                        count, was_served = become_full(context, at, left, kill=runs % 2)
                        refused, reopened_full = refused + count, reopened_full + was_served
                except Failed as failure:
                    when = "before it was made" if is_full_first else "while it was served"
                    context.failures.append(f"{left} bytes left {when}: {failure}")
    context.runs_done = runs
    return f"{refused} writes refused, {reopened_full} times served again on the full disk after a kill"


def expect_room_errors(refusals, what):
    wrong = [refusal for refusal in refusals if not refusal.lacks_room()]
    if wrong:
        raise Failed(f"{what} is refused for want of room by: -{wrong[0]}")


def deletes_work(server, expected, count=20):
    client = server.client()
    names = [name for name, key in expected.keys.items() if key.durable is not None and not key.possible][:count]
    for name in names:
        reply = client.call("DEL", name)
        if isinstance(reply, Refusal):
            raise Failed(f"DEL is refused on a full disk: -{reply}")
        expected.keys[name].durable = None


def become_full(context, at, left, kill):
    """The disk gets full while the database is served."""
    folder, expected = at / "data", Expected()
    was_served = False
    with start(context, folder) as server:
        Load(server, expected, context.seed, STEPS // 2).wait()
        ballast = mounts.fill(at, left)
        load = Load(server, expected, context.seed + 1, 2 * STEPS, refusals=20)
        load.wait()
        expect_room_errors(load.refusals, "a write")
        if not reads_go_on(server, expected):
            finish(server)
            raise Failed(f"the server ended on the full disk: {server.reason()}")
        deletes_work(server, expected)
        if kill:
            server.kill()
        else:
            ballast.unlink()
            write_again(server.client(), expected, 3, seconds=30)
            server.kill()
    if kill:
        server = Server(context, folder, new=False)
        with server:
            if server.wait_ready():
                was_served = True
                expected.check(server.client())
                deletes_work(server, expected, 5)
                ballast.unlink()
                write_again(server.client(), expected, 4, seconds=30)
                server.kill()
            else:
                server.end()
                server.reason()
                ballast.unlink()
    reopen(context, folder, expected)
    return len(load.refusals), was_served


def begin_full(context, at, left):
    """The disk is full before there is a database."""
    folder, expected = at / "data", Expected()
    ballast = mounts.fill(at, left)
    with Server(context, folder) as server:
        if server.wait_ready():
            load = Load(server, expected, context.seed, STEPS // 2, refusals=20)
            load.wait()
            expect_room_errors(load.refusals, "a write")
            if not reads_go_on(server, expected):
                finish(server)
                raise Failed("the server ended on the full disk")
            server.kill()
        else:
            server.end()
            server.reason()
    ballast.unlink()
    # The folder may be there or not; both have to be fine.
    with start(context, folder) as server:
        expected.check(server.client())
        write_again(server.client(), expected, 5)
        server.kill()
    reopen(context, folder, expected)


def enospc(context):
    yield "ext4", lambda: full(context, lambda scratch: mounts.second(mounts.ext4(scratch)))
    yield "tmpfs", lambda: full(context, mounts.tmpfs)
    yield from refused_calls(context, "ENOSPC", {"some": 5, "from then on": None})


def quota(context):
    yield "ext4 with a user's quota", lambda: with_quota(context)
    yield from refused_calls(context, "EDQUOT", {"from then on": None})


def with_quota(context):
    with mounts.scratch(context.work) as scratch:
        scratch.chmod(0o755)
        with mounts.with_quotas(scratch) as (device, at):
            folder, expected = at / "data", Expected()
            folder.mkdir()
            os.chown(folder, NOBODY, NOBODY)
            mounts.limit_user(device, NOBODY, 24 << 20)
            with start(context, folder, user=NOBODY) as server:
                load = Load(server, expected, context.seed, 10 * STEPS, refusals=20)
                load.wait()
                if not load.refusals:
                    raise Failed("nothing was refused within the quota")
                expect_room_errors(load.refusals, "a write beyond the quota")
                if not reads_go_on(server, expected):
                    finish(server)
                    raise Failed("the server ended at the quota")
                deletes_work(server, expected)
                mounts.limit_user(device, NOBODY, 60 << 20)
                write_again(server.client(), expected, 6, seconds=30)
                server.kill()
            reopen(context, folder, expected, user=NOBODY)
            return f"{len(load.refusals)} writes refused"
