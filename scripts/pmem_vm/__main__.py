"""The checks of scripts/pmem-vm, which prepares what they need and says what they are for."""

import argparse
import concurrent.futures
import json
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import initramfs
from devices import DEVICES
from machine import Failed, Guests
from writers import Violations, Writer

# The modules of the three devices and the network.
MODULES = ("nfit", "cxl_acpi", "cxl_pci", "cxl_mem", "cxl_pmem", "virtio_pmem", "nd_pmem", "virtio_net")
TOOLS = ("ndctl", "cxl", "mkfs.ext4")
WRITERS = 6
WRITING_SECONDS_MAX = 3
RECOVERY_SECONDS_MAX = 0.4
# Room for the writers' live data and little more, so that garbage collection runs as well.
POOL_SIZE_MAX = {"indexlog": "64MiB", "lsm": "64MiB"}
ENGINES = list(POOL_SIZE_MAX)
# Within which a guest comes up, on a machine that does much else.
SECONDS_MAX = 300


def say(text):
    print(text, file=sys.stderr, flush=True)


class Check:
    """The checks of one device; a row of the summary."""

    def __init__(self, guests, engine):
        self.guests = guests
        self.engine = engine
        self.lossy = guests.cache is not None
        self.name = guests.device.name
        self.domain = self.conformance = "-"
        self.cut_count = self.recovery_cut_count = self.acknowledged_count = 0
        self.violations = Violations()
        self.failure = None

    def run(self, cuts, seed):
        try:
            say(f"{self.name}: format")
            self.guests.run("format")
            if self.lossy:
                # Emulated with its cache, the device is the same, and much slower.
                self.show_that_it_forgets()
            else:
                self.detect_domain()
                self.run_conformance()
            self.cut_power(cuts, seed)
            say(f"{self.name}: verify every checksum")
            self.guests.run("check")
        except (Failed, OSError) as failure:
            self.failure = failure
            say(f"{self.name}: FAILED: {failure}")

    def detect_domain(self):
        """`halite stat` must call the device what it is."""
        self.domain = self.stat()
        self.expect_domain(self.domain, self.guests.device.domain)
        if self.name == "nvdimm":
            # QEMU's NVDIMM has no count of unsafe shutdowns: its caches are not to be trusted.
            with_caches = self.stat(machine=",nvdimm-persistence=cpu")
            self.expect_domain(with_caches, "memory")
            self.domain += f" ({with_caches} with persistent caches that count no failures)"

    def show_that_it_forgets(self):
        """A line that is not flushed must be lost, and one that is must not."""
        for number, (task, second) in enumerate((("flush", 1), ("forget", 1)), start=1):
            with self.guests.start(task, lossy=True) as guest:
                guest.wait_for(lambda line: line == f"stored {number}", 300)
            lines = self.guests.run("read")
            expected = f"first {number} second {second}"
            if expected not in lines:
                raise Failed(f"after `forgets {task}` the medium must have `{expected}`: {lines}")
            say(f"{self.name}: after `forgets {task}` it has: {expected}")

    def stat(self, **more):
        lines = self.guests.run("stat", **more)
        kernel = next(line.removeprefix("kernel ") for line in lines if line.startswith("kernel "))
        domain = next(json.loads(line)["domain"] for line in lines if line.startswith("{\"path\""))
        region = next(line for line in lines if line.startswith("persistence_domain"))
        say(f"{self.name}: domain {domain} ({region}), Linux {kernel}")
        return domain

    def expect_domain(self, domain, expected):
        if domain != expected:
            raise Failed(f"Halite takes the device for the domain {domain}; it must be {expected}")

    def run_conformance(self):
        say(f"{self.name}: the conformance suite of {self.engine}; this takes minutes")
        lines = self.guests.run("conformance", seconds_max=7200, ENGINE=self.engine)
        result = next(line for line in lines if line.startswith("test result: "))
        say(f"{self.name}: {result}")
        self.conformance = re.search(r"\d+ passed; \d+ failed", result)[0]

    def cut_power(self, cuts, seed):
        """Cuts the power while clients write, again and again, and compares after each cut."""
        moments = random.Random(f"{seed} {self.name}")
        writers = [Writer(number, seed) for number in range(WRITERS)]
        while self.cut_count < cuts:
            with self.serve() as guest:
                self.compare(guest, writers)
                self.cut_while_writing(guest, writers, moments.uniform(0, WRITING_SECONDS_MAX))
            if moments.randrange(4) == 0:
                self.cut_while_recovering(moments.uniform(0, RECOVERY_SECONDS_MAX))
        with self.serve() as guest:
            self.compare(guest, writers)
        if self.acknowledged_count == 0:
            raise Failed("no write was acknowledged, so nothing was checked")

    def serve(self):
        words = {"MAX_SIZE": POOL_SIZE_MAX[self.engine], "ENGINE": self.engine}
        return self.guests.start("serve", lossy=self.lossy, **words)

    def compare(self, guest, writers):
        is_ready = lambda line: line.endswith("ready to accept connections")
        lines = guest.wait_for(is_ready, SECONDS_MAX)
        domain = next(line.split()[1] for line in lines if line.startswith("  domain "))
        self.expect_domain(domain.rstrip(":"), self.guests.device.domain)
        for writer in writers:
            self.violations += writer.check(guest.port)
        if self.violations:
            # No further cut: the image stays as it was found.
            raise Failed(f"after {self.cut_count} cuts: {self.violations}")

    def cut_while_writing(self, guest, writers, seconds):
        with concurrent.futures.ThreadPoolExecutor(WRITERS) as threads:
            writing = [threads.submit(writer.write_until_power_cut, guest.port) for writer in writers]
            try:
                done, _ = concurrent.futures.wait(
                    writing, timeout=seconds, return_when=concurrent.futures.FIRST_COMPLETED
                )
            finally:
                # Nothing else ends the writers.
                guest.cut_power()
        for result in done or writing:
            result.result()
        if done:
            raise Failed(f"the server left a writer before the power was cut (log: {guest.log})")
        before = self.acknowledged_count
        self.acknowledged_count = sum(writer.acknowledged_count for writer in writers)
        self.cut_count += 1
        say(
            f"{self.name}: cut {self.cut_count} after {seconds:.2f} s, "
            f"{self.acknowledged_count - before} writes acknowledged"
        )

    def cut_while_recovering(self, seconds):
        """Cuts the power of a guest that has mounted the file system and opens the database."""
        with self.serve() as guest:
            guest.wait_for(lambda line: " /mnt " in line, SECONDS_MAX)
            time.sleep(seconds)
        self.recovery_cut_count += 1
        say(f"{self.name}: cut during recovery, {seconds:.2f} s after the mount")


    def row(self):
        return {
            "device": self.guests.device.title + (" with a cache" if self.lossy else ""),
            "engine": self.engine,
            "domain": self.domain,
            "conformance": self.conformance,
            "cuts": self.cut_count,
            "+ in recovery": self.recovery_cut_count,
            "acknowledged": self.acknowledged_count,
            "lost": self.violations.lost,
            "half": self.violations.half,
            "disordered": self.violations.disordered,
            "": "FAILED" if self.failure else "passed",
        }


