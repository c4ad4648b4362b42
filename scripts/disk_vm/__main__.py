"""The check of scripts/disk-vm, which prepares what it needs and says what it is for."""

import argparse
import concurrent.futures
import contextlib
import errno
import multiprocessing
import os
import pathlib
import pickle
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback

import initramfs
from anatomy import Anatomy, extents_of_file
from images import OLD_BYTES, PIECE, Examiner, Found, choose_cuts
from machine import Failed, Guests, copy_sparse
from recorder import Recorder
from write_log import Position, WriteLog
from writers import Violations, request

ENGINES = ("indexlog", "lsm")
FILE_SYSTEMS = ("ext4", "xfs")
MODULES = ("virtio_blk", "virtio_net", "xfs")
# Room for each partition: for the writers' live data and little more, so that the engines reuse space.
POOL_MIB_MAX = 12
WRITERS = 6
LIVES = 4
# Within which a guest comes up, on a machine that does much else.
SECONDS_MAX = 300


def say(text):
    print(text, file=sys.stderr, flush=True)


class Disk:
    """A virtio disk with a volatile cache, whose writes and flushes QEMU logs."""

    name = title = "disk"
    machine = "q35"
    kernel_arguments = ""

    def arguments(self, image):
        # The image's file is not synced, so nothing comes between a flush and its place in the log. The superblock is
        # written at flushes alone, which `Position` relies on. Zeros are written as any data: QEMU 7.2 may log requests
        # for zeros wrongly when others come meanwhile.
        return [
            *("-blockdev", f"driver=file,node-name=image,cache.no-flush=on,filename={image}.image"),
            *("-blockdev", f"driver=file,node-name=log,filename={image}.log"),
            "-blockdev",
            f"driver=blklogwrites,node-name=disk,file=image,log=log,log-super-update-interval={1 << 30}",
            *("-device", "virtio-blk-pci,drive=disk,write-cache=on,discard=off,write-zeroes=off"),
        ]


