"""Devices and file systems that fail as a whole while clients write."""
import collections
import subprocess
import sys
import time

import control
import mounts
from common import STEPS, both_told, finish, made, reads_go_on, reopen, start
from mounts import Failed, Unavailable
from server import Server, command
from workload import Expected, Load


def lost_device(context):
    yield "ext4 shut down", lambda: beside_failure(context, lambda scratch: mounts.going_down(scratch, mounts.ext4))
    yield "xfs shut down", lambda: beside_failure(context, lambda scratch: mounts.going_down(scratch, mounts.xfs))
    yield "a thin device runs out", lambda: beside_failure(
        context, lambda scratch: mounts.running_out(scratch, context.chance.randrange(64, 2560) << 12))


def read_only(context):
    yield "ext4 becomes read-only", lambda: beside_failure(context, mounts.becoming_read_only, may_fail=False)
    yield "mounted read-only", lambda: mounted_read_only(context)


def beside_failure(context, fault, may_fail=True):
    """A file system fails while clients write: at a random moment, and when all of them have had their replies."""
    ended, words = 0, collections.Counter()
    for number in range(context.runs):
        try:
            with mounts.scratch(context.work) as scratch, fault(scratch) as failing:
                has_ended, how = fail_beside(context, failing, number, is_quiet=number % 4 == 3, may_fail=may_fail)
                ended += has_ended
                words[how] += 1
        except Failed as failure:
            context.failures.append(f"run {number}: {failure}")
    context.runs_done = context.runs
    is_lost = [failure for failure in context.failures if "was acknowledged" in failure or "damaged:" in failure]
    if is_lost and len(is_lost) == len(context.failures):
        blame_the_kernel(context, fault, is_lost)
    return f"the server ended itself in {ended} of {context.runs} runs" + "".join(f"; {how}" for how in words if how)


def fail_beside(context, failing, number, is_quiet, may_fail):
    folder, expected = failing.at / "data", Expected()
    has_ended, how = True, None
    with both_told() as also:
        with also, start(context, folder) as server:
            load = Load(server, expected, context.seed + number, 20 if is_quiet else 10 * STEPS, refusals=20)
            if is_quiet:
                load.wait()
            else:
                time.sleep(context.chance.uniform(0.05, 1))
            how = failing.fail()
            if is_quiet:
                load = Load(server, expected, context.seed - number, STEPS, refusals=20)
            load.wait()
            reads_go_on(server, expected, may_fail)
            has_ended = finish(server)
        failing.heal()
        mounts.mount_again(failing.device, failing.at)
        reopen(context, folder, expected)
    return has_ended, how


def blame_the_kernel(context, fault, is_lost):
    """Some kernels say that a page is synced and lose it, if its space was never written. A store can do nothing about
    that but write the space beforehand; so where a program without Halite loses pages, too, nothing is shown here."""
    rounds = 24
    losses = sum(kernel_loses(context, fault, ("map", "write")[number % 2]) for number in range(rounds))
    if losses:
        context.failures.clear()
        raise Unavailable("this kernel loses pages that it said were synced, of a program without Halite in "
                          f"{losses} of {rounds} rounds; of Halite in {len(is_lost)} of {context.runs}: {is_lost[0]}")


def kernel_loses(context, fault, how):
    with mounts.scratch(context.work) as scratch, fault(scratch) as failing:
        file, note = failing.at / "file", scratch / "note"
        program = subprocess.Popen([sys.executable, "-B", control.__file__, how, str(file), str(note)],
                                   stdout=subprocess.PIPE)
        with program:
            program.stdout.readline()
            time.sleep(context.chance.uniform(0.01, 0.2))
            failing.fail()
        failing.heal()
        mounts.mount_again(failing.device, failing.at)
        return control.lost(file, note) > 0


def mounted_read_only(context):
    with mounts.scratch(context.work) as scratch, mounts.ext4(scratch) as (device, at):
        folder, expected = at / "data", Expected()
        made(context, folder, expected, how="stop")
        mounts.run("mount", "-o", "remount,ro", at)
        refused = []
        for place in (folder, at / "new"):
            with Server(context, place, new=place != folder) as server:
                if server.wait_ready():
                    raise Failed(f"serve {place.name}: it serves on a read-only file system")
                server.end()
                refused.append(f"serve {place.name}: {server.reason()}")
        name = next(name for name, key in expected.keys.items() if key.durable is not None)
        for arguments in (["get", folder, name], ["scan", folder], ["stat", folder], ["check", folder],
                          ["put", folder, "a", "b"], ["dump", folder, scratch / "dump"],
                          ["backup", folder, scratch / "backup"], ["repair", folder, "--dry-run"]):
            code, text = command(context, *arguments, folder=at)
            refused.append(f"{arguments[0]}: {text.splitlines()[-1] if code else 'works'}")
        unclear = [line for line in refused if "works" not in line and "read-only" not in line.lower()]
        mounts.run("mount", "-o", "remount,rw", at)
        reopen(context, folder, expected)
        if unclear:
            raise Failed("the message does not say that it is read-only: " + "; ".join(unclear).replace(str(at), "AT"))
        works = [line.split(":")[0] for line in refused if line.endswith("works")]
        return f"refused as read-only: {len(refused) - len(works)} commands; works: {', '.join(works) or 'none'}"
