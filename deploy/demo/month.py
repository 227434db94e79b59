"""A month of demo days: an archive of small days with a story in it, and a report of each day.

The days are written in the archive's format, as a collector leaves them after closing a day. A collector stores a line
under the day on which it arrives, so it cannot write a month in minutes. The story of the last day: a password is
accepted after 412 failures, a host is silent, one pattern is new, one is back after three weeks, one is gone, one
surges, and the kernel kills a process. Earlier in the month: a crash of the database, and 2 KiB of lost data.
"""

import datetime as dt
import gzip
import json
import math
import random
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from deploy.demo.options import DemoOptions
from deploy.demo.workspace import Workspace, taken
from deploy.processes import Interrupts, Programs, environment
from shipper.errors import ConfigError, Unavailable

MIN_DAYS = 25
"""Minimum days: a pattern must be away for longer than two weeks before it is back."""

WITHIN_SECONDS = 1800.0
"""Maximum time of the reports."""

COLLECTOR = "demo-collector"
SHOP, ACCESS = "/srv/shop/log/shop.log", "/var/log/nginx/access.log"
AUTH, MAIL, SYSLOG = "/var/log/auth.log", "/var/log/mail.log", "/var/log/syslog"
HOSTS = ("app1", "backup1", "db1", "mail1", "web1", "web2")
ATTACKER = "203.0.113.77"
WEEKEND = 0.6
"""Traffic of a Saturday or Sunday against that of a weekday."""

CRASH_DAY, LOST_DAY, AWAY_DAYS = 12, 8, 21
"""Days before the last one: the crash, the lost data, and since when the pattern that is back was away."""

Line = tuple[int, str]
"""Second of the day, and the text without its time."""