class Check:
    """One engine on one file system; a row of the summary."""

    def __init__(self, arguments, engine, file_system, folder, kernel, archive):
        self.arguments = arguments
        self.engine = engine
        self.file_system = file_system
        self.name = f"{engine} on {file_system}"
        self.folder = folder
        self.guests = Guests(Disk(), folder, kernel, archive)
        self.found = Found()
        self.anatomy = None
        self.acknowledged_count = 0
        self.live = Violations()
        self.seconds = 0
        self.failure = None

    def run(self):
        try:
            self.format()
            recorders = self.record()
            (self.folder / "recorders").write_bytes(pickle.dumps(recorders))
            self.log = WriteLog(self.folder / "device.log")
            self.examine(recorders)
        except (Failed, OSError, ValueError, subprocess.SubprocessError) as failure:
            self.failure = failure
            say(f"{self.name}: FAILED: {failure}")

    def format(self):
        self.base = self.folder / "base.image"
        with self.base.open("wb") as file:
            file.truncate(self.arguments.disk << 20)
        if self.file_system == "ext4":
            # All is written now, so that the log has none of it.
            command = ["mkfs.ext4", "-q", "-b", "4096", "-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard"]
        else:
            command = ["mkfs.xfs", "-q", "-K"]
        subprocess.run([*command, self.base], check=True)
        if self.arguments.filled:
            with self.mount(self.base, "loop") as mounted:
                fill(mounted / "filler")
        copy_sparse(self.base, self.folder / "device.image")
        (self.folder / "device.log").touch()

    def record(self):
        """Serves the database in a guest, several times, while clients write."""
        position = Position(self.folder / "device.log")
        seed, is_ordered = self.arguments.seed, self.arguments.threads == 1
        recorders = [Recorder(number, seed, position, is_ordered) for number in range(WRITERS)]
        life_seconds = max(2, self.arguments.seconds // LIVES)
        words = {
            "FS": self.file_system,
            "ENGINE": self.engine,
            "MAX_SIZE": f"{POOL_MIB_MAX * self.arguments.threads}MiB",
            "THREADS": self.arguments.threads,
            "LIVES": LIVES,
            "LIFE_SECONDS": life_seconds,
            "FORGET": self.arguments.forget,
        }
        with self.guests.start("serve", **words) as guest:
            for life in range(LIVES):
                is_ready = lambda line: line.endswith("ready to accept connections")
                lines = guest.wait_for(is_ready, SECONDS_MAX)
                if life == 0:
                    say(f"{self.name}: " + next(line for line in lines if line.startswith("cache ")))
                for recorder in recorders:
                    self.live += recorder.settle(guest.port)
                if self.live:
                    raise Failed(f"after {life} kills, without a power cut: {self.live}")
                # Every second life ends by itself, the others by a kill.
                self.write(guest, recorders, life_seconds * 0.6 if life % 2 else None)
                guest.wait_for(lambda line: line == f"life {life + 1} ended", SECONDS_MAX)
                self.acknowledged_count = sum(recorder.acknowledged_count for recorder in recorders)
                say(f"{self.name}: life {life + 1} ended, {self.acknowledged_count} writes acknowledged")
            guest.wait_for(lambda line: line == "done", SECONDS_MAX)
            guest.wait_for_power_off()
        if self.acknowledged_count == 0:
            raise Failed("no write was acknowledged, so nothing was checked")
        return recorders

    def write(self, guest, recorders, seconds):
        with concurrent.futures.ThreadPoolExecutor(WRITERS) as threads:
            for recorder in recorders:
                recorder.is_to_stop = False
            writing = [threads.submit(recorder.write_until_power_cut, guest.port) for recorder in recorders]
            concurrent.futures.wait(writing, timeout=seconds)
            for recorder in recorders:
                recorder.is_to_stop = True
        for result in writing:
            result.result()
        if seconds is not None:
            try:
                with socket.create_connection(("127.0.0.1", guest.port)) as connection:
                    connection.sendall(request(b"SHUTDOWN"))
                    connection.recv(1)
            except OSError:
                # It started so late that it was killed before.
                pass

    def examine(self, recorders):
        """Makes the images and looks into them, on two processors."""
        self.anatomy = Anatomy(self.log, self.file_system, self.base, self.pool())
        cuts = choose_cuts(self.log, self.arguments.images, f"{self.arguments.seed} {self.name}")
        count = min(2, os.cpu_count())
        say(f"{self.name}: {len(self.log.entries)} entries, {len(self.log.flushes)} flushes, {len(cuts)} cuts")
        start = time.monotonic()
        bounds = [len(cuts) * number // count for number in range(count + 1)]
        processes = []
        fork = multiprocessing.get_context("fork")
        for number in range(count):
            results, sender = fork.Pipe(duplex=False)
            part = range(bounds[number], bounds[number + 1])
            process = fork.Process(target=self.examine_part, args=(number, cuts, part, recorders, sender))
            process.start()
            sender.close()
            processes.append((process, results))
        try:
            for process, results in processes:
                try:
                    self.found += results.recv()
                except EOFError:
                    raise Failed("a process that looks at images ended") from None
                process.join()
        finally:
            for process, _ in processes:
                process.kill()
        self.seconds = time.monotonic() - start
        if self.found.bad_images:
            raise Failed(f"{self.found.bad_images} images must not be")

    def pool(self):
        """Where the pool lies at the end."""
        with self.mount(self.folder / "device.image", "loop,ro") as mounted:
            for path in sorted((mounted / "data").glob("**/*")):
                say(f"{self.name}: at the end: {path.relative_to(mounted)}, {path.stat().st_size} bytes")
            pool = mounted / "data" / "pool.halite"
            return extents_of_file(pool) if pool.exists() else []

    @contextlib.contextmanager
    def mount(self, image, options):
        mounted = self.folder / "mounted"
        mounted.mkdir(exist_ok=True)
        subprocess.run(["mount", "-t", self.file_system, "-o", options, image, mounted], check=True)
        try:
            yield mounted
        finally:
            subprocess.run(["umount", mounted], check=True)

    def examine_part(self, part, cuts, numbers, recorders, results):
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        halite, seed = self.arguments.halite, self.arguments.seed
        try:
            folder = self.folder / f"part{part}"
            examiner = Examiner(
                folder, self.base, self.log, self.file_system, self.engine, halite, recorders, self.arguments.filled
            )
            for done, number in enumerate(numbers, start=1):
                told = len(examiner.found.stories)
                examiner.examine(cuts[number], number)
                for story in examiner.found.stories[told:]:
                    if told < 5:
                        say(f"{self.name}: seed {seed}, {story}")
                if told == 0 and examiner.found.stories:
                    # The first bad image stays, as it was before it was mounted.
                    examiner.keep(cuts[number], self.folder / f"violation{part}.image")
                if done % 100 == 0:
                    bad = examiner.found.bad_images
                    say(f"{self.name}: part {part + 1}: {done} of {len(numbers)} images, {bad} bad")
            results.send(examiner.found)
        except BaseException:
            traceback.print_exc()
            os._exit(1)

    @property
    def is_as_expected(self):
        """With syncs forgotten, it must be seen."""
        if self.arguments.forget:
            return self.found.bad_images > 0
        return self.failure is None

    def row(self):
        found = self.found
        return {
            "engine": self.engine,
            "fs": self.file_system,
            "acknowledged": self.acknowledged_count,
            "images": found.images,
            "at a flush": found.behind_a_flush,
            "between": found.between_flushes,
            "torn": found.torn,
            "closely": found.closely,
            "a second": f"{found.images / self.seconds:.1f}" if self.seconds else "-",
            "bad": found.bad_images,
            "lost": found.violations.lost,
            "half": found.violations.half,
            "disordered": found.violations.disordered,
            "refused": found.refused,
            "file system": found.file_system,
            "": "passed" if self.is_as_expected else "FAILED",
        }


def fill(path):
    """Fills a file system with a file, and removes that."""
    with path.open("wb", buffering=0) as file:
        piece = OLD_BYTES * (PIECE // len(OLD_BYTES))
        while True:
            try:
                file.write(piece)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                break
        os.fsync(file.fileno())
    path.unlink()


def table(rows):
    columns = [[name, *(str(row[name]) for row in rows)] for name in rows[0]]
    padded = [[cell.ljust(max(map(len, column))) for cell in column] for column in columns]
    return "\n".join("  ".join(line).rstrip() for line in zip(*padded))


def main():
    parser = argparse.ArgumentParser(prog="disk-vm")
    parser.add_argument("--engine", required=True, choices=[*ENGINES, "all"])
    parser.add_argument("--fs", required=True, choices=[*FILE_SYSTEMS, "all"])
    parser.add_argument("--images", required=True, type=int)
    parser.add_argument("--seconds", required=True, type=int)
    parser.add_argument("--disk", required=True, type=int)
    parser.add_argument("--threads", required=True, type=int)
    parser.add_argument("--seed", required=True, type=int)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--filled", action="store_true")
    parser.add_argument("--forget", default=0, type=int, help="how many syncs come to one that does nothing, or 0")
    parser.add_argument("--forgetful", type=pathlib.Path, help="the program that forgets them")
    for file in ("kernel", "busybox", "halite"):
        parser.add_argument(f"--{file}", required=True, type=pathlib.Path)
    arguments = parser.parse_args()
    # Unwinds, so that every guest ends.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))

    work = pathlib.Path(tempfile.mkdtemp(prefix="halite-disk-vm.", dir=arguments.work))
    keep = True
    try:
        archive = work / "initramfs"
        programs = {"halite": arguments.halite}
        if arguments.forgetful:
            programs["forgetful"] = arguments.forgetful
        task = pathlib.Path(__file__).with_name("task")
        initramfs.build(archive, arguments.kernel, arguments.busybox, task, programs, (), MODULES)
        kernel = next(arguments.kernel.glob("boot/vmlinuz-*"))
        checks = []
        for engine in ENGINES if arguments.engine == "all" else [arguments.engine]:
            for file_system in FILE_SYSTEMS if arguments.fs == "all" else [arguments.fs]:
                folder = work / f"{engine}-{file_system}"
                folder.mkdir()
                checks.append(Check(arguments, engine, file_system, folder, kernel, archive))
                checks[-1].run()
                if checks[-1].is_as_expected and not arguments.keep:
                    shutil.rmtree(folder)
        failed = not all(check.is_as_expected for check in checks)
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
    print(table([check.row() for check in checks]))
    for check in checks:
        print(f"\n{check.name}:")
        if check.anatomy:
            print(check.anatomy.summary(check.acknowledged_count, check.found.torn))
        for story in check.found.stories[:3]:
            print(f"  bad: {story}")
        if check.failure:
            print(f"  {check.failure}")
    sys.exit(1 if failed else 0)


main()
