"""The cases. Each is a list of parts: a name, and a function of the context, which raises Failed or Unavailable."""
import collections
import os
import shutil
import signal
import subprocess
import sys
import time

import control
import mounts
from mounts import Failed, Unavailable
from server import Gone, Refusal, Server, command
from workload import Expected, Load

STEPS = 200
NOBODY = 65534


def sampled(chance, total, count):
    """Up to `count` different numbers below `total`; small ones more often, as the first calls are all different."""
    chosen = set()
    for _ in range(20 * count):
        if len(chosen) == min(count, total):
            break
        small = int((total + 1) ** chance.random()) - 1
        chosen.add(min(chance.choice([small, chance.randrange(max(total, 1))]), max(total - 1, 0)))
    return sorted(chosen)


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
                raise Failed(f"beside failing writes, GET {name} returns a value that is neither old nor new")
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


# Calls that are answered in the kernel's place

PHASES = ["create", "open", "serve", "close"]


class Run:
    """A database that is made, filled and closed or killed, with calls that fail in one phase of that."""

    def __init__(self, context, phase, plan, is_watched=False):
        self.context, self.phase, self.plan, self.is_watched = context, phase, plan, is_watched
        self.expected, self.answered, self.has_ended, self.lost = Expected(), [], False, 0
        self.refused = self.acknowledged_later = 0

    def run(self, check):
        with mounts.scratch(self.context.work) as scratch:
            folder = scratch / "data"
            if self.phase != "create":
                made(self.context, folder, self.expected, STEPS // 2)
            folder.mkdir(exist_ok=True)
            is_early = self.phase in ("create", "open")
            options = {"new": self.phase == "create", "plan": self.plan if is_early else None}
            with Server(self.context, folder, supervised=True, **options) as server:
                counts = self.serve(server, is_early, check)
            reopen(self.context, folder, self.expected)
            return counts

    def serve(self, server, is_early, check):
        lose = self.context.seed if self.is_watched and self.plan else None
        is_ready = server.wait_ready()
        before = server.tell(do="report")
        if not is_ready:
            self.answered, self.has_ended = before["answered"], True
            server.end(lose)
            reason = server.reason()
            if not self.answered:
                raise Failed(f"it does not start, though no call failed: {reason}")
            return before["counts"]
        if is_early and self.plan is None:
            return before["counts"]
        if self.phase == "close" and lose is not None:
            server.tell(do="watch")
        if self.phase == "serve" and self.plan:
            server.tell(**self.plan)
        before = before["counts"] if self.phase == "serve" else None
        Load(server, self.expected, self.context.seed + 1, STEPS, refusals=30).wait()
        self.refused = self.expected.refused
        is_there = reads_go_on(server, self.expected)
        if self.phase == "close":
            before = server.tell(do="report")["counts"]
            if self.plan:
                # Watched already: a close makes durable what was written before.
                server.tell(**{**self.plan, "watch": False})
            os.kill(server.pid, signal.SIGTERM)
            if not server.has_ended(60):
                raise Failed("it does not end by SIGTERM")
        elif is_there:
            check(self, server)
        after = server.tell(do="report")
        self.answered = after["answered"]
        if self.phase == "close":
            if server.end(lose) != 0:
                server.reason()
        else:
            self.has_ended = finish(server, lose)
        self.lost = server.lost
        return {kind: count - (before or {}).get(kind, 0) for kind, count in after["counts"].items()}


def totals(context, phase):
    """How many calls of each class a phase has."""
    if (context.engine, phase) not in context.totals:
        context.totals[context.engine, phase] = Run(context, phase, None).run(lambda run, server: None)
    return context.totals[context.engine, phase]


def no_check(run, server):
    """Nothing more than what holds for every failure."""


def injected(context, plan, phases=PHASES, check=no_check, is_watched=False, classes=("write",), must_succeed=False,
             must_stay=False):
    """Some runs for each phase, each with calls that fail from another one on; what came of it, in words."""
    runs = answered = ended = lost = refused = skipped = 0
    for phase in phases:
        total = sum(totals(context, phase).get(kind, 0) for kind in classes)
        for after in sampled(context.chance, total, context.runs):
            run = Run(context, phase, {**plan, "classes": list(classes), "after": after, "watch": is_watched}, is_watched)
            try:
                run.run(check)
                if must_succeed and (run.refused or run.has_ended):
                    raise Failed(f"{run.refused} writes are refused" + ", and it ended" * run.has_ended)
                if must_stay and phase == "serve" and run.has_ended:
                    raise Failed("the server ended")
            except Failed as failure:
                call = run.answered and run.answered[0]
                where = f" ({call['call']} of {call['file']})" if call else ""
                context.failures.append(f"{phase}, {'/'.join(classes)} call {after} of {total}{where}: {failure}")
            runs, ended, lost = runs + 1, ended + run.has_ended, lost + run.lost
            answered, refused, skipped = answered + len(run.answered), refused + run.refused, skipped + (not run.answered)
    context.runs_done = runs
    words = f"{answered} calls answered, {refused} writes refused, the server ended itself in {ended} of {runs} runs"
    if is_watched:
        words += f", {lost} pages lost"
    return words + (f"; in {skipped} no call came" if skipped else "")


def answer(kind, errno, count):
    return {"do": kind, "errno": errno, "count": count}


def eio(context):
    for kind in ("write", "sync"):
        for name, count in (("once", 1), ("from then on", None)):
            yield f"{kind}, {name}", lambda kind=kind, count=count: injected(
                context, answer("fail", "EIO", count), classes=[kind], is_watched=kind == "sync")


def short(context):
    for name, count in (("once", 1), ("all", None)):
        yield f"writes, {name}", lambda count=count: injected(
            context, {"do": "short", "count": count, "seed": context.seed}, must_succeed=True)
    yield "interrupted calls", lambda: injected(
        context, answer("fail", "EINTR", 3), classes=["write", "sync", "allocate", "create"], must_succeed=True)


def room_comes_back(run, server):
    """Writes work when there is room again."""
    if run.phase == "serve":
        server.tell(do="stop")
        write_again(server.client(), run.expected, 7, seconds=30)


def refused_calls(context, errno, counts):
    for kind in ("write", "allocate", "create", "rename"):
        for name, count in counts.items():
            yield f"{errno} from {kind}, {name}", lambda kind=kind, count=count: injected(
                context, answer("fail", errno, count), classes=[kind], check=room_comes_back, phases=PHASES[:3],
                must_stay=True)


# Full file systems

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
        options = ["-O", "quota", "-E", "quotatype=usrquota"]
        with mounts.ext4(scratch, 64 << 20, options, "rw,usrquota") as (device, at):
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


# Devices that fail

def lost_device(context):
    yield "ext4 shut down", lambda: beside_failure(context, lambda scratch: mounts.going_down(scratch, mounts.ext4))
    yield "xfs shut down", lambda: beside_failure(context, lambda scratch: mounts.going_down(scratch, mounts.xfs))
    yield "a thin device runs out", lambda: beside_failure(
        context, lambda scratch: mounts.running_out(scratch, context.chance.randrange(256 << 10, 10 << 20) // 4096 * 4096))


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
    with start(context, folder) as server:
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
        raise Unavailable(f"this kernel loses pages that it said were synced, of a program without Halite in {losses} of "
                          f"{rounds} rounds; of Halite in {len(is_lost)} of {context.runs}: {is_lost[0]}")


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


# Read-only file systems

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
                          ["put", folder, "a", "b"], ["dump", folder, scratch / "dump"], ["backup", folder, scratch / "b"],
                          ["repair", folder, "--dry-run"]):
            code, text = command(context, *arguments, folder=at)
            refused.append(f"{arguments[0]}: {text.splitlines()[-1] if code else 'works'}")
        unclear = [line for line in refused if "works" not in line and "read-only" not in line.lower()]
        mounts.run("mount", "-o", "remount,rw", at)
        reopen(context, folder, expected)
        if unclear:
            raise Failed("the message does not say that it is read-only: " + "; ".join(unclear).replace(str(at), "AT"))
        return "; ".join(f"{line.split(':')[0]} {'works' if line.endswith('works') else 'is refused'}" for line in refused)


# Weak file systems

WEAK = {"overlayfs": mounts.overlay, "vfat": mounts.vfat, "ramfs": mounts.ramfs, "tmpfs": mounts.tmpfs,
        "bindfs (FUSE)": mounts.bindfs, "exfat (FUSE)": mounts.exfat_fuse, "fuse2fs (FUSE)": mounts.ext4_by_fuse,
        "btrfs": mounts.btrfs, "xfs": lambda scratch: mounts.second(mounts.xfs(scratch)), "9p": mounts.nine_p}


def weak(context):
    for name, mount in WEAK.items():
        yield name, lambda mount=mount: on_weak(context, mount)


# Errors that do not say what is missing, or what to do about it.
BARE = ["Operation not supported", "Invalid argument", "Function not implemented"]


def on_weak(context, mount):
    with mounts.scratch(context.work) as scratch, mount(scratch) as at:
        lacks = mounts.abilities(at)
        lacking = f"; the file system lacks {', '.join(lacks)}" if lacks else ""
        folder, expected = at / "data", Expected()
        with Server(context, folder) as server:
            if not server.wait_ready():
                server.end()
                return refused_on_weak(context, scratch, at, server.reason(), lacking)
            began = time.monotonic()
            Load(server, expected, context.seed, STEPS).wait()
            seconds = time.monotonic() - began
            if expected.refused:
                raise Failed(f"{expected.refused} writes are refused: {context.messages.list()[:2]}")
            if not reads_go_on(server, expected):
                finish(server)
                raise Failed("the server ended")
            server.kill()
        reopen(context, folder, expected)
        try_commands(context, folder, at)
        return f"works, {expected.acknowledged / seconds:.0f} writes a second{lacking}"


def try_commands(context, folder, at):
    for arguments in (["backup", folder, at / "a.backup"], ["restore", at / "restored", at / "a.backup"],
                      ["dump", folder, at / "a.tsv"], ["load", at / "loaded", at / "a.tsv"], ["check", at / "restored"]):
        code, text = command(context, *arguments, folder=at)
        if code:
            raise Failed(f"halite {arguments[0]}: exit code {code}: {text.splitlines()[-1]}")


def refused_on_weak(context, scratch, at, reason, lacking):
    """No database can be made there. Is one that was copied there served, and does the message say enough?"""
    reason = reason.replace(str(at), "AT")
    expected, copied = Expected(), at / "copied"
    made(context, scratch / "elsewhere", expected, how="stop")
    subprocess.run(["cp", "-r", scratch / "elsewhere", copied], check=True)
    try:
        reopen(context, copied, expected)
        copy = "a copied database works"
    except Failed as failure:
        copy = f"a copied database does not work: {failure}".replace(str(at), "AT")
    text = f"serve is refused: {reason}; {copy}{lacking}"
    if any(bare in reason for bare in BARE):
        raise Failed(f"the message does not say what the file system lacks: {text}")
    return text


# Damaged files

def damaged(context):
    for how in ("stop", "kill"):
        yield f"after a {'close' if how == 'stop' else 'kill'}", lambda how=how: damage_each(context, how)


def damages(root, file):
    """Ways to damage a file: a name and what does it."""
    path = root / file
    length = path.stat().st_size

    def cut(to):
        return lambda: os.truncate(path, to)

    def punch(at, count):
        return lambda: mounts.punch_hole(path, at, count)
    if length:
        yield "emptied", cut(0)
        yield "cut by a byte", cut(length - 1)
        yield "cut in the middle", cut(length // 2)
    yield "4 KiB of zeros appended", cut(length + 4096)
    yield "3 MiB of zeros appended", cut(length + (3 << 20))
    if length >= 4096:
        yield "a hole at the start", punch(0, 4096)
        yield "a hole in the middle", punch(length // 2 // 4096 * 4096, 4096)
        # Where there is data, in a file with space that is not used.
        ranges = mounts.data_ranges(path)
        if ranges:
            at, end = ranges[len(ranges) // 2]
            yield "a hole in data", punch((at + end) // 2 // 4096 * 4096, 4096)
    if any(other != path and other.is_file() for other in root.rglob("*")):
        # Without a file there is no database.
        yield "removed", path.unlink


def damage_each(context, how):
    with mounts.scratch(context.work) as scratch:
        original, folder, expected = scratch / "original", scratch / "data", Expected()
        # One writer, one partition: so there is one order of the writes.
        with start(context, original, partitions=1) as server:
            load = Load(server, expected, context.seed, 6 * STEPS, writers=1, new_keys=True)
            load.wait()
            if how == "kill":
                server.kill()
            elif server.stop() != 0:
                raise Failed(f"SIGTERM: {server.reason()}")
        files = sorted(path.relative_to(original) for path in original.rglob("*") if path.is_file())
        outcomes = collections.Counter()
        for file in some_of_each_kind(context.chance, files):
            for name, _ in damages(original, file):
                shutil.rmtree(folder, ignore_errors=True)
                subprocess.run(["cp", "-a", "--sparse=always", original, folder], check=True)
                dict(damages(folder, file))[name]()
                context.runs_done += 1
                try:
                    outcomes[open_damaged(context, folder, file, files, expected, how)] += 1
                except Failed as failure:
                    context.failures.append(f"{file} {name}: {failure}")
        return f"{len(files)} files; " + ", ".join(f"{text}: {count}" for text, count in outcomes.most_common())


def some_of_each_kind(chance, files, most=4):
    """Files whose names differ by their numbers alone are of one kind."""
    kinds = collections.defaultdict(list)
    for file in files:
        kinds["".join("#" if letter.isdigit() else letter for letter in str(file))].append(file)
    return [file for kind in kinds.values() for file in sorted(chance.sample(kind, min(most, len(kind))))]


def open_damaged(context, folder, file, files, expected, how):
    """Names the damage, or returns what was acknowledged; what it did."""
    with Server(context, folder, new=False) as server:
        try:
            if not server.wait_ready():
                server.end()
                reason = server.reason()
                # Of a store that was not closed, an end that is cut off looks like one that was not written, and only
                # another file tells that there was more.
                named = [other for other in files if other.name in reason]
                if how == "kill" and named and file not in named:
                    return "refused by another file's name"
                if file not in named:
                    raise Failed(f"it does not open, and does not name the file: {reason}".replace(str(folder), "DATA"))
                return "refused by name"
            client = server.client()
            names = [name for name in expected.keys if expected.keys[name].durable is not None]
            found, refused = [], []
            for name in names:
                value = client.call("GET", name)
                if isinstance(value, Refusal):
                    refused.append(value)
                    context.messages.note("GET: -" + value, folder)
                elif value == expected.keys[name].durable:
                    found.append(name)
                elif value is not None:
                    raise Failed(f"GET {name} returns a wrong value")
            server.kill()
        except Gone as gone:
            server.end()
            raise Failed(f"the server ended while it was read: {server.reason()}") from gone
        is_told = bool(refused) or any(file.name in line for line in server.lines)
        lost = len(names) - len(found) - len(refused)
        if lost and not is_told:
            is_end = found == names[:len(found)]
            if how == "stop" or not is_end:
                where = "at the end" if is_end else "in the middle"
                raise Failed(f"{lost} of {len(names)} acknowledged writes are not there, silently, {where}")
            return "the last writes are gone, as after an interrupted one"
        if any(file.name not in refusal for refusal in refused):
            unnamed = next(refusal for refusal in refused if file.name not in refusal)
            context.messages.note(f"does not name the file: -{unnamed}", folder)
        if not refused and not lost:
            return "told, and all there" if is_told else "all there"
        code, text = command(context, "check", folder)
        if code == 0:
            raise Failed(f"{len(refused)} reads fail, and halite check finds nothing")
        return "served, the damage told"


CASES = {"eio": eio, "short": short, "enospc": enospc, "lost-device": lost_device, "read-only": read_only, "quota": quota,
         "weak": weak, "damaged": damaged}
