"""The names on the bus: `logs.p<N>.<fqdn>`, `LOGS_<N>`, `logs.beat.<fqdn>`, `ctl.up.<fqdn>`, `dlq.<stream>.<fqdn>`."""

import functools
import re
from collections.abc import Collection
from typing import Any, NamedTuple

from shipper.errors import ConfigError, Poison
from shipper.layout import escape

MAX_HOST_BYTES = 200
"""Bound on a host name: with its escapes it must fit one directory name (255 bytes)."""

DEAD_LETTERS = "DLQ"
"""The stream of dead letters: messages that cannot be applied."""

ADVISORIES = "DLQ_ADV"
"""The stream of advisories about messages that the server stopped delivering."""

COLLECTOR = "collector"
"""The durable consumer that the collector reads each partition's stream with."""

RETIRED = "retired"
"""First token of what closed streams listen to."""

MOVER = "fshipper-partition"
"""The host name in control subjects of the partitioner, which requests a collector to seal a closed stream."""

MONITOR_API = "$JS.monitor.API"
"""API prefix for the monitor: in its own account, `$JS.API` is the API of that account, which has no streams."""

USER_INFO = "$SYS.REQ.USER.INFO"
"""Subject on which the server answers with the account of a user."""

MAX_CACHED = 32_768
"""Subjects whose hosts are remembered: a partition may have ten thousand, in turn."""

_EVERYBODYS = frozenset(
    {"localhost", "localhost4", "localhost6", "ip6-localhost", "ip6-loopback", "none"}
    | {"localhost.localdomain", "localhost4.localdomain4", "localhost6.localdomain6"}
)
_HOST = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*")
_PREFIX = re.compile(r"[A-Za-z0-9_-]+")
_STREAM = re.compile(r"([A-Z0-9_-]+)_(\d+)")
_SUBJECT = re.compile(r"[^.]+\.p(\d{1,6})\.(.+)", re.DOTALL)


class Address(NamedTuple):
    """Who published a message, and in which partition."""

    partition: int
    host: str


def checked_host(name: str) -> str:
    """`name` in lower case, if it can stand in a subject.

    Raises ConfigError: it is the partitioner's, too long, or holds something else than letters, digits, `_`, `-`
    between dots.
    """
    host = name.strip().rstrip(".").lower()
    if host == MOVER:
        raise ConfigError(
            f"host name {name!r} is taken: the partitioner sends requests to collectors under this name",
            hint="give the host another name",
        )
    if not _HOST.fullmatch(host) or len(host) > MAX_HOST_BYTES:
        raise ConfigError(
            f"host name {name!r} cannot stand in a NATS subject",
            hint="set HOSTNAME (or --host) to a name of letters, digits, '_' and '-' between dots",
        )
    return host


def is_host(name: str) -> bool:
    """Whether a producer can have this name, as it is written in its subjects."""
    return bool(_HOST.fullmatch(name)) and len(name) <= MAX_HOST_BYTES


def is_everybodys(host: str) -> bool:
    """Whether `host` is a name that every machine has, so that hosts of one fleet would share it."""
    return host in _EVERYBODYS or host.endswith(".localhost") or host.startswith("127.")


def checked_prefix(prefix: str) -> str:
    """`prefix`, if it is one subject token. Raises ConfigError: it is empty or holds dots, spaces or wildcards."""
    if not _PREFIX.fullmatch(prefix):
        raise ConfigError(
            f"subject prefix {prefix!r} is not one token",
            hint="set SHIPPER_SUBJECT to letters, digits, '_' and '-', for example 'logs'",
        )
    return prefix


def log_subject(prefix: str, partition: int, host: str) -> str:
    """Where `host` publishes its lines."""
    return f"{prefix}.p{partition}.{host}"


def partition_subjects(prefix: str, partition: int) -> str:
    """What the stream of `partition` listens to."""
    return f"{prefix}.p{partition}.>"


@functools.lru_cache(maxsize=MAX_CACHED)
def parse_log_subject(subject: str) -> Address:
    """Partition and host of a log subject of any publisher.

    Raises Poison: the subject has no partition or no host, or the host is no text or cannot name a directory.
    """
    found = _SUBJECT.fullmatch(subject)
    if not found:
        raise Poison(f"subject {subject!r} is not <prefix>.p<N>.<host>")
    host = found[2]
    if not host.isascii() and any("\udc80" <= char <= "\udcff" for char in host):
        raise Poison("host name is no UTF-8")
    if len(escape(host).encode()) > MAX_HOST_BYTES:
        raise Poison(f"host name of {len(host)} characters needs more than {MAX_HOST_BYTES} bytes in the archive")
    return Address(int(found[1]), host)


