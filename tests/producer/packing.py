"""Rotations that compress, in steps, and a producer that has read half of what they take away."""

import bz2
import gzip
import lzma
import os
from collections.abc import Callable
from pathlib import Path

import zstandard
from producing import Host

PACKERS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".zst": zstandard.ZstdCompressor().compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
}
BANNER = b"# a banner of one kibibyte %s\n" % (b"-" * 1000)


def lines(name: bytes, count: int = 500) -> bytes:
    return b"".join(b"%s %06d\n" % (name, number) for number in range(count))


def pack(path: Path, suffix: str = ".gz", *, to: Path | None = None, keeps_time: bool = True) -> Path:
    """As gzip and its like do: the content under another name, with the time of its last change; the original goes."""
    packed = to or path.with_name(path.name + suffix)
    packed.write_bytes(PACKERS[suffix](path.read_bytes()))
    if keeps_time:
        stat = path.stat()
        os.utime(packed, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    path.unlink()
    return packed


def rotate_packed(path: Path, suffix: str = ".gz") -> None:
    """As logrotate with `create` and `compress` does: app.log.N.gz -> N+1, app.log -> app.log.1.gz, a new app.log."""
    for number in range(8, 0, -1):
        older = path.with_name(f"{path.name}.{number}{suffix}")
        if older.exists():
            older.rename(path.with_name(f"{path.name}.{number + 1}{suffix}"))
    rotated = path.with_name(f"{path.name}.1")
    path.rename(rotated)
    path.touch()
    pack(rotated, suffix)


def half_read(tmp_path: Path, text: bytes, pattern: str = "app.log") -> Host:
    """A producer that shipped the first blocks of app.log and saw the rest of it."""
    (tmp_path / "app.log").write_bytes(text)
    host = Host(tmp_path, pattern, block=1024)
    host.read(3000)
    host.deliver()
    host.acknowledge()
    host.save()
    assert 0 < len(host.archive.text(tmp_path / "app.log")) < len(text)
    return host


def settled(host: Host) -> None:
    for _ in range(3):
        host.ship()
    host.let_go()
