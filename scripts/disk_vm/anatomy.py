"""The kernel as seen in the log of a disk's writes: their order, and how a file system's journal commits."""

import bisect
import collections
import re
import statistics
import struct
import subprocess

from write_log import DISCARD, FUA, SECTOR

BLOCK = 4096
SECTORS = BLOCK // SECTOR
XFS_RECORD = b"\xfe\xed\xba\xbe"


class Anatomy:
    def __init__(self, log, file_system, base, pool):
        """`base` is the image before the first entry, and `pool` the parts of the disk where the pool ends up."""
        self.log = log
        self.pool = pool
        self.writes = [
            (number, entry)
            for number, entry in enumerate(log.entries)
            if not entry.is_flush and not entry.flags & DISCARD
        ]
        with base.open("rb") as image:
            self.journal = Ext4(log, image, base) if file_system == "ext4" else Xfs(log, image)
        for number, entry in self.writes:
            self.journal.see(number, entry)

    def summary(self, acknowledged_count, torn):
        """Lines of text; `torn` is the number of images with a write torn by this script."""
        sizes = [entry.sectors for _, entry in self.writes]
        fua = sum(bool(entry.flags & FUA) for _, entry in self.writes)
        written = sum(sizes) * SECTOR
        acknowledged = max(1, acknowledged_count)
        bounds = [-1, *self.log.flushes, len(self.log.entries)]
        between = [end - start - 1 for start, end in zip(bounds, bounds[1:])]
        whole = sum(entry.sector % SECTORS == 0 and entry.sectors % SECTORS == 0 for _, entry in self.writes)
        pool = [entry for _, entry in self.writes if self.is_pool(entry)]
        pool_whole = sum(entry.sector % SECTORS == 0 and entry.sectors % SECTORS == 0 for entry in pool)
        return "\n".join(
            [
                f"  {len(self.writes)} writes, {fua} with FUA, {len(self.log.flushes)} flushes,"
                f" {sum(bool(entry.flags & DISCARD) for entry in self.log.entries)} discards",
                f"  {written / acknowledged:.0f} bytes and {len(self.log.flushes) / acknowledged:.3f} flushes"
                " an acknowledged write",
                f"  writes between two flushes: median {statistics.median(between):g}, at most {max(between)}",
                f"  {sum(size > 1 for size in sizes)} writes of several sectors, of up to"
                f" {max(sizes) * SECTOR // 1024} KiB; images in which some are torn: {torn}",
                f"  {whole} of {len(sizes)} writes are whole pages of 4 KiB; of the pool {pool_whole} of {len(pool)}",
                f"  sectors written more than once between two flushes: {self.written_again()}",
                *self.journal.lines(),
            ]
        )

    def written_again(self):
        """How many sectors are written more than once between two flushes."""
        again = 0
        times = collections.Counter()
        for entry in [*self.log.entries, None]:
            if entry is None or entry.is_flush:
                again += sum(count > 1 for count in times.values())
                times.clear()
            else:
                times.update(range(entry.sector, entry.sector + entry.sectors))
        return again

    def is_pool(self, entry):
        return any(start <= entry.sector < end for start, end in self.pool)


class Around:
    """The flushes around entries."""

    def __init__(self, flushes):
        self.flushes = flushes

    def before(self, number):
        at = bisect.bisect_left(self.flushes, number)
        return self.flushes[at - 1] if at else -1

    def behind(self, number):
        at = bisect.bisect_right(self.flushes, number)
        return self.flushes[at] if at < len(self.flushes) else None