def summary(checks):
    rows = [check.row() for check in checks]
    columns = [[name, *(str(row[name]) for row in rows)] for name in rows[0]]
    padded = [[cell.ljust(max(map(len, column))) for cell in column] for column in columns]
    return "\n".join("  ".join(line).rstrip() for line in zip(*padded))


def main():
    parser = argparse.ArgumentParser(prog="pmem-vm")
    parser.add_argument("--device", required=True, choices=[*DEVICES, "all"])
    parser.add_argument("--cuts", required=True, type=int)
    parser.add_argument("--seed", required=True, type=int)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--engine", required=True, choices=[*ENGINES, "all"])
    parser.add_argument("--cache", type=pathlib.Path, help="the plugin, for a cache that loses")
    parser.add_argument("--forgets", type=pathlib.Path)
    for file in ("kernel", "busybox", "halite", "conformance"):
        parser.add_argument(f"--{file}", required=True, type=pathlib.Path)
    # `--conformance` is a folder with a program for each engine.
    arguments = parser.parse_args()
    # Unwinds, so that every guest ends.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))

    work = pathlib.Path(tempfile.mkdtemp(prefix="halite-pmem-vm.", dir=arguments.work))
    keep = True
    try:
        archive = work / "initramfs"
        engines = ENGINES if arguments.engine == "all" else [arguments.engine]
        programs = {"halite": arguments.halite}
        if arguments.cache:
            programs["forgets"] = arguments.forgets
        else:
            programs |= {f"conformance-{name}": arguments.conformance / name for name in engines}
        task = pathlib.Path(__file__).with_name("task")
        initramfs.build(archive, arguments.kernel, arguments.busybox, task, programs, TOOLS, MODULES)
        kernel = next(arguments.kernel.glob("boot/vmlinuz-*"))
        checks = []
        for device in DEVICES.values():
            for engine in engines if arguments.device in (device.name, "all") else []:
                folder = work / f"{device.name}-{engine}"
                folder.mkdir()
                guests = Guests(device, folder, kernel, archive, arguments.cache)
                checks.append(Check(guests, engine))
                checks[-1].run(arguments.cuts, arguments.seed)
        failed = any(check.failure for check in checks)
        keep = arguments.keep or failed
    except (KeyboardInterrupt, SystemExit) as end:
        keep = arguments.keep
        sys.exit(130 if isinstance(end, KeyboardInterrupt) else end.code)
    finally:
        if keep:
            say(f"images and logs are in {work}")
        else:
            shutil.rmtree(work)

    version = subprocess.run(
        ["qemu-system-x86_64", "--version"], check=True, capture_output=True, text=True
    ).stdout.split(" (")[0]
    print(f"{version}, Linux {kernel.name.removeprefix('vmlinuz-')}, seed {arguments.seed}")
    print(summary(checks))
    for check in checks:
        if check.failure:
            print(f"{check.name}, {check.engine}: {check.failure}")
    sys.exit(1 if failed else 0)


main()
