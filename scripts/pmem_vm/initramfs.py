"""The guest's files: an archive that the kernel unpacks into its memory and starts `/init` from.

It holds busybox, the kernel's modules for persistent memory and the network, the programs that set
the devices up (copied from this machine, with their libraries), and Halite.
"""

import lzma
import pathlib
import shutil
import stat
import subprocess

# The modules of the three devices and the network; those that these depend on come with them.
MODULES = ("nfit", "cxl_acpi", "cxl_pci", "cxl_mem", "cxl_pmem", "virtio_pmem", "nd_pmem", "virtio_net")
TOOLS = ("ndctl", "cxl", "mkfs.ext4")


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


def modules_in_order(kernel):
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

    for name in MODULES:
        add(name)
    return ordered


def libraries_of(program):
    """The paths of the dynamic libraries that a program loads, its loader included."""
    listed = subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout
    words = (word for line in listed.splitlines() for word in line.split())
    return [word for word in words if word.startswith("/")]


def build(to, kernel, busybox, programs):
    """Writes the archive; `programs` maps names in the guest's `/bin` to paths of static programs."""
    archive = Archive()
    for name in ("dev", "proc", "sys", "mnt", "tmp"):
        archive.folder(name)
    # The kernel opens it before `/init` can mount /dev.
    archive.character_device("dev/console", 5, 1)
    archive.file("init", pathlib.Path(__file__).with_name("init").read_bytes())
    archive.file("bin/busybox", busybox.read_bytes())
    for name, path in programs.items():
        archive.file(f"bin/{name}", pathlib.Path(path).read_bytes())
    libraries = set()
    for tool in TOOLS:
        path = shutil.which(tool, path="/usr/sbin:/sbin:/usr/bin:/bin")
        archive.file(f"bin/{tool}", pathlib.Path(path).read_bytes())
        libraries.update(libraries_of(path))
    for path in sorted(libraries):
        archive.file(path.lstrip("/"), pathlib.Path(path).read_bytes())
    modules = modules_in_order(kernel)
    for name, contents in modules.items():
        archive.file(f"modules/{name}.ko", contents, 0o644)
    archive.file("modules/order", "\n".join(modules).encode() + b"\n", 0o644)
    to.write_bytes(archive.finish())
