"""A program without Halite, to tell whose fault a loss is: it stores one page after another and syncs each.

    control.py HOW FILE NOTE

HOW is `map`, pages of a mapped file, or `write`, pages written behind the end. The file has space that is set aside and
was never written, as `fallocate` gives it. NOTE gets the number of pages whose sync succeeded. It ends when one fails.
"""
import ctypes
import mmap
import os
import sys

PAGE = 4096
PAGES = 4096
KEEP_SIZE = 1


def content(number):
    return (number + 1).to_bytes(8, "little") * (PAGE // 8)


def lost(path, note):
    """How many of the pages whose sync succeeded do not have their content."""
    with open(note, "rb") as file:
        synced = int.from_bytes(file.read(8), "little")
    with open(path, "rb") as file:
        return sum(os.pread(file.fileno(), PAGE, number * PAGE) != content(number) for number in range(synced))


def main():
    how, (file, note) = sys.argv[1], (os.open(path, os.O_RDWR | os.O_CREAT) for path in sys.argv[2:])
    libc = ctypes.CDLL(None)
    libc.fallocate64(file, 0 if how == "map" else KEEP_SIZE, ctypes.c_int64(0), ctypes.c_int64(PAGES * PAGE))
    os.fsync(file)
    memory = mmap.mmap(file, PAGES * PAGE) if how == "map" else None
    print("ready", flush=True)
    for number in range(PAGES):
        try:
            if memory:
                memory[number * PAGE:(number + 1) * PAGE] = content(number)
                memory.flush(number * PAGE, PAGE)
            else:
                os.pwrite(file, content(number), number * PAGE)
                os.fdatasync(file)
        except OSError:
            break
        os.pwrite(note, content(number)[:8], 0)


if __name__ == "__main__":
    main()
