"""Which hosts write which files: three hosts in three of four partitions, with all that makes log files hard.

With `--path` your own files are replayed, line by line, as growing files of these hosts.
"""

import datetime as dt
import functools
import itertools
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from shipper.errors import ConfigError

T = TypeVar("T")
Clock = Callable[[], float]
"""Seconds since 1970."""

LONG_LINE_BYTES = 400_000
"""Longer than a block: such a line travels in several, and must come together again."""

METHODS = ("GET",) * 12 + ("POST",) * 3 + ("HEAD", "PUT")
STATUSES = (200,) * 40 + (304,) * 6 + (301, 302, 404, 404, 403, 499, 500, 502)
PATHS = ("/", "/api/v1/orders/{n}", "/products/{n}/reviews?page=2", "/search?q=gr%C3%BCner+tee", "/wp-login.php")
REFERERS = ("-", "-", "https://shop.example.net/", "https://www.example.org/")
AGENTS = (
    "Mozilla/5.0 (X11; Linux x86_64; rv:143.0) Gecko/20100101 Firefox/143.0",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 19_0 like Mac OS X) AppleWebKit/605.1 Version/19.0 Mobile/15E148 Safari/604.1",
    "Mozilla/5.0 (compatible; ExampleBot/2.1; +https://bot.example.org/)",
)
CLASSES = ("OrderService", "PaymentGateway", "StockKeeper", "MailQueue", "SessionStore", "PriceList")
LEVELS = ("INFO ",) * 14 + ("DEBUG",) * 4 + ("WARN ",)
CAUSES = (
    "java.net.SocketTimeoutException: Read timed out",
    "java.lang.IllegalStateException: Bestellung für Käufer 'Jürgen Groß' ist schon bezahlt",
    'java.lang.NullPointerException: Cannot invoke "Address.street()" because "customer.address" is null',
)
USERS = ("root", "admin", "deploy", "postgres", "test", "j\udcfcrgen")  # Latin-1: no UTF-8 at all


class LineGenerator:
    """Lines without end from one program of `host`. Subclasses write one entry, which may be several lines."""

    def __init__(self, host: str, seed: int, clock: Clock, *, newline: str = "\n") -> None:
        self._host = host.partition(".")[0]
        self._random = random.Random(f"{seed} {host} {type(self).__name__}")  # noqa: S311 - seeded, to be the same again
        self._clock = clock
        self._newline = newline

    def burst(self, size: int) -> bytes:
        """Whole entries of together at least `size` bytes, all of them written now."""
        at = self._time(dt.datetime.fromtimestamp(self._clock(), dt.UTC))
        entries: list[str] = []
        length = 0
        while length < size:
            entry = self._entry(at)
            entries.append(entry)
            length += len(entry)
        return "".join(entries).replace("\n", self._newline).encode("utf-8", "surrogateescape")

    def _time(self, now: dt.datetime) -> str:
        """The time as this program writes it."""
        return now.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def _entry(self, at: str) -> str:
        raise NotImplementedError

    def _one_of(self, choices: Sequence[T]) -> T:
        """One of `choices`, in a third of the time of `random.choice`."""
        return choices[int(self._random.random() * len(choices))]


class AccessLines(LineGenerator):
    """nginx, combined format followed by the request's time."""

    def _time(self, now: dt.datetime) -> str:
        return f"{now:%d/%b/%Y:%H:%M:%S +0000}"

    def _entry(self, at: str) -> str:
        chance, one_of = self._random.random, self._one_of
        number = int(chance() * 90_000) + 10_000
        address = f"{'203.0.113' if number & 1 else '198.51.100'}.{number % 254 + 1}"
        status = one_of(STATUSES)
        octets = 0 if status == 304 else int(chance() * 60_000)  # noqa: PLR2004 - not modified: no body
        request = f"{one_of(METHODS)} {one_of(PATHS).replace('{n}', str(number))} HTTP/1.1"
        return (
            f'{address} - - [{at}] "{request}" {status} {octets} '
            f'"{one_of(REFERERS)}" "{one_of(AGENTS)}" {chance() * chance():.3f}\n'
        )


