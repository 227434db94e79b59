"""Where a line is stored in the archive: the contract between the collector, which writes, and Spark, which reads.

    date=2026-11-20/partition=3/host=web1.example.net/
        _open-var~log~nginx~access.log                          being appended
        _sealing-var~log~nginx~access.log-000...213.zst         being compressed
        var~log~nginx~access.log-00000000000001840213.zst       sealed
    live/web1.example.net/var/log/nginx/access.log              link to the open file
    _manifest/date=2026-11-20/<collector>.jsonl                 one line a sealed segment

Names come from the network: every function here yields relative paths that cannot leave the archive.
"""

import datetime as dt
import functools
import hashlib
import re
from collections.abc import Iterable
from typing import NamedTuple

OPEN_PREFIX = "_open-"
SEALING_PREFIX = "_sealing-"
IDENTITY = "_archive.json"
JOURNAL_DIRECTORY = "_journal"
MANIFEST_DIRECTORY = "_manifest"
REMOVED_PATH = "_manifest/removed.jsonl"
"""What retention took away, relative to the archive: one line a day."""
REMOVED_HOSTS_PATH = "_manifest/removed-hosts.jsonl"
"""What was removed of single hosts; a file of its own, for readers that take each line of the other for a whole day."""
REDACTED_SOURCES_PATH = "_manifest/redacted-sources.jsonl"
"""Sources of which text was redacted: one line a source. Journals keep no sum of them."""
SEAL_REQUEST_PATH = "_lock/seal-request"
"""A file that a collector makes if it seals open files on request; a reader requests that by a new time of the file."""
LIVE_DIRECTORY = "live"
MAX_NAME_BYTES = 200
"""Bound on an escaped file name, so that prefix, number and suffix still fit into 255 bytes."""

CODEC_SUFFIXES = {"zstd": ".zst", "gzip": ".gz", "none": ""}

# The characters that Hive and Spark escape in partition directories (Spark: ExternalCatalogUtils.scala).
_HIVE_ESCAPES = frozenset("\"#%'*/:=?\\{[]^\x7f") | {chr(code) for code in range(0x20)}
_FIRST_SURROGATE = 0xDC80  # os.fsdecode writes an undecodable byte b as chr(0xDC00 + b)
_LAST_SURROGATE = 0xDCFF
_ESCAPED = re.compile(r"%([0-9A-F]{2})")
_HARMLESS = re.compile(r"[A-Za-z0-9._~-]*")  # nearly every name
_EPOCH = re.compile(r"_open-.*?(?:=([1-9]\d*))?(?:\.zst|\.gz)?", re.DOTALL)  # `=` is escaped in names
_NUMBERED = re.compile(r".*-\d{20}", re.DOTALL)  # greedy: the number of a segment is the last one in its name
NANOSECONDS = 1_000_000_000
DAY_NS = 86400 * NANOSECONDS


def is_archive(names: Iterable[str]) -> bool:
    """Whether the names in a directory are those of an archive.

    `date=` alone is no proof: tables of a report, and any data set in Hive's layout, have such directories, too.
    Archives of older versions have no identity, but a journal or manifests.
    """
    return not {IDENTITY, JOURNAL_DIRECTORY, MANIFEST_DIRECTORY}.isdisjoint(names)


class FileKey(NamedTuple):
    """Which file of the archive a line belongs to: a day of one log file of one host."""

    date: str  #: UTC day of the JetStream timestamp, `2026-11-20`
    partition: int
    host: str
    file: str  #: absolute path on the host, or the output name of plain messages


def date_of(path: str) -> str:
    """The UTC day of the path of a segment or an open file, relative to the archive."""
    return path.partition("/")[0].removeprefix("date=")