def stream_name(prefix: str, partition: int) -> str:
    """The stream of `partition`."""
    return f"{prefix.upper()}_{partition}"


def partition_of_stream(prefix: str, stream: str) -> int | None:
    """The partition that `stream` holds, or None when it is none of ours."""
    found = _STREAM.fullmatch(stream)
    partition = int(found[2]) if found else -1
    return partition if stream == stream_name(prefix, partition) else None  # LOGS_007 is none of ours


def retired_subject(prefix: str, partition: int) -> str:
    """The subject of the stream of a retired partition: no client publishes there."""
    return f"{RETIRED}.{prefix}.{partition}"


def is_closed(subjects: Collection[str]) -> bool:
    """Whether a stream of these subjects takes nothing more, because its partition is being retired."""
    return bool(subjects) and all(subject.startswith(f"{RETIRED}.") for subject in subjects)


def beat_subject(prefix: str, host: str) -> str:
    """Where `host` (`>`: each) sends heartbeats. The right to publish its lines, `<prefix>.*.<host>`, includes it."""
    return f"{prefix}.beat.{host}"


def host_of_beat(subject: str) -> str:
    """Whose heartbeat was published on `subject`."""
    return subject.split(".", 2)[-1]


def host_of_any(subject: str) -> str:
    """The host in a subject of lines, heartbeats, control messages or dead letters; empty: there is none."""
    found = _OF_HOST.fullmatch(subject)
    return found[1] if found else ""


def beats_stream(prefix: str) -> str:
    """The stream that keeps the newest heartbeat of each host."""
    return f"{prefix.upper()}_BEATS"


def control_up(host: str) -> str:
    """The subject of requests of a producer to its collector."""
    return f"ctl.up.{host}"


def control_down(host: str) -> str:
    """Where a collector speaks to a producer."""
    return f"ctl.down.{host}"


def control_ask(host: str) -> str:
    """The subject of read-only requests of a monitor to a producer."""
    return f"ctl.ask.{host}"


def dead_letter_subject(stream: str, host: str) -> str:
    """Where a poison message of `host` in `stream` is kept."""
    return f"dlq.{stream}.{host}"


# -- the shared bucket: which collectors live, who writes which partition, and the map of the partitions ---------------
#
# It is a plain NATS key-value bucket, so `nats kv get fshipper lease.logs.0` shows what a collector sees, and
# `nats kv get fshipper map.logs` where hosts belong.

BUCKET = "fshipper"
BUCKET_STREAM = f"KV_{BUCKET}"
BUCKET_BYTES = 16 * 1024 * 1024
"""Maximum bytes of the bucket, about 25,000 entries; the server reserves them."""

_KEYS = f"$KV.{BUCKET}."
_OF_HOST = re.compile(r"(?:[^.]+\.(?:p[0-9]{1,9}|beat)|ctl\.[a-z]+|dlq\.[^.]+)\.(.+)", re.DOTALL)
_UNSAFE = re.compile(rb"[^A-Za-z0-9_-]")


def bucket_config(*, replicas: int = 1) -> dict[str, Any]:
    """The stream of the bucket, as every NATS client expects a key-value bucket to be."""
    return {
        "name": BUCKET_STREAM,
        "subjects": [f"{_KEYS}>"],
        "storage": "file",
        "retention": "limits",
        "discard": "new",
        "max_msgs_per_subject": 1,
        "max_bytes": BUCKET_BYTES,
        "max_age": 0,
        "num_replicas": replicas,
        "allow_direct": True,
        "allow_rollup_hdrs": True,
        "deny_delete": True,
        "deny_purge": False,
        "metadata": {"fshipper.template": "bucket-v1"},
    }


def lease_key(prefix: str, partition: int) -> str:
    """Who writes a partition."""
    return f"lease.{prefix}.{partition}"


def member_key(prefix: str, archive: str, name: str) -> str:
    """That the collector `name` of an archive lives."""
    return f"member.{prefix}.{_token(archive)}.{_token(name)}"


def members_of(prefix: str) -> str:
    """Every collector that reads the streams of `prefix`."""
    return f"member.{prefix}.>"


def map_key(prefix: str) -> str:
    """Key of the partition map."""
    return f"map.{prefix}"


def bucket_subject(key: str) -> str:
    """Where the entry of a key is stored."""
    return f"{_KEYS}{key}"


def bucket_key(subject: str) -> str:
    """The key of an entry that is stored at `subject`."""
    return subject.removeprefix(_KEYS)


def _token(text: str) -> str:
    """`text` as one token of a key: everything but letters, digits, `_` and `-` as `=XX`."""
    return _UNSAFE.sub(lambda found: b"=%02X" % found[0][0], text.encode("utf-8", "surrogateescape")).decode()
