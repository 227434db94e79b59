"""The bucket of the collectors on a real server: one connection, one session, compare-and-set on each key."""

import json
from collections.abc import Iterator, Mapping, Sequence

import nats.errors
from nats.aio.msg import Msg

from shipper.errors import BucketRefused, RightMissing, SessionLost, StreamMissing
from shipper.jetstream.connection import ApiError, Connection, connect
from shipper.jetstream.direct_get import direct_batch, stored
from shipper.model import Entry
from shipper.settings import NatsSettings
from shipper.subjects import BUCKET_STREAM, bucket_config, bucket_key, bucket_subject

KEYS_A_REQUEST = 500  # the server answers for at most 1024 subjects in one request
WRONG_REVISION = 10071
NEVER_REVISION = 2**63 - 1
ANSWER_SECONDS = 2.0


class JetStreamBucket:
    """One session with the bucket; ends at the first trouble."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @classmethod
    async def open(cls, settings: NatsSettings, *, name: str) -> "JetStreamBucket":
        """A session with the first server that answers; the bucket is made if there is none.

        Raises:
            Unavailable: no server answers. BucketRefused: this user may not have the bucket.
        """
        connection = await connect(settings, name=f"fshipper consume {name} leases", inbox="_INBOX_collector")
        bucket = cls(connection)
        try:
            await _find_or_create(connection)
            await bucket._check_right()
        except BaseException:
            await connection.close()
            raise
        return bucket

    async def _check_right(self) -> None:
        """Try to store what is never stored: its refusal proves the right to write, silence that there is none."""
        try:
            await self.put("right", b"", expected=NEVER_REVISION)
        except SessionLost as error:
            raise _refusal(error) from None

    async def entries(self, keys: Sequence[str]) -> dict[str, Entry]:
        """What the bucket holds under `keys`, which may hold wildcards, as of now."""
        found: dict[str, Entry] = {}
        for first in range(0, len(keys), KEYS_A_REQUEST):
            found |= await self._some(keys[first : first + KEYS_A_REQUEST])
        return found

    async def put(self, key: str, value: bytes, *, expected: int | None = None) -> int | None:
        """Store `value`; its revision, or None where the entry has another one than `expected` (0: no entry)."""
        headers = {} if expected is None else {"Nats-Expected-Last-Subject-Sequence": str(expected)}
        answer = await self._request(bucket_subject(key), value, headers)
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

    async def close(self) -> None:
        """End the session."""
        await self._connection.close()

    async def _some(self, keys: Sequence[str]) -> dict[str, Entry]:
        """The newest message of each subject, as one batch of direct gets."""
        what = {"multi_last": [bucket_subject(key) for key in keys]}
        messages = await direct_batch(self._connection, BUCKET_STREAM, what, within=ANSWER_SECONDS)
        return dict(_entries(messages))

    async def _request(self, subject: str, payload: bytes, headers: Mapping[str, str]) -> Msg:
        try:
            return await self._connection.request(subject, payload, within=ANSWER_SECONDS, headers=headers)
        except nats.errors.NoRespondersError:
            raise StreamMissing(f"there is no bucket {BUCKET_STREAM} any more") from None


async def _find_or_create(connection: Connection) -> None:
    try:
        await connection.api(f"STREAM.INFO.{BUCKET_STREAM}", within=ANSWER_SECONDS)
        return
    except StreamMissing:
        pass
    except SessionLost as error:
        raise _refusal(error) from None
    try:
        await connection.api(f"STREAM.CREATE.{BUCKET_STREAM}", bucket_config(), within=ANSWER_SECONDS)
    except ApiError as error:
        raise BucketRefused(f"the bucket {BUCKET_STREAM} cannot be made: {error}") from None
    except SessionLost as error:
        raise _refusal(error) from None


def _refusal(error: SessionLost) -> SessionLost | BucketRefused:
    """A right that is missing is missing in the next session, too; everything else may be better there."""
    return BucketRefused(str(error)) if isinstance(error, RightMissing) else error


def _entries(messages: Sequence[Msg]) -> Iterator[tuple[str, Entry]]:
    for message in messages:
        found = stored(message)
        if found is not None:
            yield bucket_key(found.subject), Entry(found.sequence, found.payload)
