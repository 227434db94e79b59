"""`fshipper report prepare`: a training run after which Java starts a report from a class data archive.

The run makes two small days with both aggregation engines, interpreted and compiled, and queries them, so that the
archive has the classes of later reports. Nothing of it is kept but the archive.
"""

import io
import os
import shutil
import zlib
from collections.abc import Iterator
from pathlib import Path

import zstandard

from shipper import layout, manifest
from shipper.errors import Unavailable
from shipper.layout import FileKey
from spark_analytics.runtime import class_data_sharing, session, tuning
from spark_analytics.runtime.class_data_sharing import SharedArchive

NEEDED_BYTES = 400_000_000
"""Free bytes that are needed where the archive is written: it has some 190 MB, and two may exist for a moment."""

_QUERIES = (
    "select file, level, sum(lines) n from hourly group by all order by n desc limit 10",
    "select date, host, lines, err_rate from host_daily order by date, host",
    "select host, ts, line from lines where line like '%failed%' order by ts limit 5",
    "select * from runs",
)


def prepare(*, force: bool) -> tuple[SharedArchive, bool]:
    """Writes the class data archive; returns it, and whether it was written now.

    Raises:
        Unavailable: there is no Java, no pyspark, no place for it, or Java wrote none.
    """
    java = session.require_runtime()
    import pyspark  # noqa: PLC0415 - checked before

    try:
        archive = class_data_sharing.archive_to_prepare(java, pyspark.__version__, os.environ)
    except OSError as error:
        raise Unavailable(f"the Java classes cannot be prepared: {error}", hint="set SHIPPER_STATE or HOME") from None
    if archive.is_valid and not force:
        return archive, False
    _require_space(archive.path.parent)
    archive.path.unlink(missing_ok=True)
    with session.scratch_directory() as place:
        write_days(place / "archive")
        _train(place, archive)
    if not archive.is_valid:
        raise Unavailable(
            f"Java did not write {archive.path}", hint="does another `report prepare` run? Reports work without it"
        )
    return archive, True


def _require_space(directory: Path) -> None:
    there = next(path for path in (directory, *directory.parents) if path.exists())
    free = shutil.disk_usage(there).free
    if free < NEEDED_BYTES:
        raise Unavailable(
            f"{there} has {free // 1_000_000} MB free; the Java classes need {NEEDED_BYTES // 1_000_000} MB",
            hint="free some space, and run `fshipper report prepare` again; reports work without it",
        )


def _train(place: Path, archive: SharedArchive) -> None:
    from spark_analytics import pipeline  # noqa: PLC0415 - need pyspark
    from spark_analytics.archive import inventory  # noqa: PLC0415
    from spark_analytics.query import sql  # noqa: PLC0415
    from spark_analytics.scan import run as scan  # noqa: PLC0415
    from spark_analytics.tables.store import Tables  # noqa: PLC0415

    out = place / "report"
    out.mkdir()
    with session.open_session(
        master=None, log=place / "spark.log", size_bytes=tuning.SMALL_BYTES, classes=archive
    ) as spark:
        for engine, size_bytes in (("auto", tuning.SMALL_BYTES), ("spark", tuning.LARGE_BYTES)):
            _, settings = tuning.java_and_spark_options(size_bytes)
            for name, value in ({scan.ENGINE: engine} | settings).items():
                spark.conf.set(name, value)
            request = pipeline.Request(archive=place / "archive", out=out, top=20, master=None, force=True)
            for _ in pipeline.run(request, DATES):
                pass
            days = [inventory.read_day(place / "archive", date) for date in DATES]
            for question in _QUERIES:
                answer = sql.run(spark, question, Tables(out), place / "archive", days)
                sql.show(answer, sql.Format.TABLE, io.StringIO())


# -- the days of the training run, with lines of every format ----------------------------------------------------------

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


def write_days(directory: Path) -> None:
    """Writes the archive of `DATES`, closed, as a collector does."""
    for date in DATES:
        listed = [_sealed(directory, date, number, file) for number, file in enumerate(_FILES)]
        path = directory / layout.manifest_path(date, _COLLECTOR)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(map(manifest.to_line, listed)))
        path.with_suffix(".done").write_bytes(b"")


def _sealed(directory: Path, date: str, number: int, file: str) -> manifest.Segment:
    content = "".join(f"{line}\n" for line in _lines(file, int(date[-2:]))).encode()
    codec, host = ("zstd", "none")[number % 2], f"web{number % 3}"
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
