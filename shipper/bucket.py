"""The shared bucket: which collectors live, who writes which partition, and the map of the partitions.

It is a plain NATS key-value bucket, so `nats kv get fshipper lease.logs.0` shows what a collector sees, and
`nats kv get fshipper map.logs` where hosts belong. Names, keys and configuration.
"""

import re
from typing import Any

BUCKET = "fshipper"
BUCKET_STREAM = f"KV_{BUCKET}"
MAX_BYTES = 16 * 1024 * 1024
"""Maximum bytes of the bucket, about 25,000 entries; the server reserves them."""

_SUBJECT = f"$KV.{BUCKET}."
_UNSAFE = re.compile(rb"[^A-Za-z0-9_-]")


def bucket_config(*, replicas: int = 1) -> dict[str, Any]:
    """The stream of the bucket, as every NATS client expects a key-value bucket to be."""
    return {
        "name": BUCKET_STREAM,
        "subjects": [f"{_SUBJECT}>"],
        "storage": "file",
        "retention": "limits",
        "discard": "new",
        "max_msgs_per_subject": 1,
        "max_bytes": MAX_BYTES,
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


def to_subject(key: str) -> str:
    """Where the entry of a key is stored."""
    return f"{_SUBJECT}{key}"


def to_key(subject: str) -> str:
    """The key of an entry that is stored at `subject`."""
    return subject.removeprefix(_SUBJECT)


def _token(text: str) -> str:
    """`text` as one token of a key: everything but letters, digits, `_` and `-` as `=XX`."""
    return _UNSAFE.sub(lambda found: b"=%02X" % found[0][0], text.encode("utf-8", "surrogateescape")).decode()
