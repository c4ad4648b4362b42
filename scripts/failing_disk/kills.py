"""A server that is killed while clients write."""
import time

import mounts
from common import STEPS, reopen, start
from mounts import Failed
from workload import Expected, Load


def killed(context):
    for policy in ("always", "interval=1000", "never"):
        yield f"--sync {policy}", lambda policy=policy: kill_at_once(context, policy)


def kill_at_once(context, policy):
    """Whatever the policy, an ordinary file keeps what was acknowledged when the process dies."""
    count = 0
    for number in range(context.runs):
        with mounts.scratch(context.work) as scratch:
            folder, expected = scratch / "data", Expected()
            try:
                with start(context, folder, more=["--sync", policy]) as server:
                    load = Load(server, expected, context.seed + number, 10 * STEPS)
                    time.sleep(context.chance.uniform(0.05, 1))
                    server.kill()
                    load.wait()
                count += expected.acknowledged
                reopen(context, folder, expected)
            except Failed as failure:
                context.failures.append(f"run {number}: {failure}")
    context.runs_done = context.runs
    return f"{count} writes acknowledged"
