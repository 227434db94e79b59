"""Which hosts write which files: three hosts in three of four partitions, with all that makes log files hard."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from deploy.demo.generator import AccessLines, ApplicationLines, AuthLines, Clock, LineGenerator

PARTITIONS = 4
BYTES_A_SECOND = 3_000_000
"""Of all files together: two cores carry this with all programs on them, and a kill still leaves a backlog."""

HOSTS = {"web1.example.net": 1, "db1.example.net": 3, "mail1.example.net": 0}
"""Hosts, and the partition of four that FNV-1a gives each."""


class LogGenerator(Protocol):
    """What a log file is made of."""

    def burst(self, size: int) -> bytes:
        """About `size` bytes more; none when there is no more."""
        ...


@dataclass(frozen=True, slots=True)
class LogFeed:
    """One log file of one host, and what is written to it."""

    host: str
    name: str  #: relative to the host's directory
    text: Callable[[], LogGenerator]
    bytes_planned: int
    unterminated: bool = False  #: its last line has no newline

    def path(self, hosts: Path) -> Path:
        """The live file."""
        return hosts / self.host / self.name


@dataclass(frozen=True, slots=True)
class _Kind:
    name: str
    lines: type[LineGenerator]
    share: float
    newline: str = "\n"
    unterminated: bool = False


_KINDS = {
    "web1.example.net": (
        _Kind("nginx/access.log", AccessLines, 0.30),
        _Kind("shop/app.log", ApplicationLines, 0.15),
        _Kind("ssh/auth.log", AuthLines, 0.03),
    ),
    "db1.example.net": (
        _Kind("nginx/access.log", AccessLines, 0.10),
        _Kind("ledger/app.log", ApplicationLines, 0.15, unterminated=True),
        _Kind("ssh/auth.log", AuthLines, 0.03),
    ),
    "mail1.example.net": (
        _Kind("nginx/access.log", AccessLines, 0.06),
        _Kind("mailer/app.log", ApplicationLines, 0.15, newline="\r\n"),
        _Kind("ssh/auth.log", AuthLines, 0.03),
    ),
}


def generated(seconds: float, seed: int, clock: Clock) -> list[LogFeed]:
    """The feeds of all hosts for a flow of `seconds`: CRLF in one file, no last newline in another."""

    def text(host: str, kind: _Kind) -> Callable[[], LogGenerator]:
        return lambda: kind.lines(host, seed, clock, newline=kind.newline)

    return [
        LogFeed(host, kind.name, text(host, kind), int(kind.share * BYTES_A_SECOND * seconds), kind.unterminated)
        for host in HOSTS
        for kind in _KINDS[host]
    ]


def of_host(feeds: Sequence[LogFeed], host: str) -> list[LogFeed]:
    """The feeds of `host`."""
    return [feed for feed in feeds if feed.host == host]