class Ext4:
    """The journal of ext4 (jbd2): its transactions, as they are committed, and what of them is written in place."""

    MAGIC, DESCRIPTOR, COMMIT = 0xC03B3998, 1, 2
    ESCAPED, SAME_UUID, LAST_TAG = 1, 2, 8
    REGULAR, EXTENTS = 0x8000, 0x80000
    # Those before it are the file system's own, such as the journal.
    FIRST_INODE = 11

    def __init__(self, log, image, path):
        self.log = log
        self.around = Around(log.flushes)
        image.seek(1024)
        self.read_superblock(image.read(1024))
        image.seek(BLOCK)
        descriptors = image.read(BLOCK)
        self.tables = []
        for group in range(self.groups):
            (first,) = struct.unpack_from("<I", descriptors, group * self.descriptor_size + 8)
            self.tables.append(range(first, first + self.inodes_per_group * self.inode_size // BLOCK))
        said = subprocess.run(
            ["debugfs", "-R", "blocks <8>", path], check=True, capture_output=True, text=True
        ).stdout
        # The first of them is the journal's superblock, and the blocks that follow are used as a ring.
        self.place = {int(block): number for number, block in enumerate(said.split())}
        self.blocks = list(self.place)
        # By block of the journal: the entry that wrote it last, and its content.
        self.content = {}
        self.descriptors = collections.defaultdict(list)
        # By block of the disk: the flushes behind its commits, and the contents.
        self.committed = collections.defaultdict(list)
        self.latest = {}
        # By block: the entries that wrote it.
        self.written = collections.defaultdict(list)
        self.owned = {}
        self.freed = {}
        self.counts = collections.Counter()

    def read_superblock(self, stored):
        (blocks,) = struct.unpack_from("<I", stored, 4)
        (per_group,) = struct.unpack_from("<I", stored, 32)
        (self.inodes_per_group,) = struct.unpack_from("<I", stored, 40)
        (self.inode_size,) = struct.unpack_from("<H", stored, 88)
        (self.descriptor_size,) = struct.unpack_from("<H", stored, 254)
        self.groups = -(-blocks // per_group)

    def see(self, number, entry):
        end = entry.sector + entry.sectors
        for block in range(entry.sector // SECTORS, -(-end // SECTORS)):
            first = block * SECTORS - entry.sector
            if first < 0 or first + SECTORS > entry.sectors:
                # Past the page cache, a block may be written in parts.
                self.written[block].append(number)
                continue
            content = self.log.data(entry, first, SECTORS)
            if block in self.place:
                self.see_journal(number, block, content)
            else:
                self.written[block].append(number)
                if block in self.committed and block > 0:
                    # The superblock is also written without the journal.
                    self.see_in_place(number, block, content)

    def see_journal(self, number, block, content):
        magic, kind, transaction = struct.unpack_from(">III", content)
        self.content[block] = (number, content)
        if magic != self.MAGIC:
            return
        if kind == self.DESCRIPTOR:
            self.descriptors[transaction].append((number, block, content))
        elif kind == self.COMMIT:
            self.see_commit(number, transaction)

    def see_commit(self, number, transaction):
        counts = self.counts
        counts["commits"] += 1
        before, behind = self.around.before(number), self.around.behind(number)
        counts["right behind a flush"] += before == number - 1
        counts["a flush right behind"] += behind == number + 1
        blocks = []
        is_behind_all = True
        for at, place, descriptor in self.descriptors.pop(transaction, []):
            is_behind_all &= at < before
            for block, is_escaped in self.tags(descriptor):
                place = self.blocks[self.place[place] % (len(self.blocks) - 1) + 1]
                at, content = self.content.get(place, (number, b""))
                is_behind_all &= at < before
                blocks.append((block, content if not is_escaped else self.MAGIC.to_bytes(4, "big") + content[4:]))
        counts["behind a flush of all blocks"] += is_behind_all
        counts["journaled"] += len(blocks)
        for block, content in blocks:
            self.latest[block] = content
            self.committed[block].append((behind, content))
        for block, content in blocks:
            for group, table in enumerate(self.tables):
                if block in table:
                    first = (block - table.start) * BLOCK // self.inode_size + group * self.inodes_per_group + 1
                    self.see_inodes(number, before, first, content)

    def tags(self, descriptor):
        """Blocks of the disk, and whether their content looked like a block of the journal; the last 4 bytes are a
        checksum."""
        at = 12
        while at + 16 <= BLOCK - 4:
            low, flags, high, _ = struct.unpack_from(">IIII", descriptor, at)
            yield high << 32 | low, bool(flags & self.ESCAPED)
            at += 16 if flags & self.SAME_UUID else 32
            if flags & self.LAST_TAG:
                return

    def see_in_place(self, number, block, content):
        self.counts["in place"] += 1
        known = self.committed[block]
        if any(flush is not None and flush < number and content == other for flush, other in known):
            self.counts["in place behind its flush"] += 1

    def see_inodes(self, number, before, first, content):
        """Blocks of files that this commit exposes must have been written before its flush."""
        for inode in range(max(first, self.FIRST_INODE), first + BLOCK // self.inode_size):
            stored = content[(inode - first) * self.inode_size :][: self.inode_size]
            (mode,) = struct.unpack_from("<H", stored)
            (flags,) = struct.unpack_from("<I", stored, 32)
            blocks = set()
            if mode & 0xF000 == self.REGULAR and flags & self.EXTENTS:
                size = struct.unpack_from("<I", stored, 4)[0] | struct.unpack_from("<I", stored, 108)[0] << 32
                blocks = set(self.extents(stored[40:100], -(-size // BLOCK)))
            owned = self.owned.get(inode, set())
            for gone in owned - blocks:
                self.freed[gone] = number
            for new in blocks - owned:
                self.counts["exposed"] += 1
                since = self.freed.get(new, -1)
                if any(since < at < before for at in self.written[new]):
                    self.counts["exposed and written before"] += 1
            self.owned[inode] = blocks

    def extents(self, node, end):
        """The blocks of a file's extents that are not marked as unwritten, up to its length."""
        magic, count, _, depth = struct.unpack_from("<HHHH", node)
        if magic != 0xF30A:
            return
        for number in range(count):
            at = 12 + 12 * number
            if depth:
                low, high = struct.unpack_from("<IH", node, at + 4)
                yield from self.extents(self.latest.get(high << 32 | low, bytes(12)), end)
                continue
            first, length, high, low = struct.unpack_from("<IHHI", node, at)
            if length <= 1 << 15:
                start = high << 32 | low
                yield from (start + block for block in range(length) if first + block < end)

    def lines(self):
        counts = self.counts
        yield (
            f"  journal commits: {counts['commits']}; their block comes behind a flush of all that the transaction"
            f" wrote to the journal: {counts['behind a flush of all blocks']}; right behind a flush:"
            f" {counts['right behind a flush']}; a flush comes right behind it: {counts['a flush right behind']}"
        )
        yield (
            f"  journaled blocks: {counts['journaled']}; written in place: {counts['in place']}, with a content whose"
            f" commit was flushed: {counts['in place behind its flush']}"
        )
        yield (
            f"  blocks of files that a commit exposed: {counts['exposed']}; written before that commit's first flush:"
            f" {counts['exposed and written before']}"
        )


class Xfs:
    """The log of XFS: its records, and the flushes around them."""

    def __init__(self, log, image):
        self.log = log
        self.around = Around(log.flushes)
        image.seek(0)
        superblock = image.read(SECTOR)
        (size,) = struct.unpack_from(">I", superblock, 4)
        (start,) = struct.unpack_from(">Q", superblock, 48)
        blocks_of_group, _, _, length = struct.unpack_from(">IIII", superblock, 84)
        shift = superblock[124]
        first = ((start >> shift) * blocks_of_group + (start & ((1 << shift) - 1))) * size // SECTOR
        self.sectors = range(first, first + length * size // SECTOR)
        self.counts = collections.Counter()

    def see(self, number, entry):
        if entry.sector not in self.sectors:
            return
        counts = self.counts
        counts["writes"] += 1
        if self.log.data(entry, 0, 1).startswith(XFS_RECORD):
            counts["records"] += 1
            is_behind = self.around.before(number) == number - 1
            is_before = self.around.behind(number) == number + 1
            counts[is_behind, is_before] += 1

    def lines(self):
        counts = self.counts
        yield (
            f"  writes of the journal: {counts['writes']}, of which begin with a record: {counts['records']};"
            f" right between two flushes: {counts[True, True]}, only behind one: {counts[True, False]},"
            f" only before one: {counts[False, True]}"
        )


def extents_of_file(path):
    """The parts of the disk that a file lies in: pairs of sectors."""
    said = subprocess.run(["filefrag", "-b512", "-v", path], check=True, capture_output=True, text=True).stdout
    found = re.findall(r"^ *\d+: +\d+\.\. *\d+: +(\d+)\.\. *(\d+):", said, re.MULTILINE)
    return [(int(first), int(last) + 1) for first, last in found]