def day_of(time_ns: int) -> str:
    """UTC day of a JetStream timestamp in nanoseconds."""
    return _day(time_ns // DAY_NS)


@functools.lru_cache(maxsize=64)
def _day(number: int) -> str:
    return dt.datetime.fromtimestamp(number * DAY_NS // NANOSECONDS, tz=dt.UTC).strftime("%Y-%m-%d")


def escape(text: str) -> str:
    """`text` as Hive escapes it; bytes that are no UTF-8 too, so that the JVM can list the name."""
    return text if _HARMLESS.fullmatch(text) else "".join(map(_escaped, text))


def _escaped(char: str) -> str:
    code = ord(char)
    if _FIRST_SURROGATE <= code <= _LAST_SURROGATE:
        return f"%{code - 0xDC00:02X}"
    return f"%{code:02X}" if char in _HIVE_ESCAPES else char


def unescape(text: str) -> str:
    """What `escape` was given (undecodable bytes excepted)."""
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text)


def file_name(path: str) -> str:
    """The one-level name of a log file: no first `/`, each `/` as `~`, each `~` as `%7E`, the rest as Hive does.

    Spark skips names that begin with `_` or `.`, so these are escaped too; a name too long for the file system
    keeps its end and gets a hash of the whole (the manifest has the path in full).
    """
    parts = path.removeprefix("/").split("/")
    name = "~".join(escape(part).replace("~", "%7E") for part in parts)
    if name[:1] in {"_", "."}:
        name = f"%{ord(name[0]):02X}{name[1:]}"
    return _fitted(name, path) or "%00"


def _fitted(name: str, whole: str) -> str:
    """`name`, or where the file system could not take it a hash of `whole` and the end of `name`."""
    if len(name.encode()) <= MAX_NAME_BYTES:
        return name
    digest = hashlib.sha256(whole.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return f"{digest}~{name.encode()[-(MAX_NAME_BYTES - 20) :].decode('utf-8', 'ignore')}"


def directory(key: FileKey) -> str:
    """Directory of `key`, relative to the archive."""
    return f"date={key.date}/partition={key.partition}/host={escape(key.host)}"


def open_path(key: FileKey, epoch: int = 0) -> str:
    """The file that is being appended, relative to the archive; a later epoch of a partition has names of its own."""
    return f"{directory(key)}/{OPEN_PREFIX}{file_name(key.file)}{f'={epoch}' if epoch else ''}"


def epoch_of(path: str) -> int | None:
    """The epoch whose name an open file has; None: it is no open file."""
    found = _EPOCH.fullmatch(path.rpartition("/")[2])
    return int(found[1] or 0) if found else None


def segment_path(key: FileKey, first_sequence: int, codec: str) -> str:
    """The sealed segment that begins with `first_sequence`, relative to the archive."""
    return f"{directory(key)}/{file_name(key.file)}-{first_sequence:020d}{CODEC_SUFFIXES[codec]}"


def codec_of(segment: str) -> str:
    """The codec of a segment, by what follows the number in its path."""
    suffix = _NUMBERED.sub("", segment.rpartition("/")[2], count=1)
    return next((codec for codec, known in CODEC_SUFFIXES.items() if known == suffix), "none")


def sealing_path(segment: str) -> str:
    """Where the bytes of a segment wait while it is compressed, so that its open name is free again."""
    parent, _, name = segment.rpartition("/")
    return f"{parent}/{SEALING_PREFIX}{name}"


def live_path(key: FileKey) -> str:
    """The link that operators follow: `live/<host>/<path>`, each part confined to one name."""
    parts = [_fitted(escape(part), part) for part in key.file.split("/") if part not in {"", ".", ".."}]
    return "/".join((LIVE_DIRECTORY, escape(key.host), *parts))


def manifest_path(date: str, collector: str) -> str:
    """The list of segments that `collector` sealed for `date`, relative to the archive."""
    return f"{MANIFEST_DIRECTORY}/date={date}/{escape(collector)}.jsonl"


def done_path(date: str, collector: str) -> str:
    """The marker that closes `date` for `collector`, relative to the archive."""
    return f"{MANIFEST_DIRECTORY}/date={date}/{escape(collector)}.done"


def template_path(template: str, key: FileKey, time_ns: int) -> str:
    """The path that `SHIPPER_OUTPUT` describes if it contains `%` or `{...}` (the blog's way), confined.

    `{host}`, `{file}` (one-level name) and `{partition}` are filled in, then `strftime` of the stored time.

    Raises ValueError: the template has other fields, or leads out of the directory.
    """
    when = dt.datetime.fromtimestamp(time_ns // NANOSECONDS, tz=dt.UTC)
    dated = when.strftime(template)
    try:
        path = dated.format(host=escape(key.host), file=file_name(key.file), partition=key.partition)
    except (KeyError, IndexError) as error:
        raise ValueError(f"{template!r} has the field {error}; known are host, file, partition") from None
    parts = path.split("/")
    if path.startswith("/") or not all(parts) or ".." in parts or "." in parts:
        raise ValueError(f"{template!r} leads to {path!r}, which is no path below the archive")
    return path


def is_template(output: str) -> bool:
    """Whether `SHIPPER_OUTPUT` is a path template and not the plain name of a file."""
    return "%" in output or "{" in output
