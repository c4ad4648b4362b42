"""File systems that are made, mounted and removed again."""
import contextlib
import ctypes
import dataclasses
import fcntl
import os
import pathlib
import shutil
import struct
import subprocess
import tempfile
import time


class Unavailable(Exception):
    """Something that a case needs is not on this machine."""


class Failed(Exception):
    """Halite did not behave as it should."""


def has_file_system(name):
    """Whether the kernel has it; a module that brings it is asked for."""
    def listed():
        return any(line.split()[-1] == name for line in pathlib.Path("/proc/filesystems").read_text().splitlines())
    if not listed() and shutil.which("modprobe"):
        subprocess.run(["modprobe", "-q", name], stderr=subprocess.DEVNULL, check=False)
    return listed()


def need_file_system(name):
    if not has_file_system(name):
        raise Unavailable(f"this kernel has no {name}")


def need_program(name):
    found = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if not found:
        raise Unavailable(f"the program {name} is missing")
    return found


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode:
        text = (done.stderr or done.stdout).strip().splitlines()
        raise Unavailable(f"{' '.join(map(str, command))}: {text[0] if text else done.returncode}")
    return done.stdout.strip()


@contextlib.contextmanager
def scratch(work):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="halite-failing-disk-", dir=work)).resolve()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def mounted(*arguments, at):
    """`mount ARGUMENTS AT`, until the end of the block."""
    at.mkdir(exist_ok=True)
    run("mount", *arguments, at)
    try:
        yield at
    finally:
        unmount(at)


def is_mounted(at):
    """By the kernel's list, as a file system that is broken does not answer."""
    return any(line.split()[4] == str(at) for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines())


def unmount(at):
    for _ in range(50):
        if not is_mounted(at) or subprocess.run(["umount", at], capture_output=True, check=False).returncode == 0:
            return
        time.sleep(0.1)
    subprocess.run(["umount", "-l", at], check=False)


@contextlib.contextmanager
def loop(image):
    device = run(need_program("losetup"), "--find", "--show", image)
    try:
        yield device
    finally:
        subprocess.run(["losetup", "--detach", device], check=False)


def make_image(path, size):
    with open(path, "wb") as file:
        file.truncate(size)
    return path


@contextlib.contextmanager
def ext4(folder, size=64 << 20, options=(), mount_options="rw"):
    """An ext4 of that size; the device and where it is mounted."""
    need_file_system("ext4")
    image = make_image(folder / "ext4.image", size)
    run(need_program("mkfs.ext4"), "-q", "-F", "-m", "0", *options, image)
    with loop(image) as device, mounted("-o", mount_options, device, at=folder / "ext4") as at:
        yield device, at


@contextlib.contextmanager
def with_quotas(folder):
    try:
        image = ext4(folder, options=["-O", "quota", "-E", "quotatype=usrquota"], mount_options="usrquota")
        mount = image.__enter__()
    except Unavailable as reason:
        raise Unavailable(f"no quotas of users on ext4 (CONFIG_QFMT_V2 of the kernel)? {reason}") from reason
    with contextlib.ExitStack() as stack:
        stack.push(image.__exit__)
        yield mount


@contextlib.contextmanager
def tmpfs(folder, size=64 << 20):
    with mounted("-t", "tmpfs", "-o", f"size={size}", "tmpfs", at=folder / "tmpfs") as at:
        yield at


@contextlib.contextmanager
def ramfs(folder):
    need_file_system("ramfs")
    with mounted("-t", "ramfs", "ramfs", at=folder / "ramfs") as at:
        yield at


@contextlib.contextmanager
def overlay(folder):
    need_file_system("overlay")
    lower, upper, inner = folder / "lower", folder / "upper", folder / "inner"
    for path in (lower, upper, inner):
        path.mkdir()
    options = f"lowerdir={lower},upperdir={upper},workdir={inner}"
    with mounted("-t", "overlay", "-o", options, "overlay", at=folder / "overlay") as at:
        yield at


@contextlib.contextmanager
def vfat(folder):
    need_file_system("vfat")
    image = make_image(folder / "vfat.image", 256 << 20)
    run(need_program("mkfs.vfat"), image)
    with mounted("-o", "loop", image, at=folder / "vfat") as at:
        yield at


