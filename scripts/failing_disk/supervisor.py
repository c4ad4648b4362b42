"""Runs a program, and answers some of its calls of the kernel in the kernel's place.

    supervisor.py CONTROL FOLDER PLAN PROGRAM [ARGUMENT...]

A seccomp filter hands the program's calls that change files to this process (SECCOMP_RET_USER_NOTIF), which lets the
kernel perform them, answers them with an error, or performs the first part of a write. Nothing is seen of this in the
program: it may call the kernel by a library or not. Only calls about files within FOLDER are counted and answered.

PLAN is the first command, or null; CONTROL is the descriptor of a socket for more. The first line that comes back is
the process of the program; then each line that is sent is a command, and its reply says what happened so far:

    {"do": "fail", "classes": ["sync"], "errno": "EIO", "after": 7, "count": 1}
    {"do": "short", "after": 7, "count": 10, "seed": 1}
    {"do": "watch"}        from now on, remembers what was durable of each file; so does any command with "watch": true
    {"do": "stop"}         no more calls are answered
    {"do": "report"}
    {"do": "wait"}         until the program has ended
    {"do": "lose", "seed": 1}    when the program has ended: see Durable

A call that fails is not made. `count`: how many calls fail; null: all from then on.
"""
import array
import collections
import contextlib
import ctypes
import errno
import fcntl
import json
import mmap
import os
import platform
import random
import select
import signal
import socket
import struct
import sys
import time

# Calls of x86-64 that change a file, and where their descriptor is among the arguments, or that of a folder and a path.
CALLS = {
    1: ("write", "write"), 18: ("pwrite64", "write"), 20: ("writev", "write"), 296: ("pwritev", "write"),
    328: ("pwritev2", "write"),
    26: ("msync", "sync"), 74: ("fsync", "sync"), 75: ("fdatasync", "sync"),
    77: ("ftruncate", "allocate"), 285: ("fallocate", "allocate"),
    2: ("open", "create"), 83: ("mkdir", "create"), 86: ("link", "create"), 257: ("openat", "create"),
    258: ("mkdirat", "create"), 265: ("linkat", "create"),
    82: ("rename", "rename"), 264: ("renameat", "rename"), 316: ("renameat2", "rename"),
    87: ("unlink", "remove"), 84: ("rmdir", "remove"), 263: ("unlinkat", "remove"),
}
# Of a call with paths: the arguments (folder, path) of the name that is made or changed.
PATHS = {
    "open": (None, 0), "mkdir": (None, 0), "link": (None, 1), "rename": (None, 1), "unlink": (None, 0),
    "rmdir": (None, 0),
    "openat": (0, 1), "mkdirat": (0, 1), "linkat": (2, 3), "renameat": (2, 3), "renameat2": (2, 3), "unlinkat": (0, 1),
}
CREATES = os.O_CREAT | (os.O_TMPFILE & ~os.O_DIRECTORY)

SYS_SECCOMP, SYS_PIDFD_GETFD, SYS_PIDFD_OPEN = 317, 438, 434
PR_SET_NO_NEW_PRIVS, PR_SET_PDEATHSIG = 38, 1
ARCH_X86_64 = 0xC000003E
RET_ALLOW, RET_USER_NOTIF = 0x7FFF0000, 0x7FC00000
NOTIF_RECV, NOTIF_SEND = 0xC0502100, 0xC0182101
FLAG_CONTINUE = 1
PAGE = 4096

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long


def syscall(*arguments):
    answer = libc.syscall(*[ctypes.c_long(a) if isinstance(a, int) else a for a in arguments])
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return answer