class DayStory:
    """The lines of one day; `age` is 0 on the last day."""

    def __init__(self, date: dt.date, age: int, seed: int) -> None:
        self.date, self.age = date, age
        self._random = random.Random(f"{seed} {date}")  # noqa: S311 - seeded, to be the same again
        self._traffic = WEEKEND if date.weekday() >= 5 else 1.0  # noqa: PLR2004 - Saturday
        self._traffic *= math.exp(self._random.gauss(0, 0.05))

    def files(self) -> Iterator[tuple[str, str, bytes]]:
        """(host, file, content) of each log file that has lines."""
        makers: dict[tuple[str, str], Callable[[str], list[Line]]] = {
            **{(host, AUTH): self._auth for host in HOSTS},
            **{(host, ACCESS): self._access for host in ("web1", "web2")},
            ("app1", SHOP): self._shop,
            ("db1", SYSLOG): self._database,
            ("backup1", SYSLOG): self._backup,
            ("mail1", MAIL): self._mail,
        }
        for (host, file), lines in sorted(makers.items()):
            if not (host == "mail1" and self.age == 0):  # the silent host
                yield host, file, self._text(host, file, sorted(lines(host)))

    def _text(self, host: str, file: str, lines: list[Line]) -> bytes:
        midnight = dt.datetime.combine(self.date, dt.time(), dt.UTC)
        made = []
        for second, text in lines:
            now = midnight + dt.timedelta(seconds=second)
            if file == ACCESS:
                made.append(text.replace("TIME", f"[{now:%d/%b/%Y:%H:%M:%S} +0000]"))
            elif file == SHOP:
                made.append(f"{now:%Y-%m-%dT%H:%M:%S}.{second % 1000:03d}Z {text}")
            else:
                made.append(f"{now:%b} {now.day:2d} {now:%H:%M:%S} {host} {text}")
        return "".join(f"{line}\n" for line in made).encode()

    def _some(self, number: float, text: Callable[[], str], first: int = 0, last: int = 24) -> list[Line]:
        """About `number` lines between two hours, most of them in the afternoon."""
        made = []
        for _ in range(max(0, round(number + self._random.gauss(0, number**0.5)))):
            hour = first + (last - first) * self._random.betavariate(2.2, 1.8)
            made.append((min(int(hour * 3600), 86_399), text()))
        return made

    def _access(self, host: str) -> list[Line]:
        def line(status: int) -> str:
            path = self._random.choice(("/", "/cart", "/checkout", "/api/v1/orders", "/products/{}", "/search?q={}"))
            number = self._random.randrange(10_000, 99_999)
            seconds = self._random.random() ** 3 * (9 if status >= 500 else 1)  # noqa: PLR2004
            return (
                f'198.51.100.{number % 250 + 1} - - TIME "GET {path.format(number)} HTTP/1.1" {status} {number}'
                f' "-" "Mozilla/5.0" {seconds:.3f}'
            )

        lines = self._some(1100 * self._traffic, lambda: line(200))
        lines += self._some(60 * self._traffic, lambda: line(304)) + self._some(35, lambda: line(404))
        failing = 260 if self.age == 0 and host == "web1" else 6
        return lines + self._some(failing, lambda: line(502), *((13, 16) if failing > 100 else ()))  # noqa: PLR2004

    def _shop(self, _: str) -> list[Line]:
        chance = self._random.randrange

        def order() -> str:
            return f"INFO  [http-{chance(32)}] shop.Orders - order {chance(9_000_000)} accepted in {chance(900)} ms"

        def timeout() -> str:
            return f"ERROR [http-{chance(32)}] shop.Payment - payment gateway timed out after {30_000 + chance(99)} ms"

        def stock() -> str:
            return f"WARN  [stock-{chance(4)}] shop.Stock - article {chance(90_000)} is low: {chance(9)} left"

        def expiring() -> str:
            return f"ERROR [tls-{chance(4)}] shop.Tls - certificate of pay.example.net expires in {chance(3) + 1} days"

        lines = self._some(1400 * self._traffic, order) + self._some(40 * self._traffic, stock)
        lines += self._some(420, timeout, 13, 16) if self.age == 0 else self._some(14 * self._traffic, timeout)
        return lines + (self._some(48, expiring, 0, 24) if self.age == 0 else [])

    def _database(self, _: str) -> list[Line]:
        chance = self._random.randrange
        lines = self._some(
            500 * self._traffic, lambda: f"postgres[812]: LOG:  checkpoint complete: wrote {chance(4000)} buffers"
        )
        if self.age:
            lines += self._some(60, lambda: f"replicator[733]: standby db2 has replayed {chance(10**8)} bytes")
        if self.age == CRASH_DAY:
            lines += [(36_000, "kernel: postgres[812]: segfault at 0 ip 00007f3a sp 00007ffd error 4 in libc.so.6")]
            lines += [(36_002, "systemd[1]: postgresql.service: Failed with result 'core-dump'.")]
        if self.age == 0:
            lines += [(54_120, "kernel: Out of memory: Killed process 4711 (postgres) total-vm:8123456kB")]
            lines += [(54_121, "systemd[1]: postgresql.service: Failed with result 'oom-kill'.")]
        return lines

    def _backup(self, _: str) -> list[Line]:
        chance = self._random.randrange
        lines = self._some(120, lambda: f"backup[92]: saved /srv/shop part {chance(4000)} in {chance(90)} s", 1, 5)
        if self.age == 0 or self.age >= AWAY_DAYS:
            lines += self._some(25, lambda: f"kernel: sdb: I/O error, dev sdb, sector {chance(10**8)}", 1, 5)
        return lines

    def _mail(self, _: str) -> list[Line]:
        chance = self._random.randrange
        return self._some(
            350 * self._traffic,
            lambda: f"postfix/smtp[{chance(9000)}]: {chance(16**6):06X}: to=<u{chance(999)}@example.org>, status=sent",
        )

    def _auth(self, host: str) -> list[Line]:
        chance = self._random.randrange

        def failed() -> str:
            return (
                f"sshd[{chance(30_000)}]: Failed password for invalid user test{chance(9)}"
                f" from 192.0.2.{chance(40) + 1} port {chance(28_000) + 32_768} ssh2"
            )

        def key() -> str:
            return (
                f"sshd[{chance(30_000)}]: Accepted publickey for deploy from 198.51.100.5"
                f" port {chance(28_000) + 32_768} ssh2: ED25519 SHA256:{chance(16**12):012x}"
            )

        lines = self._some(45, failed) + self._some(20, key)
        if self.age == 0 and host == "web2":
            who = f"for shopadmin from {ATTACKER} port"
            lines += [
                (7_800 + 4 * n, f"sshd[{21_000 + n}]: Failed password {who} {40_000 + n} ssh2") for n in range(412)
            ]
            lines += [(9_460, f"sshd[21500]: Accepted password {who} 41999 ssh2")]
        return lines