@contextlib.contextmanager
def xfs(folder):
    need_file_system("xfs")
    image = make_image(folder / "xfs.image", 320 << 20)
    run(need_program("mkfs.xfs"), "-q", image)
    with loop(image) as device, mounted(device, at=folder / "xfs") as at:
        yield device, at


@contextlib.contextmanager
def btrfs(folder):
    need_file_system("btrfs")
    image = make_image(folder / "btrfs.image", 256 << 20)
    run(need_program("mkfs.btrfs"), "-q", image)
    with mounted("-o", "loop", image, at=folder / "btrfs") as at:
        yield at


@contextlib.contextmanager
def fuse(folder, name, command):
    """A file system that a program serves by FUSE; `command` has its arguments, the last but `at`."""
    need_file_system("fuse")
    if not os.path.exists("/dev/fuse"):
        raise Unavailable("there is no /dev/fuse")
    at = folder / name
    at.mkdir()
    run(*command, at)
    for _ in range(100):
        if is_mounted(at):
            break
        time.sleep(0.05)
    try:
        yield at
    finally:
        unmount(at)


@contextlib.contextmanager
def bindfs(folder):
    program = need_program("bindfs")
    (folder / "below").mkdir()
    with fuse(folder, "bindfs", [program, folder / "below"]) as at:
        yield at


@contextlib.contextmanager
def exfat_fuse(folder):
    """No links, no holes, no modes: as weak as vfat."""
    program = need_program("mount.exfat-fuse")
    image = make_image(folder / "exfat.image", 256 << 20)
    run(need_program("mkfs.exfat"), image)
    with loop(image) as device, fuse(folder, "exfat", [program, device]) as at:
        yield at


@contextlib.contextmanager
def ext4_by_fuse(folder):
    program = need_program("fuse2fs")
    image = make_image(folder / "fuse2fs.image", 256 << 20)
    run(need_program("mkfs.ext4"), "-q", "-F", image)
    with fuse(folder, "fuse2fs", [program, "-o", "fakeroot", image]) as at:
        yield at


def nine_p(folder):
    need_file_system("9p")
    raise Unavailable("this script has no server of 9p")


@dataclasses.dataclass
class Failing:
    """A file system that fails when it is told to: `fail` may return how it did that; `heal` comes before it is mounted
    again."""

    device: str
    at: pathlib.Path
    fail: object
    heal: object = lambda: None


@contextlib.contextmanager
def running_out(folder, room):
    """An ext4 on a device that promises more than it has: it gets `room` bytes more, and writes beyond fail when the
    kernel writes back."""
    need_file_system("ext4")
    with tmpfs(folder, 128 << 20) as below:
        image = make_image(below / "image", 64 << 20)
        run(need_program("mkfs.ext4"), "-q", "-F", "-m", "0", image)

        def limit(more=None):
            for _ in range(20):
                size = 128 << 20 if more is None else image.stat().st_blocks * 512 + more
                try:
                    run("mount", "-o", f"remount,size={size}", below)
                    return
                except Unavailable as reason:
                    # More than that is used by now.
                    refused = reason
            raise refused
        with loop(image) as device, mounted(device, at=folder / "thin") as at:
            yield Failing(device, at, lambda: limit(room), limit)


@contextlib.contextmanager
def going_down(folder, mount):
    with mount(folder) as (device, at):
        yield Failing(device, at, lambda: shut_down(at))


@contextlib.contextmanager
def becoming_read_only(folder):
    with ext4(folder, mount_options="errors=remount-ro") as (device, at):
        yield Failing(device, at, lambda: make_read_only(device, at))


@contextlib.contextmanager
def second(mounted_with_device):
    with mounted_with_device as (_, at):
        yield at


def mount_again(device, at):
    """What is on the device, and nothing that the kernel only remembered."""
    unmount(at)
    fsck = shutil.which("e2fsck", path="/usr/sbin:/sbin")
    if fsck and "ext4" in run("blkid", "-o", "value", "-s", "TYPE", device):
        # Replays the journal, and takes the note of an error away.
        subprocess.run([fsck, "-f", "-p", device], capture_output=True, check=False)
    run("mount", device, at)