def install_filter():
    """Hands the calls above to the listener that is returned, for this process and all that it becomes."""
    load, equal, has_bit, ret = 0x20, 0x15, 0x45, 0x06
    opens = {"open": 1, "openat": 2}
    plain = [number for number, (name, _) in CALLS.items() if name not in opens]
    program = [(load, 0, 0, 4), (equal, 1, 0, ARCH_X86_64), (ret, 0, 0, RET_ALLOW), (load, 0, 0, 0)]
    for number in plain:
        program += [(equal, 0, 1, number), (ret, 0, 0, RET_USER_NOTIF)]
    for number, (name, _) in CALLS.items():
        if name in opens:
            program += [(equal, 0, 4, number), (load, 0, 0, 16 + 8 * opens[name]), (has_bit, 0, 1, CREATES),
                        (ret, 0, 0, RET_USER_NOTIF), (ret, 0, 0, RET_ALLOW)]
    program.append((ret, 0, 0, RET_ALLOW))
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in program))
    head = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(program), ctypes.addressof(code)))
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    set_mode_filter, flag_new_listener = 1, 8
    return syscall(SYS_SECCOMP, set_mode_filter, flag_new_listener, head)


class Durable:
    """What a sync made durable of each file, page by page, and what a sync that failed may have lost of it.

    A kernel that cannot write pages says so once and marks them clean: they may be lost although later syncs succeed,
    unless they are written again. So `lose` puts the older content of such pages back, of each by chance.
    """

    def __init__(self, folder):
        self.folder = folder
        self.known = {}
        self.lost = collections.defaultdict(dict)
        self.written = collections.defaultdict(set)
        for path, _, names in os.walk(folder):
            for name in names:
                file = os.path.join(path, name)
                self.known[os.stat(file).st_ino] = bytearray(open(file, "rb").read())

    def wrote(self, inode, at, count):
        if self.lost[inode]:
            self.written[inode].update(range(at // PAGE, (at + count + PAGE - 1) // PAGE))

    def synced(self, path, start, end, has_failed):
        """`start`, `end`: the bytes that were synced, of the file that can be opened as `path`."""
        with open(path, "rb") as file:
            inode, length = os.fstat(file.fileno()).st_ino, os.fstat(file.fileno()).st_size
            start, end = start // PAGE * PAGE, min(end, length)
            file.seek(start)
            now = file.read(max(end - start, 0))
        known, lost = self.known.setdefault(inode, bytearray()), self.lost[inode]
        if len(known) < start + len(now):
            known.extend(bytes(start + len(now) - len(known)))
        if has_failed:
            for at in self.pages_that_differ(known, now, start):
                page = now[at - start:at - start + PAGE]
                older = lost[at // PAGE][0] if at // PAGE in lost else bytes(known[at:at + len(page)])
                lost[at // PAGE] = (older, page)
            return
        for number in [number for number in lost if start <= number * PAGE < start + len(now)]:
            page = now[number * PAGE - start:(number + 1) * PAGE - start]
            if number in self.written[inode] or page != lost[number][1]:
                del lost[number]
        self.written[inode].clear()
        known[start:start + len(now)] = now

    @staticmethod
    def pages_that_differ(known, now, start):
        part = 1 << 20
        for at in range(0, len(now), part):
            if known[start + at:start + at + part] != now[at:at + part]:
                for page in range(at, min(at + part, len(now)), PAGE):
                    if known[start + page:start + page + PAGE] != now[page:page + PAGE]:
                        yield start + page

    def lose(self, seed):
        chance, count = random.Random(seed), 0
        for path, _, names in os.walk(self.folder):
            for name in sorted(names):
                file = os.path.join(path, name)
                pages = self.lost.get(os.stat(file).st_ino, {})
                with open(file, "r+b") as opened:
                    length = os.fstat(opened.fileno()).st_size
                    for number, (older, _) in sorted(pages.items()):
                        if chance.random() < 0.5 and number * PAGE < length:
                            os.pwrite(opened.fileno(), older[:length - number * PAGE], number * PAGE)
                            count += 1
        return count


class Supervisor:
    def __init__(self, control, folder, pid, listener):
        self.control, self.folder, self.pid, self.listener = control, folder, pid, listener
        self.pidfd = syscall(SYS_PIDFD_OPEN, pid, 0)
        self.maps = []
        self.descriptors = {}
        self.plan = None
        self.seen = 0
        self.counts = collections.Counter()
        self.answered = []
        self.durable = None

    def run(self):
        poll = select.poll()
        poll.register(self.listener, select.POLLIN)
        poll.register(self.control, select.POLLIN)
        commands = self.control.makefile("r")
        while True:
            for descriptor, events in poll.poll():
                if descriptor == self.listener:
                    if events & select.POLLIN:
                        self.answer()
                    else:
                        poll.unregister(self.listener)
                else:
                    line = commands.readline()
                    if not line:
                        return
                    reply = self.command(json.loads(line))
                    self.control.sendall((json.dumps(reply) + "\n").encode())

    def command(self, command):
        if command.get("watch") or command["do"] == "watch":
            self.durable = Durable(self.folder)
        match command["do"]:
            case "fail" | "short":
                self.plan, self.seen, self.answered = command, 0, []
                self.plan["chance"] = random.Random(command.get("seed"))
            case "stop":
                self.plan = None
            case "lose":
                return {"lost": self.durable.lose(command["seed"])}
            case "wait":
                return {"status": os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])}
        return {"counts": self.counts, "answered": self.answered}

    def answer(self):
        notice = bytearray(80)
        try:
            fcntl.ioctl(self.listener, NOTIF_RECV, notice)
        except OSError:
            return  # The thread was killed meanwhile.
        number, _, _, call = struct.unpack_from("QIIi", notice)
        arguments = struct.unpack_from("6Q", notice, 32)
        value, error, flags = 0, 0, FLAG_CONTINUE
        try:
            answer = self.decide(*CALLS[call], arguments)
            if answer is not None:
                value, error, flags = (answer, 0, 0) if answer >= 0 else (0, answer, 0)
        except OSError as failure:
            if self.is_there():
                print("supervisor:", failure, file=sys.stderr, flush=True)
        try:
            fcntl.ioctl(self.listener, NOTIF_SEND, struct.pack("QqiI", number, value, error, flags))
        except OSError:
            pass

    def is_there(self):
        return not select.select([self.pidfd], [], [], 0)[0]

    def decide(self, name, kind, arguments):
        """The result of the call in the kernel's place; `None`: the kernel is to perform it."""
        path, start, end = self.place(name, arguments)
        if path is None or not (path == self.folder or path.startswith(self.folder + "/")):
            return None
        self.counts[kind] += 1
        plan, answer = self.plan, None
        if plan is not None and kind in plan.get("classes", ["write"]):
            self.seen += 1
            is_due = self.seen > plan["after"]
            if is_due and (plan["count"] is None or self.seen <= plan["after"] + plan["count"]):
                answer = (-getattr(errno, plan["errno"]) if plan["do"] == "fail"
                          else self.write_a_part(name, arguments, plan["chance"]))
                if answer is not None:
                    self.answered.append({"call": name, "class": kind, "file": path[len(self.folder) + 1:],
                                          "answer": answer, "time": time.monotonic()})
        if self.durable:
            self.remember(name, kind, arguments, path, start, end, answer is not None)
        return answer

    def remember(self, name, kind, arguments, path, start, end, has_failed):
        opened = self.opened_as(path) if name == "msync" else f"/proc/{self.pid}/fd/{arguments[0]}"
        if kind == "write" and name == "pwrite64" and not has_failed:
            self.durable.wrote(os.stat(opened).st_ino, arguments[3], arguments[2])
        elif kind == "sync" and os.path.isfile(opened):
            self.durable.synced(opened, start, end, has_failed)

    def place(self, name, arguments):
        """The path of the file, and which bytes of it a sync is about."""
        if name == "msync":
            return self.mapped(arguments[0], arguments[1])
        if name in PATHS:
            folder, path = PATHS[name]
            path = self.text(arguments[path])
            # The kernel's name for the current folder, in the lower half of a register or in all of it.
            if not path.startswith("/") and (folder is None or arguments[folder] & 0xFFFFFFFF == 0xFFFFFF9C):
                path = os.path.join(os.readlink(f"/proc/{self.pid}/cwd"), path)
            elif not path.startswith("/"):
                path = os.path.join(os.readlink(f"/proc/{self.pid}/fd/{arguments[folder] & 0xFFFFFFFF}"), path)
            return os.path.normpath(path), 0, 0
        return os.readlink(f"/proc/{self.pid}/fd/{arguments[0] & 0xFFFFFFFF}"), 0, 1 << 62

    def mapped(self, address, count):
        for is_new in (False, True):
            if is_new:
                with open(f"/proc/{self.pid}/maps") as maps:
                    self.maps = []
                    for line in maps:
                        fields = line.split(None, 5)
                        if len(fields) == 6 and fields[5].startswith(self.folder):
                            start, end = (int(number, 16) for number in fields[0].split("-"))
                            self.maps.append((start, end, int(fields[2], 16), fields[5].rstrip("\n")))
            for start, end, offset, path in self.maps:
                if start <= address < end:
                    return path, offset + address - start, offset + address - start + count
        return None, 0, 0

    def opened_as(self, path):
        """A descriptor of a mapped file. One that was made without a name is mapped by the name `#NUMBER (deleted)`."""
        if path not in self.descriptors:
            for name in os.listdir(f"/proc/{self.pid}/fd"):
                descriptor = f"/proc/{self.pid}/fd/{name}"
                if os.readlink(descriptor) == path:
                    self.descriptors[path] = descriptor
        return self.descriptors[path]

    def text(self, address):
        path = b""
        while b"\0" not in path:
            at = address + len(path)
            path += self.bytes(at, PAGE - at % PAGE)
        return path.split(b"\0")[0].decode(errors="surrogateescape")

    def bytes(self, address, count):
        """Bytes of the program's memory, which another one takes the place of when it is executed."""
        with open(f"/proc/{self.pid}/mem", "rb", 0) as memory:
            found = os.pread(memory.fileno(), count, address)
        if not found:
            raise OSError(errno.EFAULT, "the program has no such memory")
        return found

    def write_a_part(self, name, arguments, chance):
        """Writes the first part of the bytes; returns how many."""
        count = arguments[2]
        if name not in ("write", "pwrite64") or count < 2:
            return None
        descriptor = syscall(SYS_PIDFD_GETFD, self.pidfd, arguments[0], 0)
        try:
            is_direct = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_DIRECT
            # Past the page cache, the kernel's parts are whole blocks of the device.
            unit = 512 if is_direct else 1
            if count <= unit:
                return None
            part = chance.choice([unit, count - unit, chance.randrange(unit, count)]) // unit * unit
            data = self.bytes(arguments[1], part)
            # Aligned to a page, as the program's bytes may have to be.
            buffer = memoryview(mmap.mmap(-1, part))
            buffer[:] = data
            if name == "write":
                return os.write(descriptor, buffer)
            return os.pwrite(descriptor, buffer, arguments[3])
        finally:
            os.close(descriptor)


def main():
    control, folder = int(sys.argv[1]), os.path.realpath(sys.argv[2])
    plan, command = json.loads(sys.argv[3]), sys.argv[4:]
    if platform.machine() != "x86_64":
        sys.exit("supervisor: it knows the numbers of calls of x86-64 only")
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        try:
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            os.close(control)
            ours.close()
            listener = install_filter()
            # Not `send_fds`, whose arguments are checked by a part of the library that is loaded late.
            theirs.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [listener]))])
            os.close(listener)
            theirs.close()
            os.execvp(command[0], command)
        except OSError as failure:
            os.write(2, f"supervisor: {failure}\n".encode())
        os._exit(125)
    theirs.close()
    _, descriptors, _, _ = socket.recv_fds(ours, 1, 1)
    if not descriptors:
        sys.exit("supervisor: no seccomp filter with a listener here")
    control = socket.socket(fileno=control)
    # The program's output ends with the program, not with this process.
    nothing = os.open("/dev/null", os.O_RDWR)
    os.dup2(nothing, 1)
    control.sendall((json.dumps({"pid": pid}) + "\n").encode())
    supervisor = Supervisor(control, folder, pid, descriptors[0])
    if plan:
        supervisor.command(plan)
    supervisor.run()
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(supervisor.pidfd, signal.SIGKILL)


if __name__ == "__main__":
    main()
