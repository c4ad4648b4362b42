"""The log of a disk's writes and flushes that QEMU's driver `blklogwrites` keeps, in the format of dm-log-writes.

A superblock in the first sector has the number of entries as of the last flush. An entry is a sector that describes it,
and the data that were written.
"""

import dataclasses
import mmap
import os
import struct

SECTOR = 512
MAGIC = 0x6A736677736872
FLUSH, FUA, DISCARD = 1, 2, 4
SUPERBLOCK = struct.Struct("<QQQI")
ENTRY = struct.Struct("<QQQQ")


class Position:
    """The number of entries that were logged or begun up to the last flush, while QEMU writes the log.

    QEMU stores it after a flush is in the log and before the guest hears of that flush. So the last flush among so many
    entries is the last one that anyone can have heard of.
    """

    def __init__(self, path):
        self.file = os.open(path, os.O_RDONLY)

    def __call__(self):
        stored = os.pread(self.file, SUPERBLOCK.size, 0)
        return SUPERBLOCK.unpack(stored)[2] if len(stored) == SUPERBLOCK.size else 0


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    sector: int
    sectors: int
    flags: int
    # Where the data begin in the log.
    at: int

    @property
    def is_flush(self):
        return bool(self.flags & FLUSH)


class WriteLog:
    """A finished log."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self.bytes = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        magic, version, count, sector = SUPERBLOCK.unpack_from(self.bytes)
        if (magic, version, sector) != (MAGIC, 1, SECTOR):
            raise ValueError(f"{path} is no log of writes: {magic:#x}, version {version}, sectors of {sector}")
        self.entries = []
        at = SECTOR
        for _ in range(count):
            first, sectors, flags, _ = ENTRY.unpack_from(self.bytes, at)
            at += SECTOR
            self.entries.append(Entry(first, sectors, flags, at))
            if not flags & DISCARD:
                at += sectors * SECTOR
        self.flushes = [number for number, entry in enumerate(self.entries) if entry.is_flush]

    def data(self, entry, first=0, sectors=None):
        """Some sectors of what an entry wrote; those of a discard read as zeros."""
        sectors = entry.sectors - first if sectors is None else sectors
        if entry.flags & DISCARD:
            return bytes(sectors * SECTOR)
        at = entry.at + first * SECTOR
        return self.bytes[at : at + sectors * SECTOR]
