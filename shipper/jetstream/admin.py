"""Administration of streams and consumers in the server's own JSON.

Never through nats-py's dataclasses: they drop the fields they do not know, so an edit through them would undo what a
newer server, or another tool, has set.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

from shipper.errors import ConfigError, NodeAway, ShipperError, StreamMissing, Unavailable
from shipper.jetstream.connection import API, MONITOR_INBOX, NOT_FOUND_CONSUMER, ApiError, Connection, connect_as
from shipper.jetstream.pull_loop import read_delivery
from shipper.settings import NatsSettings

Json = dict[str, Any]

NO_ROOM = frozenset({10002, 10023, 10028, 10047})
"""Account limits exceeded, insufficient resources, memory and storage resources exceeded."""
INVALID_JSON = 10025
NO_PEERS = 10005
"""Error code: no suitable peers for placement. The description lists the reasons."""
ABSENT = frozenset({10037, 10043, NOT_FOUND_CONSUMER})
"""There is no message to read, or to delete, or no consumer."""
ANSWER_SECONDS = 10.0
FORGOTTEN_SECONDS = 30  # the server forgets the question of a program that died
NANOSECONDS = 1_000_000_000
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
        found = [info async for info in self._pages("STREAM.LIST", "streams")]
        return sorted(found, key=lambda info: str(info["config"]["name"]))

    async def names(self) -> list[str]:
        """The names of every stream of the account: a collector may list these and read each by name."""
        return sorted([name async for name in self._pages("STREAM.NAMES", "streams")])

    async def subjects(self, stream: str, pattern: str = ">") -> dict[str, int]:
        """How many messages each subject has in `stream`, of those that `pattern` matches; raises `StreamMissing`."""
        found: dict[str, int] = {}
        while True:
            info = await self._ask(f"STREAM.INFO.{stream}", {"subjects_filter": pattern, "offset": len(found)})
            more = info["state"].get("subjects") or {}
            found |= more
            if not more or len(found) >= info.get("total", 0):
                return found

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
        return [info async for info in self._pages(f"CONSUMER.LIST.{stream}", "consumers")]

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
        config = {
            "deliver_policy": "by_start_time",
            "opt_start_time": moment,
            "ack_policy": "none",
            "headers_only": True,
            "mem_storage": True,
            "inactive_threshold": FORGOTTEN_SECONDS * NANOSECONDS,
        }
        made = await self._ask(f"CONSUMER.CREATE.{stream}", {"stream_name": stream, "config": config})
        name, connection = str(made["name"]), self.connection
        try:
            if not made["num_pending"]:
                return None
            with connection.session_errors(f"reading {stream}: "):
                async with connection.client.mailbox() as (inbox, arrived), asyncio.timeout(ANSWER_SECONDS):
                    verb = f"{API}.CONSUMER.MSG.NEXT.{stream}.{name}"
                    await connection.client.publish(verb, b'{"batch":1,"no_wait":true}', reply=inbox)
                    message = await arrived.get()
        finally:
            await self.delete_consumer(stream, name)
        return read_delivery(message)[0].sequence if message.reply.startswith("$JS.ACK.") else None

    async def _message(self, stream: str, which: Json) -> Json | None:
        found = await self._find(f"STREAM.MSG.GET.{stream}", which)
        return dict(found["message"]) if found else None

    async def step_down(self, stream: str, consumer: str = "", *, preferred: str) -> None:
        """Request that the leader of a stream, or of a consumer, steps down for `preferred`; an election follows."""
        what = f"CONSUMER.LEADER.STEPDOWN.{stream}.{consumer}" if consumer else f"STREAM.LEADER.STEPDOWN.{stream}"
        await self._ask(what, {"placement": {"preferred": preferred}})

    async def _put_consumer(self, stream: str, config: Mapping[str, Any], action: str) -> Json:
        name = config["durable_name"]
        body = {"stream_name": stream, "config": {**config, "name": name}, "action": action}
        return await self._ask(f"CONSUMER.CREATE.{stream}.{name}", body)

    async def _pages(self, verb: str, what: str) -> AsyncIterator[Any]:
        """The entries of a list that the server answers in pages of at most 256, or 1024 names."""
        offset = 0
        while True:
            page = await self._ask(verb, {"offset": offset})
            entries = page.get(what) or []
            for entry in entries:
                yield entry
            offset += len(entries)
            if not entries or offset >= page["total"]:
                return

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
    connection = await connect_as(settings, name="fshipper partition", inboxes=("_INBOX_partitioner", MONITOR_INBOX))
    try:
        yield Admin(connection)
    finally:
        await connection.close()


def explained(error: ApiError) -> ShipperError:
    """What a refusal means for the caller; `error` itself if a retry may help or the cause is unknown."""
    if error.code in NO_ROOM:
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
