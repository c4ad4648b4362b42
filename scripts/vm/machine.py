"""A guest: QEMU with one device, whose contents are a file of the host."""

import queue
import socket
import subprocess
import threading
import time

# Where the memory of a q35 with less than 2 GiB has its DIMMs.
NVDIMM_BASE = 0x100000000
# The plugin looks up addresses in the kernel's map of all memory.
PLAIN_ADDRESSES = "nokaslr no5lvl nopti"


class Failed(Exception):
    """What did not happen as it must, and what was seen instead."""


class Guests:
    """Starts guests of one device, one after another, on the same image."""

    def __init__(self, device, folder, kernel, initramfs, cache=None):
        """`device` has a name, a machine, and QEMU's arguments for an image. With the plugin `cache`, guests that are started as `lossy` lose what was not flushed and fenced."""
        self.cache = cache
        self.device = device
        self.folder = folder
        self.kernel = kernel
        self.initramfs = initramfs

    def start(self, task, machine="", lossy=False, **parameters):
        return Guest(self, task, machine, lossy, parameters)

    def run(self, task, seconds_max=120, **more):
        """The lines that a task says until the guest has powered off; fails unless it is done."""
        with self.start(task, **more) as guest:
            lines = guest.wait_for(lambda line: line == "done", seconds_max)
            guest.wait_for_power_off()
            return lines


class Guest:
    """A running guest. Leaving its context cuts its power."""

    def __init__(self, guests, task, machine, lossy, parameters):
        device = guests.device
        self.image = guests.folder / "device.image"
        self.durable = guests.folder / "durable.image" if lossy and guests.cache else None
        cache = []
        if self.durable:
            copy_sparse(self.image, self.durable)
            where = f"image={self.image},durable={self.durable},base={NVDIMM_BASE:#x}"
            cache = ["-plugin", f"{guests.cache},{where}"]
        self.log = guests.folder / f"{task}.log"
        self.port = free_port()
        words = {"DEVICE": device.name, "TASK": task, **parameters}
        words = " ".join(f"{name}={value}" for name, value in words.items())
        command = [
            # However this process ends, the kernel ends QEMU with it.
            *("setpriv", "--pdeathsig", "KILL", "qemu-system-x86_64"),
            # Linux creates CXL regions only where it believes that it can invalidate caches, and so
            # not where it sees a hypervisor.
            *("-machine", device.machine + machine, "-accel", "tcg", "-cpu", "max,-hypervisor"),
            # One processor: with two, the kernel's patches of its own code are sometimes seen half
            # done by the other one in QEMU 7.2 ("Oops: int3"), and the guest panics.
            *("-smp", "1", "-m", "1G,slots=2,maxmem=4G"),
            *("-nodefaults", "-display", "none", "-no-reboot"),
            *device.arguments(guests.folder / "device"),
            *cache,
            *("-netdev", f"user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:{self.port}-:6379"),
            *("-device", "virtio-net-pci,netdev=net,bus=pcie.0,romfile="),
            *("-serial", f"file:{guests.folder}/kernel.log", "-serial", "stdio"),
            *("-kernel", guests.kernel, "-initrd", guests.initramfs),
            *("-append", f"console=ttyS0 panic=-1 {device.kernel_arguments} {PLAIN_ADDRESSES if cache else ''} {words}"),
        ]
        self.process = subprocess.Popen(
            list(map(str, command)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        self.lines = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        with self.log.open("w") as log:
            for line in self.process.stdout:
                log.write(line)
                log.flush()
                self.lines.put(line.rstrip())
        self.lines.put(None)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.cut_power()

    def wait_for(self, condition, seconds_max):
        """The lines said up to the first for which the condition holds."""
        deadline = time.monotonic() + seconds_max
        lines = []
        while True:
            try:
                line = self.lines.get(timeout=max(0, deadline - time.monotonic()))
            except queue.Empty:
                raise self._failed(lines, f"not done in {seconds_max} s") from None
            if line is None:
                raise self._failed(lines, "the guest ended")
            lines.append(line)
            if condition(line):
                return lines
            if line.startswith("failed: "):
                raise self._failed(lines, line)

    def _failed(self, lines, why):
        said = "\n".join(f"    {line}" for line in lines[-20:])
        return Failed(f"{self.log.stem}: {why}; the guest said:\n{said}\n(its logs: {self.log.parent})")

    def wait_for_power_off(self):
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            raise Failed(f"{self.log.stem}: the guest does not power off") from None

    def cut_power(self):
        """Kills QEMU, and waits until it is gone. The medium is then as the cache left it, if there is one."""
        self.process.kill()
        self.process.wait()
        if self.durable:
            self.durable.replace(self.image)
            self.durable = None


def copy_sparse(source, target):
    subprocess.run(["cp", "--sparse=always", source, target], check=True)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]
