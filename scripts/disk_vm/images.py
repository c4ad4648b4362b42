"""Images of a disk as a power cut leaves them, made from the log of its writes, and what is found in them."""

import dataclasses
import mmap
import os
import pathlib
import random
import subprocess

from machine import Failed, copy_sparse
from recorder import Judge
from write_log import FUA, SECTOR
from writers import Violations

# Of this many images one is looked at more closely.
CLOSELY_EVERY = 10
PIECE = 1 << 20
# The superblock of ext4 has two sectors and one checksum. If one sector is newer than the other, Linux does not mount
# it ("invalid superblock checksum"), journal or not, and e2fsck takes a copy: that is no matter of a database.
NEVER_TORN = {"ext4": range(2, 4), "xfs": range(0)}
# The bytes that a disk may be filled with before a database is made.
OLD_BYTES = b"Bytes that nobody may see again; "


@dataclasses.dataclass(frozen=True, order=True)
class Cut:
    """A power cut before entry `end` of the log, when the flush of number `flush` was the last one done.

    All writes before that flush are there. Of those behind it, some are, as `seed` draws them: none, if it is None.
    """

    flush: int
    end: int
    seed: str | None

    def __str__(self):
        return f"flush {self.flush}, before entry {self.end}" + (f", drawn by {self.seed}" if self.seed else "")


