"""Which file systems lie on other machines: the kernel tells nothing of what others write there."""

import os
import re

REMOTE = frozenset(
    {
        "9p",
        "acfs",
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "coda",
        "fuse",
        "glusterfs",
        "gpfs",
        "lustre",
        "mfs",
        "ncpfs",
        "nfs",
    }
    | {"nfs4", "ocfs2", "orangefs", "panfs", "prl_fs", "pvfs2", "smb3", "smbfs", "vboxsf", "virtiofs", "vmhgfs"}
)
"""Types in mountinfo; a type with a dot, as `fuse.sshfs`, counts by what is before it."""


def remote_devices(mountinfo: str = "/proc/self/mountinfo") -> set[int]:
    """The device numbers of the file systems that other machines may write to; none where that is not told."""
    try:
        with open(mountinfo, encoding="utf-8", errors="replace") as lines:
            return {device for line in lines if (device := _remote_device(line)) is not None}
    except OSError:
        return set()


def _remote_device(line: str) -> int | None:
    """36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue: see proc(5)."""
    mount, _, source = line.partition(" - ")
    kind = source.partition(" ")[0].partition(".")[0]
    device = re.search(r" (\d+):(\d+) ", mount)
    return os.makedev(int(device[1]), int(device[2])) if device and kind in REMOTE else None
