"""A program without Halite, to tell whose fault a loss is: it maps a file, and stores and syncs one page after another.

    control.py FILE NOTE

The file has space that is set aside and was never written, as `fallocate` gives it. NOTE gets the number of pages whose
sync succeeded. It ends when a sync fails.
"""
import mmap
import os
import sys

PAGE = 4096
PAGES = 4096


def stamp(number):
    return (number + 1).to_bytes(8, "little")


def lost(path, note):
    """How many of the pages whose sync succeeded do not have their content."""
    with open(note, "rb") as file:
        synced = int.from_bytes(file.read(8), "little")
    with open(path, "rb") as file:
        return sum(os.pread(file.fileno(), 8, number * PAGE) != stamp(number) for number in range(synced))


def main():
    file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
    note = os.open(sys.argv[2], os.O_RDWR | os.O_CREAT)
    os.posix_fallocate(file, 0, PAGES * PAGE)
    os.fsync(file)
    memory = mmap.mmap(file, PAGES * PAGE)
    print("ready", flush=True)
    for number in range(PAGES):
        memory[number * PAGE:number * PAGE + 8] = stamp(number)
        try:
            memory.flush(number * PAGE, PAGE)
        except OSError:
            break
        os.pwrite(note, stamp(number), 0)


if __name__ == "__main__":
    main()