def make_read_only(device, at):
    """As an administrator does, if that is possible while files are open; or as an error does; says which."""
    done = subprocess.run(["mount", "-o", "remount,ro", at], capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return "remounted read-only"
    trigger = pathlib.Path("/sys/fs/ext4") / pathlib.Path(device).name / "trigger_fs_error"
    try:
        trigger.write_text("halite")
    except OSError as failure:
        raise Unavailable(f"{trigger}: {failure}") from failure
    return "a remount is refused by the kernel while files are open, an error makes it read-only"


def limit_user(device, user, limit):
    """A hard limit of bytes for a user, by quotactl(2)."""
    set_quota, user_quota = 0x800008, 0
    # struct if_dqblk: limits in KiB, and which of the fields count.
    block = struct.pack("8QI4x", limit >> 10, limit >> 10, 0, 0, 0, 0, 0, 0, 1)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.quotactl(set_quota << 8 | user_quota, device.encode(), user, block):
        raise Unavailable(f"quotactl: {os.strerror(ctypes.get_errno())}")


def fallocate(path, mode, at, count):
    libc = ctypes.CDLL(None, use_errno=True)
    with open(path, "r+b") as file:
        if libc.fallocate64(file.fileno(), mode, ctypes.c_int64(at), ctypes.c_int64(count)):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def punch_hole(path, at, count):
    keep_size, punch = 1, 2
    fallocate(path, keep_size | punch, at, count)


def data_ranges(path):
    """Where a file has bytes that are not all zero, in steps of 4 KiB; neighbours as one range."""
    ranges, step = [], 4096
    with open(path, "rb") as file:
        at = 0
        while part := file.read(step):
            if part.count(0) < len(part):
                if ranges and ranges[-1][1] == at:
                    ranges[-1] = (ranges[-1][0], at + step)
                else:
                    ranges.append((at, at + step))
            at += step
    return ranges


def abilities(at):
    """What a file system lacks, of what a database might use."""
    probe = at / "probe"
    probe.write_bytes(bytes(8192))

    def opens(flags, path=probe):
        os.close(os.open(path, os.O_RDWR | flags, 0o600))

    def exchange():
        (at / "other").write_bytes(b"")
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.renameat2(-100, os.fsencode(probe), -100, os.fsencode(at / "other"), 2):
            raise OSError(ctypes.get_errno(), "renameat2")
    tries = {"O_DIRECT": lambda: opens(os.O_DIRECT), "O_TMPFILE": lambda: opens(os.O_TMPFILE, at),
             "fallocate": lambda: fallocate(probe, 0, 8192, 4096), "holes": lambda: punch_hole(probe, 0, 4096),
             "hard links": lambda: os.link(probe, at / "link"), "renames that exchange": exchange}
    lacks = []
    for name, attempt in tries.items():
        try:
            attempt()
        except OSError:
            lacks.append(name)
    for name in ("probe", "other", "link"):
        (at / name).unlink(missing_ok=True)
    return lacks


def shut_down(at):
    """Cuts a file system off its device at once, and forgets what it has not written (XFS and ext4)."""
    going_down, without_log_flush = 0x8004587D, 2
    descriptor = os.open(at, os.O_RDONLY)
    try:
        fcntl.ioctl(descriptor, going_down, ctypes.c_uint32(without_log_flush))
    except OSError as failure:
        raise Unavailable(f"this file system cannot be shut down: {failure}") from failure
    finally:
        os.close(descriptor)


def fill(folder, leave):
    """A file that leaves `leave` bytes of the file system."""
    ballast = folder / "ballast"
    with open(ballast, "wb") as file:
        while True:
            free = os.statvfs(folder)
            more = free.f_bavail * free.f_frsize - leave
            if more < free.f_frsize:
                break
            try:
                # The file system takes some of it for the file's extents.
                more = more // 2 if more > 1 << 20 else more
                os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, more)
            except OSError:
                break
        os.fsync(file.fileno())
    return ballast
