"""Up to where a stream's messages are safe in the archive, so that taking them out loses nothing."""

import base64
import json
from typing import Any, NamedTuple

from shipper.bucket import BUCKET_STREAM, lease_key, to_subject
from shipper.jetstream.admin import Admin
from shipper.subjects import COLLECTOR, partition_of_stream


class Reach(NamedTuple):
    """Messages below `archived` are in the archive; why it ends there."""

    archived: int
    why: str


EVERYTHING = Reach(2**63, "")


async def reach_of(admin: Admin, stream: str, *, subject: str) -> Reach:
    """How far the collector is with a partition's stream; a stream of others has none, and ends nowhere.

    What the server knows as acknowledged may lie behind a hole, for which the collector may have to read again: its
    own word in the bucket counts, too.
    """
    partition = partition_of_stream(subject, stream)
    if partition is None:
        return EVERYTHING
    consumer = await admin.consumer(stream, COLLECTOR)
    if consumer is None:
        return Reach(0, f"no {COLLECTOR} reads {stream}")
    floor = int(consumer["ack_floor"]["stream_seq"]) + 1
    claim = await _claim(admin, lease_key(subject, partition))
    resume = claim.get("resume")
    if isinstance(resume, int) and 1 < resume < floor:
        return Reach(resume, "the collector waits for bytes that are missing, and may read from there again")
    return Reach(floor, "the collector has not archived what follows")


async def _claim(admin: Admin, key: str) -> dict[str, Any]:
    if await admin.stream(BUCKET_STREAM) is None:
        return {}
    entry = await admin.newest_of(BUCKET_STREAM, to_subject(key))
    try:
        found = json.loads(base64.b64decode(entry["data"])) if entry else {}
    except (ValueError, KeyError):
        return {}
    return found if isinstance(found, dict) else {}