def choose_cuts(log, count, seed):
    """Half of the cuts are right behind a flush, each at another one, and half between two flushes: half of these at
    any flush, and half at those behind which there is more to lose."""
    draw = random.Random(f"cuts {seed}")
    flushes = log.flushes
    ends = [*flushes[1:], len(log.entries)]
    writes = [end - flush - 1 for flush, end in zip(flushes, ends)]
    with_writes = [number for number, some in enumerate(writes) if some]
    if not with_writes:
        raise Failed("the log has no write behind a flush")
    at_flushes = draw.sample(range(len(flushes)), min(count // 2, len(flushes)))
    cuts = [Cut(number, flushes[number] + 1, None) for number in at_flushes]
    while len(cuts) < count:
        if draw.random() < 0.5:
            number = draw.choice(with_writes)
        else:
            number = draw.choices(with_writes, [writes[number] for number in with_writes])[0]
        first, end = flushes[number] + 1, ends[number]
        if draw.random() < 0.5:
            end = draw.randint(first + 1, end)
        cuts.append(Cut(number, end, f"{seed} {len(cuts)}"))
    return sorted(cuts, key=lambda cut: (cut.flush, cut.end, cut.seed or ""))


def survivors(log, cut, whole=range(0)):
    """The parts of writes behind the last flush that are there: entries, and first sector and number of sectors.

    The sectors of the disk that are `whole` are not torn from each other.
    """
    if cut.seed is None:
        return
    draw = random.Random(cut.seed)
    writes = log.entries[log.flushes[cut.flush] + 1 : cut.end]
    chance = draw.choice([0.1, 0.5, 0.9])
    # Otherwise all are there but one, or one alone.
    odd = draw.randrange(len(writes)) if draw.random() < 0.4 else None
    is_missing = draw.random() < 0.5
    tear = draw.choice([0, 0.25, 0.75])
    for number, entry in enumerate(writes):
        if entry.flags & FUA:
            yield entry, 0, entry.sectors
            continue
        is_there = draw.random() < chance if odd is None else (number == odd) != is_missing
        if entry.sectors > 1 and draw.random() < tear:
            if draw.random() < 0.3:
                # It came as far as one sector.
                first = draw.randint(1, entry.sectors - 1)
                there = [sector < first for sector in range(entry.sectors)]
            else:
                there = [draw.random() < 0.5 for _ in range(entry.sectors)]
        else:
            there = [is_there] * entry.sectors
        if whole and entry.sector <= whole.start and whole.stop <= entry.sector + entry.sectors:
            together = slice(whole.start - entry.sector, whole.stop - entry.sector)
            there[together] = [there[together.start]] * len(whole)
        first = 0
        while first < entry.sectors:
            last = first
            while last < entry.sectors and there[last] == there[first]:
                last += 1
            if there[first]:
                yield entry, first, last - first
            first = last


@dataclasses.dataclass
class Found:
    """Counts of what the images had."""

    images: int = 0
    behind_a_flush: int = 0
    between_flushes: int = 0
    # Of those between flushes: with a write of which some sectors are there and others not.
    torn: int = 0
    # Looked at closely.
    closely: int = 0
    # Cut before anything was acknowledged.
    unpromised: int = 0
    violations: Violations = dataclasses.field(default_factory=Violations)
    # The file system is not mounted, or its check finds errors.
    file_system: int = 0
    # Halite does not open the database, or finds damage.
    refused: int = 0
    bad_images: int = 0
    stories: list = dataclasses.field(default_factory=list)

    def __iadd__(self, other):
        for field in dataclasses.fields(self):
            total = getattr(self, field.name)
            total += getattr(other, field.name)
            setattr(self, field.name, total)
        return self


class Bad(Exception):
    """An image that must not be."""

    def __init__(self, what, story):
        super().__init__(story)
        self.what = what


class Examiner:
    """Makes the images of some cuts, one after the other, and looks into them."""

    def __init__(self, folder, base, log, file_system, engine, halite, recorders, is_filled):
        self.folder = folder
        self.is_filled = is_filled
        self.log = log
        self.file_system = file_system
        self.engine = engine
        self.halite = halite
        self.judges = [Judge(recorder, log.flushes) for recorder in recorders]
        self.found = Found()
        folder.mkdir()
        self.mounted = folder / "mounted"
        self.mounted.mkdir()
        # The image as of `self.applied` entries, and the one that is mounted.
        self.applied = 0
        self.paths = [folder / "replayed.image", folder / "cut.image"]
        for path in self.paths:
            copy_sparse(base, path)
        self.files = [path.open("r+b") for path in self.paths]
        self.replayed, self.cut = (mmap.mmap(file.fileno(), 0) for file in self.files)

    def write(self, image, entry, first, sectors):
        at = (entry.sector + first) * SECTOR
        image[at : at + sectors * SECTOR] = self.log.data(entry, first, sectors)

    def advance(self, end):
        for entry in self.log.entries[self.applied : end]:
            self.write(self.replayed, entry, 0, entry.sectors)
        self.applied = max(self.applied, end)

    def copy(self):
        """Makes the mounted image equal to the replayed one: whatever either has data for."""
        for file in self.files:
            for start, end in extents(file.fileno()):
                for at in range(start, end, PIECE):
                    piece = slice(at, min(at + PIECE, end))
                    self.cut[piece] = self.replayed[piece]

    def make(self, cut):
        """Makes the image of a cut, and says whether a write is torn in it."""
        self.advance(self.log.flushes[cut.flush] + 1)
        self.copy()
        is_torn = False
        for entry, first, sectors in survivors(self.log, cut, NEVER_TORN[self.file_system]):
            self.write(self.cut, entry, first, sectors)
            is_torn |= sectors < entry.sectors
        return is_torn

    def keep(self, cut, path):
        self.make(cut)
        copy_sparse(self.paths[1], path)

    def examine(self, cut, number):
        found = self.found
        is_torn = self.make(cut)
        found.images += 1
        found.behind_a_flush += cut.seed is None
        found.between_flushes += cut.seed is not None
        found.torn += is_torn
        is_close = number % CLOSELY_EVERY == 0
        found.closely += is_close
        try:
            values = self.look(cut, is_close)
        except Bad as bad:
            setattr(found, bad.what, getattr(found, bad.what) + 1)
            self.tell(cut, str(bad))
            return
        violations = Violations()
        stories = []
        for judge in self.judges:
            of_writer = judge.compare(values, cut.flush, cut.end)
            if of_writer:
                violations += of_writer
                stories.append(judge.story(values))
        if violations:
            found.violations += violations
            self.tell(cut, f"{violations}: {'; '.join(stories)}")

    def tell(self, cut, story):
        self.found.bad_images += 1
        self.found.stories.append(f"{cut}: {story}")

    def look(self, cut, is_close):
        """The values in the mounted image."""
        options = "loop,nouuid" if self.file_system == "xfs" else "loop"
        mount = ["mount", "-t", self.file_system, "-o", options, self.paths[1], self.mounted]
        self.call(mount, "file_system")
        try:
            values = self.values(cut, is_close)
        finally:
            self.call(["umount", self.mounted], "file_system")
        if is_close:
            check = ["xfs_repair", "-n"] if self.file_system == "xfs" else ["e2fsck", "-f", "-n"]
            self.call([*check, self.paths[1]], "file_system")
        return values

    def values(self, cut, is_close):
        data = self.mounted / "data"
        if self.is_filled:
            self.look_for_old_bytes()
        if not any(judge.promised(cut.flush) for judge in self.judges):
            # The database may be missing, or begun; in any case it must be possible to write to it.
            self.found.unpromised += 1
            self.call([self.halite, "put", data, "probe", "probe", "--engine", self.engine], "refused")
        dump = [self.halite, "dump", data, "--space", "db0"]
        values = parse(self.call(dump, "refused"))
        if is_close:
            self.call([self.halite, "check", data], "refused")
            self.call([self.halite, "put", data, "probe", "probe"], "refused")
            if parse(self.call(dump, "refused")) != values:
                raise Bad("refused", "a later opening finds other values than the first")
        return values

    def look_for_old_bytes(self):
        for path in self.mounted.glob("**/*"):
            if path.is_file() and OLD_BYTES in path.read_bytes():
                name = path.relative_to(self.mounted)
                raise Bad("file_system", f"{name} shows bytes of a file that was removed before")

    def call(self, command, what):
        done = subprocess.run(list(map(str, command)), capture_output=True)
        if done.returncode != 0:
            # What Halite prints before it fails are values.
            said = done.stderr if command[0] == self.halite else done.stdout + done.stderr
            said = said[-800:].decode(errors="replace").strip()
            words = " ".join(pathlib.Path(word).name for word in map(str, command))
            raise Bad(what, f"`{words}`: exit code {done.returncode}: {said}")
        return done.stdout


def extents(file):
    """The parts of a sparse file that have data."""
    size = os.fstat(file).st_size
    end = 0
    while end < size:
        try:
            start = os.lseek(file, end, os.SEEK_DATA)
        except OSError:
            return
        end = os.lseek(file, start, os.SEEK_HOLE)
        yield start, end


def parse(dumped):
    """The writers' keys and values need no escapes."""
    return dict(line.split(b"\t", 1) for line in dumped.splitlines() if not line.startswith(b"probe"))
