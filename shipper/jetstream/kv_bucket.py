"""The bucket of the collectors on a real server: one connection, one session, compare-and-set on each key."""

import json
from collections.abc import Sequence

import nats.errors

from shipper.errors import BucketRefused, RightMissing, SessionLost, StreamMissing
from shipper.jetstream.connection import ApiError, ConnectedSession, Connection, connect
from shipper.jetstream.direct_get import direct_batch
from shipper.model import Entry
from shipper.settings import NatsSettings
from shipper.subjects import BUCKET_STREAM, bucket_config, bucket_key, bucket_subject

KEYS_A_REQUEST = 500  # the server answers for at most 1024 subjects in one request
WRONG_REVISION = 10071
NEVER_REVISION = 2**63 - 1
ANSWER_SECONDS = 2.0


class JetStreamBucket(ConnectedSession):
    """One session with the bucket; ends at the first trouble."""

    @classmethod
    async def open(cls, settings: NatsSettings, *, name: str) -> "JetStreamBucket":
        """A session with the first server that answers; the bucket is made if there is none.

        Raises Unavailable: no server answers. BucketRefused: this user may not have the bucket.
        """
        connection = await connect(settings, name=f"fshipper consume {name} leases", inbox="_INBOX_collector")
        bucket = cls(connection)
        try:
            await _find_or_create(connection)
            # Never stored: the refusal of the revision proves the right to write.
            await bucket.put("right", b"", expected=NEVER_REVISION)
        except BaseException as error:
            await connection.close()
            if isinstance(error, RightMissing):  # it is missing in the next session, too
                raise BucketRefused(str(error)) from None
            raise
        return bucket

    async def entries(self, keys: Sequence[str]) -> dict[str, Entry]:
        """What the bucket holds under `keys`, which may hold wildcards, as of now."""
        entries: dict[str, Entry] = {}
        for first in range(0, len(keys), KEYS_A_REQUEST):
            what = {"multi_last": [bucket_subject(key) for key in keys[first : first + KEYS_A_REQUEST]]}
            for found in await direct_batch(self._connection, BUCKET_STREAM, what, within=ANSWER_SECONDS):
                entries[bucket_key(found.subject)] = Entry(found.sequence, found.payload, found.time_ns)
        return entries

    async def put(self, key: str, value: bytes, *, expected: int | None = None) -> int | None:
        """Store `value`; its revision, or None where the entry has another one than `expected` (0: no entry)."""
        headers = {} if expected is None else {"Nats-Expected-Last-Subject-Sequence": str(expected)}
        try:
            answer = await self._connection.request(bucket_subject(key), value, within=ANSWER_SECONDS, headers=headers)
        except nats.errors.NoRespondersError:
            raise StreamMissing(f"there is no bucket {BUCKET_STREAM} any more") from None
        content = json.loads(answer.data)
        error = content.get("error")
        if error is None:
            return int(content["seq"])
        if error.get("err_code") == WRONG_REVISION:
            return None
        raise SessionLost(f"the bucket refuses {key}: {error.get('description')} ({error.get('err_code')})")

    async def forget(self, key: str) -> None:
        """Remove the entry of `key`, without a trace."""
        await self._connection.api(f"STREAM.PURGE.{BUCKET_STREAM}", {"filter": bucket_subject(key)})


async def _find_or_create(connection: Connection) -> None:
    try:
        await connection.api(f"STREAM.INFO.{BUCKET_STREAM}", within=ANSWER_SECONDS)
    except StreamMissing:
        try:
            await connection.api(f"STREAM.CREATE.{BUCKET_STREAM}", bucket_config(), within=ANSWER_SECONDS)
        except ApiError as error:
            raise BucketRefused(f"the bucket {BUCKET_STREAM} cannot be made: {error}") from None
