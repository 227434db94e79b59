"""A watched name that is a link, and what a test does with it."""

import os
from pathlib import Path

from producing import Host

SECOND_NS = 10**9


def lines(count: int, of: str = "line") -> bytes:
    return b"".join(b"%s %d\n" % (of.encode(), number) for number in range(count))


def pod(directory: Path) -> tuple[Path, Path]:
    """A link as Kubernetes makes it, and what it leads to."""
    (directory / "pods").mkdir()
    (directory / "links").mkdir()
    link, target = directory / "links" / "c.log", directory / "pods" / "0.log"
    link.symlink_to(target)
    return link, target


def lead(link: Path, to: Path) -> None:
    """Let a link lead to another file, atomically."""
    new = link.with_name("new")
    new.symlink_to(to)
    new.rename(link)


def aged(path: Path, seconds: int) -> None:
    at = (1_700_000_000 + seconds) * SECOND_NS
    os.utime(path, ns=(at, at))


def partly_shipped(host: Host) -> None:
    host.read(3000)
    host.deliver()
    host.acknowledge()
    host.save()
