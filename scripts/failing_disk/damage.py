"""Files that are damaged while the database is not open."""
import collections
import os
import shutil
import subprocess

import mounts
from common import STEPS, start
from mounts import Failed
from server import Gone, Refusal, Server, command
from workload import Expected, Load


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
                    outcomes[open_damaged(context, folder, file, files, expected, how, name)] += 1
                except Failed as failure:
                    context.failures.append(f"{file} {name}: {failure}")
        return f"{len(files)} files; " + ", ".join(f"{text}: {count}" for text, count in outcomes.most_common())


def some_of_each_kind(chance, files, most=4):
    """Files whose names differ by their numbers alone are of one kind."""
    kinds = collections.defaultdict(list)
    for file in files:
        kinds["".join("#" if letter.isdigit() else letter for letter in str(file))].append(file)
    return [file for kind in kinds.values() for file in sorted(chance.sample(kind, min(most, len(kind))))]


def open_damaged(context, folder, file, files, expected, how, damage):
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
            if how == "stop" or not is_end or damage == "removed":
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
