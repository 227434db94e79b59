"""The days of the training run: a small archive with lines of every format, so that Java loads the classes of each."""

import zlib
from collections.abc import Iterator
from pathlib import Path

import zstandard

from shipper import layout, manifest
from shipper.layout import FileKey

DATES = ("2026-01-05", "2026-01-06")
"""Two days: the second one is compared with the first."""

LINES = 1200
"""Lines of each log file."""

_COLLECTOR = "training"
_ACCESS = "192.0.2.{x} - - [{d:02}/Jan/2026:{h}:{m}:07 +0000]"
_ISO = "2026-01-{d:02}T{h}:{m}"
_FILES = {
    "/var/log/auth.log": (
        "Jan  {d} {h}:{m}:07 web1 sshd[{n}]: Failed password for root from 192.0.2.{x} port 22 ssh2",
        "Jan  {d} {h}:{m}:08 web1 sshd[{n}]: Failed password for invalid user a{x} from 192.0.2.{x} port 22 ssh2",
        "Jan  {d} {h}:{m}:09 web1 sshd[{n}]: message repeated 3 times: [ Failed password for root from 192.0.2.7]",
        "Jan  {d} {h}:{m}:10 web1 sshd[{n}]: Accepted password for root from 192.0.2.{x} port 50212 ssh2",
        "Jan  {d} {h}:{m}:11 web1 sudo: pam_unix(sudo:auth): authentication failure; logname= uid={x} user=deploy",
        "Jan  {d} {h}:{m}:12 web1 kernel: [{n}.123456] Out of memory: Killed process {n} (java)",
    ),
    "/var/log/nginx/access.log": (
        _ACCESS + ' "GET /item/{n} HTTP/1.1" 200 {n} "-" "curl/8.14.1" 0.{x:03}',
        _ACCESS + ' "GET /missing/{x} HTTP/1.1" 404 153 "-" "curl/8.14.1" 1.{x:03}',
        _ACCESS + ' "POST /cart HTTP/2.0" 503 {n} "-" "curl/8.14.1" 2.{x:03}',
    ),
    "/var/log/shop/app.log": (
        _ISO + ":07.123Z INFO  [worker-{x}] com.example.shop.OrderService: order {n} took {x} ms",
        _ISO + ":08.456Z ERROR [worker-{x}] com.example.shop.MailQueue: order {n} failed",
        "java.net.SocketTimeoutException: Read timed out",
        "\tat com.example.shop.MailQueue.send(MailQueue.java:{x})",
        _ISO + ":09.789Z WARN  [worker-{x}] com.example.shop.PriceList: K\u00e4ufer {n} \u2192 queue",
    ),
    "/var/log/shop/events.json": (
        '{{"time": "' + _ISO + ':07Z", "level": "info", "message": "order {n} done"}}',
        '{{"ts": {e}, "level": "error", "msg": "no connection to 192.0.2.{x}"}}',
        '{{"time": "' + _ISO + ':09Z", "status": 502, "request": "GET /a{x} HTTP/1.1", "body_bytes_sent": {n}}}',
    ),
    "/var/log/other.txt": ("a line {n} without a time", "[notice] another one of worker {x}"),
}
"""Templates of lines by log file: {d}ay, {h}our, {m}inute, {n}umber, a smaller one {x}, seconds since 1970 {e}."""

_EPOCH = 1767571200
_CODECS = ("zstd", "none")


def write(directory: Path) -> None:
    """Writes the archive of `DATES`, closed, as a collector does."""
    for date in DATES:
        listed = [_sealed(directory, date, number, file) for number, file in enumerate(_FILES)]
        path = directory / layout.manifest_path(date, _COLLECTOR)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(map(manifest.to_line, listed)))
        path.with_suffix(".done").write_bytes(b"")


def _sealed(directory: Path, date: str, number: int, file: str) -> manifest.Segment:
    content = "".join(f"{line}\n" for line in _lines(file, int(date[-2:]))).encode()
    codec, host = _CODECS[number % 2], f"web{number % 3}"
    stored = zstandard.compress(content) if codec == "zstd" else content
    key = FileKey(date, number % 2, host, file)
    path = layout.segment_path(key, 1 + number, codec)
    (directory / path).parent.mkdir(parents=True, exist_ok=True)
    (directory / path).write_bytes(stored)
    return manifest.Segment(
        collector=_COLLECTOR,
        partition=key.partition,
        host=host,
        file=file,
        path=path,
        codec=codec,
        lines=content.count(b"\n"),
        bytes_raw=len(content),
        bytes_stored=len(stored),
        first_seq=1 + number,
        last_seq=1 + number,
        first_time=f"{date}T00:00:01Z",
        last_time=f"{date}T23:59:00Z",
        crc32=f"{zlib.crc32(content):08x}",
    )


def _lines(file: str, day: int) -> Iterator[str]:
    for number in range(LINES):
        templates = _FILES[file]
        minute = number * 1440 // LINES
        yield templates[number * 7 // 3 % len(templates)].format(
            d=day,
            h=f"{minute // 60:02}",
            m=f"{minute % 60:02}",
            n=10_000 + number * 7919 % 90_000,
            x=number % 250,
            e=_EPOCH + 60 * minute,
        )