def tell(options: DemoOptions) -> None:
    """Write the month and, where it can be made, the report of each day; print what to open.

    Raises ConfigError: too few days; ShipperError: a report fails.
    """
    days = options.days
    if days < MIN_DAYS:
        raise ConfigError(f"--days {days} is too few for its story", hint=f"give {MIN_DAYS} to 60")
    with taken(options.out) as place:
        last = dt.datetime.now(dt.UTC).date() - dt.timedelta(days=1)
        dates = write_month(place, days, last, 1 if options.seed is None else options.seed)
        text = f"{days} days are reported: open {place.report / dates[-1] / 'report.html'}"
        arguments = ["report", "--archive", str(place.archive), "--out", str(place.report)]
        arguments += ["--since", dates[0], "--until", dates[-1]]
        with Interrupts() as interrupts, Programs(place.logs, environment("HOSTNAME"), interrupts) as programs:
            try:
                if options.report:
                    programs.must("report", *arguments, within=WITHIN_SECONDS)
                else:
                    text = f"{days} days are in {place.archive}"
            except Unavailable as error:
                text = f"{days} days are in {place.archive}; no report: {error}"
        sys.stderr.write(text + "\n")


def write_month(place: Workspace, days: int, last: dt.date, seed: int) -> list[str]:
    """Writes the archive of `days` days up to `last`; returns the dates."""
    place.archive.mkdir()
    (place.archive / "_archive.json").write_text(json.dumps({"v": 1, "id": f"{seed:016x}"}) + "\n")
    dates, number = [], 0
    for age in range(days - 1, -1, -1):
        story = DayStory(last - dt.timedelta(days=age), age, seed)
        date = story.date.isoformat()
        path = place.archive / "_manifest" / f"date={date}" / f"{COLLECTOR}.jsonl"
        path.parent.mkdir(parents=True)
        lines = []
        for host, file, content in story.files():
            number += 10
            lost = age == LOST_DAY and host == "backup1" and file == SYSLOG
            gap = {"source": f"{number:016x}", "start": len(content), "end": len(content) + 2048, "reason": "deleted"}
            line = _segment(place.archive, (date, host, file), number, content)
            lines.append(json.dumps(line | ({"gaps": [gap]} if lost else {})).encode() + b"\n")
        path.write_bytes(b"".join(lines))
        path.with_suffix(".done").write_bytes(b"")
        dates.append(date)
    return dates


def _segment(archive: Path, key: tuple[str, str, str], number: int, content: bytes) -> dict[str, object]:
    """Writes a sealed segment of (date, host, file) and returns its manifest line; see archive-format.md."""
    date, host, file = key
    partition = HOSTS.index(host) % 4
    stored = gzip.compress(content, mtime=0)
    name = f"{file.removeprefix('/').replace('/', '~')}-{number:020d}.gz"
    path = archive / f"date={date}" / f"partition={partition}" / f"host={host}" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(stored)
    return {
        "v": 1,
        "collector": COLLECTOR,
        "partition": partition,
        "host": host,
        "file": file,
        "path": str(path.relative_to(archive)),
        "codec": "gzip",
        "lines": content.count(b"\n"),
        "bytes_raw": len(content),
        "bytes_stored": len(stored),
        "first_seq": number,
        "last_seq": number + 9,
        "first_time": f"{date}T00:00:05Z",
        "last_time": f"{date}T23:59:10Z",
        "spans": [],
        "gaps": [],
        "duplicates": 0,
        "joins": 0,
        "crc32": f"{zlib.crc32(content):08x}",
        "sealed_at": f"{date}T23:59:59Z",
    }