class ApplicationLines(LineGenerator):
    """A Java program: mostly one line an entry, sometimes a stack trace, rarely a line longer than a block."""

    def _entry(self, at: str) -> str:
        chance, one_of = self._random.random, self._one_of
        kind, number = chance(), int(chance() * 9_000_000)
        if kind < 0.01:  # noqa: PLR2004 - one entry in a hundred fails
            frames = [
                f"\tat net.example.shop.{one_of(CLASSES)}.call({one_of(CLASSES)}.java:{int(chance() * 900)})"
                for _ in range(4 + number % 14)
            ]
            head = f"{at} ERROR [scheduler-1] net.example.shop.{one_of(CLASSES)} - request failed"
            return "\n".join([head, one_of(CAUSES), *frames, f"\t... {len(frames)} more", ""])
        if kind > 0.99997:  # noqa: PLR2004 - and one in 30,000 dumps what it holds
            items = ",".join(f'{{"id":{item},"left":{item % 13}}}' for item in range(LONG_LINE_BYTES // 22))
            return f'{at} DEBUG [dump] net.example.shop.StockKeeper - {{"stock":[{items}]}}\n'
        return (
            f"{at} {one_of(LEVELS)} [http-nio-8080-exec-{number % 32}] net.example.shop.{one_of(CLASSES)} - "
            f"order {number} handled for customer {number % 7919} in {number % 977} ms\n"
        )


class AuthLines(LineGenerator):
    """sshd by way of syslog; a name in it is Latin-1, as it came over the network."""

    def _time(self, now: dt.datetime) -> str:
        return f"{now:%b} {now.day:2d} {now:%H:%M:%S}"

    def _entry(self, at: str) -> str:
        chance = self._random.random
        pid, port, kind = int(chance() * 30_000) + 1000, int(chance() * 28_000) + 32_768, chance()
        head, where = f"{at} {self._host} sshd[{pid}]:", f"from 192.0.2.{port % 254 + 1} port {port} ssh2"
        if kind < 0.7:  # noqa: PLR2004 - the internet knocks
            return f"{head} Failed password for invalid user {self._one_of(USERS)} {where}\n"
        if kind < 0.9:  # noqa: PLR2004
            return f"{head} Accepted publickey for deploy {where}: ED25519 SHA256:{port:x}{pid:x}\n"
        return f"{head} pam_unix(sshd:session): session opened for user deploy(uid=1000) by (uid=0)\n"


PARTITIONS = 4
BYTES_A_SECOND = 3_000_000
"""Of all files together: two cores carry this with all programs on them, and a kill still leaves a backlog."""

HOSTS = {"web1.example.net": 1, "db1.example.net": 3, "mail1.example.net": 0}
"""Hosts, and the partition of four that FNV-1a gives each."""


@dataclass(frozen=True, slots=True)
class LogFeed:
    """One log file of one host, and what is written to it."""

    host: str
    name: str  #: relative to the host's directory
    text: Callable[[], "LineGenerator | ReplayFile"]  #: makes what is written
    bytes_planned: int
    unterminated: bool = False  #: its last line has no newline

    def path(self, hosts: Path) -> Path:
        """The live file."""
        return hosts / self.host / self.name


_FILES: tuple[tuple[str, str, type[LineGenerator], float], ...] = (
    ("web1.example.net", "nginx/access.log", AccessLines, 0.30),
    ("web1.example.net", "shop/app.log", ApplicationLines, 0.15),
    ("web1.example.net", "ssh/auth.log", AuthLines, 0.03),
    ("db1.example.net", "nginx/access.log", AccessLines, 0.10),
    ("db1.example.net", "ledger/app.log", ApplicationLines, 0.15),
    ("db1.example.net", "ssh/auth.log", AuthLines, 0.03),
    ("mail1.example.net", "nginx/access.log", AccessLines, 0.06),
    ("mail1.example.net", "mailer/app.log", ApplicationLines, 0.15),
    ("mail1.example.net", "ssh/auth.log", AuthLines, 0.03),
)
"""Host, file, program, part of all bytes."""


def generated(seconds: float, seed: int, clock: Clock) -> list[LogFeed]:
    """The feeds of all hosts for a flow of `seconds`: CRLF in one file, no last newline in another."""
    feeds = []
    for host, name, lines, share in _FILES:
        newline = "\r\n" if name == "mailer/app.log" else "\n"
        text = functools.partial(lines, host, seed, clock, newline=newline)
        planned = int(share * BYTES_A_SECOND * seconds)
        feeds.append(LogFeed(host, name, text, planned, unterminated=name == "ledger/app.log"))
    return feeds


COMPRESSED = {".gz", ".zst", ".bz2", ".xz", ".lz4", ".Z"}
MAX_FILES = 60
"""The demo stays one that a person can follow, far below the 1,024 files that a process may usually open."""
MAX_LINE_BYTES = 1 << 20
"""Maximum bytes of one read; a longer line is read in parts."""


class ReplayFile:
    """The first bytes of a file, at line ends if it has any."""

    def __init__(self, path: Path, limit: int) -> None:
        self._path = path
        self._left = limit
        self._offset = 0

    def burst(self, size: int) -> bytes:
        """About `size` bytes more, to a line's end; none when the limit or the file's end is reached."""
        if self._left <= 0:
            return b""
        with self._path.open("rb") as file:
            file.seek(self._offset)
            data = file.read(min(size, self._left))
            if data and not data.endswith(b"\n"):
                data += file.readline(MAX_LINE_BYTES)
        self._offset += len(data)
        self._left = self._left - len(data) if data else 0
        return data


def replayed(paths: Sequence[Path], seconds: float) -> tuple[list[LogFeed], list[str]]:
    """Feeds that replay `paths` in `seconds`, and what a reader should know of them.

    Fewer files than hosts: each host gets all of them; else they are dealt out. Of files that are too much for the
    flow's pace only the beginning is replayed.

    Raises ConfigError: a path is missing or cannot be read, or there is nothing in them.
    """
    files = [file for path in paths for file in _files(path)]
    sizes = {file: size for file in files if (size := file.stat().st_size)}
    if not sizes:
        raise ConfigError("--path names no file with content", hint="name log files or a directory")
    chosen = list(sizes)[:MAX_FILES]
    notes = [f"{len(sizes)} files: the first {MAX_FILES} are replayed"] if len(sizes) > MAX_FILES else []
    if len(chosen) < len(HOSTS):
        dealt = [(host, file) for host in HOSTS for file in chosen]
    else:
        dealt = list(zip(itertools.cycle(HOSTS), chosen, strict=False))
    share = int(BYTES_A_SECOND * seconds / len(dealt))
    if cut := [file for file in chosen if sizes[file] > share]:
        notes.append(f"{len(cut)} of {len(chosen)} files are long: the first {share / 1e6:.1f} MB of each are replayed")
    feeds = []
    for number, (host, file) in enumerate(dealt):
        # A directory of its own for each: `app.log` and `app.log.1` of yours must not pass for one that rotates.
        name = f"{number:02d}/{re.sub(r'[^A-Za-z0-9._-]', '_', file.name)[-80:]}"
        limit = min(share, sizes[file])
        feeds.append(LogFeed(host, name, functools.partial(ReplayFile, file, limit), limit))
    return feeds, notes


def _files(path: Path) -> list[Path]:
    """The file, or the log files of the directory, with their readability checked. Raises ConfigError."""
    try:
        if not path.is_dir():
            with path.open("rb"):
                return [path]
        found = [each for each in sorted(path.rglob("*")) if each.is_file() and not each.name.startswith(".")]
    except OSError as error:
        raise ConfigError(
            f"--path {path} cannot be read: {error.strerror or error}", hint="name files you may read"
        ) from None
    return [file for each in found if each.suffix not in COMPRESSED for file in _files(each)]
