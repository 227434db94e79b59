"""Administration of streams and consumers in the server's own JSON.

Never through nats-py's dataclasses: they drop the fields they do not know, so an edit through them would undo what a
newer server, or another tool, has set.
"""

import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

from shipper.errors import ConfigError, NodeAway, ShipperError, StreamMissing, Unavailable
from shipper.jetstream.connection import (
    MONITOR_INBOX,
    NOT_FOUND_CONSUMER,
    ApiError,
    Connection,
    connect_as,
    info_with_subjects,
    pages,
)
from shipper.jetstream.server_version import OLDEST
from shipper.settings import NatsSettings

Json = dict[str, Any]

NO_SPACE = frozenset({10002, 10023, 10028, 10047})
"""Account limits exceeded, insufficient resources, memory and storage resources exceeded."""
INVALID_JSON = 10025
NO_PEERS = 10005
"""Error code: no suitable peers for placement. The description lists the reasons."""
ABSENT = frozenset({10037, 10043, NOT_FOUND_CONSUMER})
"""There is no message to read, or to delete, or no consumer."""
BUSY_STATUSES = frozenset({408, 429, 503})  # no leader yet, too many requests: worth another attempt


class Admin:
    """Reads and changes the streams and consumers of a server, over a connection that it does not own.

    Every method raises `SessionLost` when the server does not answer, `Unavailable` when it has no JetStream or is
    full, `NodeAway` when its cluster has too few nodes now, `ConfigError` when it refuses a configuration, and
    `ApiError` when another attempt may help.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection  #: the code that opened it closes it

    async def account(self) -> Json:
        """Limits and use of the account, and the API level of the server."""
        return await self._ask("INFO")

    async def streams(self) -> list[Json]:
        """Every stream of the account as `{"config": ..., "state": ..., ...}`, ordered by name."""
        found = [info async for info in pages(self._ask, "STREAM.LIST", "streams")]
        return sorted(found, key=lambda info: str(info["config"]["name"]))

    async def names(self) -> list[str]:
        """The names of every stream of the account: a collector may list these and read each by name."""
        return sorted([name async for name in pages(self._ask, "STREAM.NAMES", "streams")])

    async def subjects(self, stream: str, pattern: str = ">") -> dict[str, int]:
        """How many messages each subject has in `stream`, of those that `pattern` matches; raises `StreamMissing`."""
        return (await info_with_subjects(self._ask, stream, pattern))[1]

    async def stream(self, name: str) -> Json | None:
        """One stream, or None when there is none of that name."""
        try:
            return await self._ask(f"STREAM.INFO.{name}")
        except StreamMissing:
            return None

    async def create_stream(self, config: Mapping[str, Any]) -> Json:
        """Create a stream; creating the same again changes nothing."""
        return await self._ask(f"STREAM.CREATE.{config['name']}", config)

    async def update_stream(self, config: Mapping[str, Any]) -> Json:
        """Give a stream a new configuration; fields that are left out go back to the server's default."""
        return await self._ask(f"STREAM.UPDATE.{config['name']}", config)

    async def delete_stream(self, name: str) -> bool:
        """Delete a stream with all its messages and consumers; False when it was not there."""
        try:
            await self._ask(f"STREAM.DELETE.{name}")
        except StreamMissing:
            return False
        return True

    async def consumers(self, stream: str) -> list[Json]:
        """Every consumer of `stream`; raises `StreamMissing`."""
        return [info async for info in pages(self._ask, f"CONSUMER.LIST.{stream}", "consumers")]

    async def consumer(self, stream: str, name: str) -> Json | None:
        """One consumer, or None when it or its stream does not exist."""
        try:
            return await self._find(f"CONSUMER.INFO.{stream}.{name}")
        except StreamMissing:
            return None

    async def create_consumer(self, stream: str, config: Mapping[str, Any]) -> Json:
        """Create a durable consumer; creating the same again changes nothing."""
        return await self._put_consumer(stream, config, "create")

    async def update_consumer(self, stream: str, config: Mapping[str, Any]) -> Json:
        """Give a durable consumer a new configuration."""
        return await self._put_consumer(stream, config, "update")

    async def _put_consumer(self, stream: str, config: Mapping[str, Any], action: str) -> Json:
        name = config["durable_name"]
        body = {"stream_name": stream, "config": {**config, "name": name}, "action": action}
        return await self._ask(f"CONSUMER.CREATE.{stream}.{name}", body)

    async def delete_consumer(self, stream: str, name: str) -> bool:
        """Delete a consumer and what it knows of acknowledgements; False when it was not there."""
        try:
            return await self._find(f"CONSUMER.DELETE.{stream}.{name}") is not None
        except StreamMissing:
            return False

    async def message(self, stream: str, sequence: int) -> Json | None:
        """One message as `{"seq", "subject", "time", "hdrs", "data"}`, the last two in base64; None: it is gone."""
        return await self._message(stream, {"seq": sequence})

    async def newest_of(self, stream: str, subject: str) -> Json | None:
        """The newest message of `subject`; None: there is none."""
        return await self._message(stream, {"last_by_subj": subject})

    async def delete_message(self, stream: str, sequence: int, *, erase: bool) -> bool:
        """Remove one message; `erase` also overwrites its bytes on the server's disk. False: it was not there."""
        body = {"seq": sequence, "no_erase": not erase}
        return await self._find(f"STREAM.MSG.DELETE.{stream}", body) is not None

    async def purge(self, stream: str, *, below: int, subject: str = "") -> int:
        """Remove the messages with a sequence below `below`, all or those of `subject`; how many it were."""
        what: Json = {"seq": below} | ({"filter": subject} if subject else {})
        return int((await self._ask(f"STREAM.PURGE.{stream}", what))["purged"])

    async def first_since(self, stream: str, moment: str) -> int | None:
        """Sequence of the first message that was stored at `moment` (RFC 3339) or later; None: there is none."""
        found = await self._message(stream, {"start_time": moment, "next_by_subj": ">"})
        return int(found["seq"]) if found else None

    async def _message(self, stream: str, which: Json) -> Json | None:
        found = await self._find(f"STREAM.MSG.GET.{stream}", which)
        return dict(found["message"]) if found else None

    async def step_down(self, stream: str, consumer: str = "", *, preferred: str) -> None:
        """Request that the leader of a stream, or of a consumer, steps down for `preferred`; an election follows."""
        what = f"CONSUMER.LEADER.STEPDOWN.{stream}.{consumer}" if consumer else f"STREAM.LEADER.STEPDOWN.{stream}"
        await self._ask(what, {"placement": {"preferred": preferred}})

    async def _find(self, verb: str, body: Mapping[str, Any] | None = None) -> Json | None:
        """The answer; None: there is no such consumer or message. Raises `StreamMissing`."""
        try:
            return await self._ask(verb, body)
        except ApiError as error:
            if error.code not in ABSENT:
                raise
        return None

    async def _ask(self, verb: str, body: Mapping[str, Any] | None = None) -> Json:
        try:
            answer: Json = await self.connection.api(verb, body)
        except ApiError as error:
            raise explained(error) from None
        return answer


@contextlib.asynccontextmanager
async def administration(settings: NatsSettings) -> AsyncIterator[Admin]:
    """An `Admin` on a connection of its own. Raises Unavailable: no server answers."""
    inboxes = ("_INBOX_partitioner", MONITOR_INBOX)
    connection = await connect_as(settings, name="fshipper partition", inboxes=inboxes, oldest=OLDEST)
    async with connection:
        yield Admin(connection)


def explained(error: ApiError) -> ShipperError:
    """What a refusal means for the caller; `error` itself if a retry may help or the cause is unknown."""
    if error.code in NO_SPACE:
        return Unavailable(
            f"the server has not enough storage: {error}",
            hint="a stream reserves its max_bytes: lower --max-bytes or --partitions, or raise max_file_store",
        )
    if error.code == NO_PEERS and "offline" in str(error):
        return NodeAway(
            f"the cluster has too few nodes now: {error}",
            hint="start the nodes that are away and run the command again, or give fewer --replicas",
        )
    if error.code == INVALID_JSON:
        return ConfigError(f"the server does not know this setting: {error}", hint="correct the template (--template)")
    if error.code in ABSENT or error.status in BUSY_STATUSES:
        return error
    return ConfigError(f"the server refuses: {error}")
