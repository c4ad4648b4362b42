"""The guest's files: an archive that the kernel unpacks into its memory and starts `/init` from.

It holds busybox, the kernel's modules for the devices, the programs that set these up (copied from
this machine, with their libraries), and Halite.
"""

import lzma
import pathlib
import shutil
import stat
import subprocess


class Archive:
    """A cpio archive of the format `newc`, the one that kernels read."""

    def __init__(self):
        self.bytes = bytearray()
        self.folders = set()
        self.count = 0

    def _entry(self, name, mode, contents=b"", device=(0, 0)):
        self.count += 1
        path = name.encode() + b"\0"
        fields = (self.count, mode, 0, 0, 1, 0, len(contents), 0, 0, *device, len(path), 0)
        self.bytes += b"070701" + b"".join(b"%08x" % field for field in fields) + path
        self.bytes += bytes(-len(self.bytes) % 4) + contents
        self.bytes += bytes(-len(self.bytes) % 4)

    def folder(self, name):
        if name in ("", ".") or name in self.folders:
            return
        self.folder(str(pathlib.PurePath(name).parent))
        self.folders.add(name)
        self._entry(name, stat.S_IFDIR | 0o755)

    def file(self, name, contents, mode=0o755):
        self.folder(str(pathlib.PurePath(name).parent))
        self._entry(name, stat.S_IFREG | mode, contents)

    def character_device(self, name, major, minor):
        self.folder(str(pathlib.PurePath(name).parent))
        self._entry(name, stat.S_IFCHR | 0o600, device=(major, minor))

    def finish(self):
        self._entry("TRAILER!!!", 0)
        return bytes(self.bytes)


def modules_in_order(kernel, names):
    """Names and contents of the modules, each after those that it depends on."""
    found = {}
    for path in kernel.glob("lib/modules/*/kernel/**/*.ko*"):
        found[path.name.split(".")[0].replace("-", "_")] = path
    ordered = {}

    def add(name):
        # A module without a file is built into the kernel.
        if name in ordered or name not in found:
            return
        path = found[name]
        contents = path.read_bytes()
        if path.suffix == ".xz":
            contents = lzma.decompress(contents)
        start = contents.index(b"\0depends=") + len(b"\0depends=")
        depends = contents[start : contents.index(b"\0", start)].decode()
        for other in filter(None, depends.split(",")):
            add(other.replace("-", "_"))
        ordered[name] = contents

    for name in names:
        add(name)
    return ordered


def libraries_of(program):
    """The paths of the dynamic libraries that a program loads, its loader included; none of a static one."""
    listed = subprocess.run(["ldd", program], capture_output=True, text=True)
    if listed.returncode != 0 and "not a dynamic executable" not in listed.stderr:
        listed.check_returncode()
    listed = listed.stdout
    words = (word for line in listed.splitlines() for word in line.split())
    return [word for word in words if word.startswith("/")]


def build(to, kernel, busybox, task, programs, tools, modules):
    """Writes the archive. `task` is what the guest does once `/init` has loaded the modules, which are those named and
    those that they depend on; `programs` maps names in the guest's `/bin` to paths, and `tools` are this machine's."""
    archive = Archive()
    for name in ("dev", "proc", "sys", "mnt", "tmp"):
        archive.folder(name)
    # The kernel opens it before `/init` can mount /dev.
    archive.character_device("dev/console", 5, 1)
    archive.file("init", pathlib.Path(__file__).with_name("init").read_bytes())
    archive.file("task", task.read_bytes())
    archive.file("bin/busybox", busybox.read_bytes())
    paths = dict(programs)
    for tool in tools:
        paths[tool] = shutil.which(tool, path="/usr/sbin:/sbin:/usr/bin:/bin")
    libraries = set()
    for name, path in paths.items():
        archive.file(f"bin/{name}", pathlib.Path(path).read_bytes())
        libraries.update(libraries_of(path))
    for path in sorted(libraries):
        archive.file(path.lstrip("/"), pathlib.Path(path).read_bytes())
    contents_of = modules_in_order(kernel, modules)
    for name, contents in contents_of.items():
        archive.file(f"modules/{name}.ko", contents, 0o644)
    archive.file("modules/order", "\n".join(contents_of).encode() + b"\n", 0o644)
    to.write_bytes(archive.finish())
