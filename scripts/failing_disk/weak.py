"""File systems that lack what others have."""
import subprocess
import time

import mounts
from common import STEPS, finish, made, reads_go_on, reopen
from mounts import Failed
from server import Server, command
from workload import Expected, Load

WEAK = {"overlayfs": mounts.overlay, "vfat": mounts.vfat, "ramfs": mounts.ramfs,
        "tmpfs": lambda scratch: mounts.tmpfs(scratch, 256 << 20),
        "bindfs (FUSE)": mounts.bindfs, "exfat (FUSE)": mounts.exfat_fuse, "fuse2fs (FUSE)": mounts.ext4_by_fuse,
        "btrfs": mounts.btrfs, "xfs": lambda scratch: mounts.second(mounts.xfs(scratch)), "9p": mounts.nine_p}


def weak(context):
    for name, mount in WEAK.items():
        yield name, lambda mount=mount: on_weak(context, mount)


# Errors that do not say what is missing, or what to do about it.
BARE = ["Operation not supported", "Invalid argument", "Function not implemented"]


def on_weak(context, mount):
    with mounts.scratch(context.work) as scratch, mount(scratch) as at:
        lacks = mounts.abilities(at)
        lacking = f"; the file system lacks {', '.join(lacks)}" if lacks else ""
        folder, expected = at / "data", Expected()
        with Server(context, folder) as server:
            if not server.wait_ready():
                server.end()
                return refused_on_weak(context, scratch, at, server.reason(), lacking)
            began = time.monotonic()
            Load(server, expected, context.seed, STEPS).wait()
            seconds = time.monotonic() - began
            if expected.refused:
                raise Failed(f"{expected.refused} writes are refused: {context.messages.list()[:2]}")
            if not reads_go_on(server, expected):
                finish(server)
                raise Failed("the server ended")
            server.kill()
        reopen(context, folder, expected)
        try_commands(context, folder, at)
        return f"works, {expected.acknowledged / seconds:.0f} writes a second{lacking}"


def try_commands(context, folder, at):
    for arguments in (["backup", folder, at / "a.backup"], ["restore", at / "restored", at / "a.backup"],
                      ["dump", folder, at / "a.tsv"], ["load", at / "loaded", at / "a.tsv"],
                      ["check", at / "restored"]):
        code, text = command(context, *arguments, folder=at)
        if code:
            raise Failed(f"halite {arguments[0]}: exit code {code}: {text.splitlines()[-1]}")


def refused_on_weak(context, scratch, at, reason, lacking):
    """No database can be made there. Is one that was copied there served, and does the message say enough?"""
    reason = reason.replace(str(at), "AT")
    expected, copied = Expected(), at / "copied"
    made(context, scratch / "elsewhere", expected, how="stop")
    subprocess.run(["cp", "-r", scratch / "elsewhere", copied], check=True)
    try:
        reopen(context, copied, expected)
        copy = "a copied database works"
    except Failed as failure:
        copy = f"a copied database does not work: {failure}".replace(str(at), "AT")
    text = f"serve is refused: {reason}; {copy}{lacking}"
    if any(bare in reason for bare in BARE):
        raise Failed(f"the message does not say what the file system lacks: {text}")
    return text
