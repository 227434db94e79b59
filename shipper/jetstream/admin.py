"""Administration of streams and consumers in the server's own JSON.

Never through nats-py's dataclasses: they drop the fields they do not know, so an edit through them would undo what a
newer server, or another tool, has set.
"""

import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

from shipper.errors import ConfigError, ShipperError, StreamMissing, Unavailable
from shipper.jetstream.connection import NOT_FOUND_CONSUMER, ApiError, Connection, connect
from shipper.settings import NatsSettings

Json = dict[str, Any]

NO_ROOM = frozenset({10002, 10023, 10028, 10047})
"""Account limits exceeded, insufficient resources, memory and storage resources exceeded."""
INVALID_JSON = 10025
BUSY_STATUSES = frozenset({408, 429, 503})  # no leader yet, too many requests: worth another attempt


class Admin:
    """Asks and changes what streams and consumers a server has, over a connection that it does not own.

    Every method raises `SessionLost` when the server does not answer, `Unavailable` when it has no JetStream or no
    room, `ConfigError` when it refuses a configuration, and `ApiError` when another attempt may help.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def account(self) -> Json:
        """Limits and use of the account, and the API level of the server."""
        return await self._ask("INFO")

    async def streams(self) -> list[Json]:
        """Every stream of the account as `{"config": ..., "state": ..., ...}`, ordered by name."""
        found = [info async for info in self._pages("STREAM.LIST", "streams")]
        return sorted(found, key=lambda info: str(info["config"]["name"]))

    async def names(self) -> list[str]:
        """The names of every stream of the account: a collector may ask for these, and for each by its name."""
        return sorted([name async for name in self._pages("STREAM.NAMES", "streams")])

    async def subjects(self, stream: str, pattern: str) -> dict[str, int]:
        """How many messages each subject has in `stream`, of those that `pattern` matches."""
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
            return await self._ask(f"CONSUMER.INFO.{stream}.{name}")
        except StreamMissing:
            return None
        except ApiError as error:
            if error.code == NOT_FOUND_CONSUMER:
                return None
            raise

    async def create_consumer(self, stream: str, config: Mapping[str, Any]) -> Json:
        """Create a durable consumer; creating the same again changes nothing."""
        return await self._put_consumer(stream, config, "create")

    async def update_consumer(self, stream: str, config: Mapping[str, Any]) -> Json:
        """Give a durable consumer a new configuration."""
        return await self._put_consumer(stream, config, "update")

    async def delete_consumer(self, stream: str, name: str) -> bool:
        """Delete a consumer and what it knows of acknowledgements; False when it was not there."""
        try:
            await self._ask(f"CONSUMER.DELETE.{stream}.{name}")
        except StreamMissing:
            return False
        except ApiError as error:
            if error.code != NOT_FOUND_CONSUMER:
                raise
            return False
        return True

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

    async def _ask(self, verb: str, body: Mapping[str, Any] | None = None) -> Json:
        try:
            answer: Json = await self._connection.api(verb, body)
        except ApiError as error:
            raise _explained(error) from None
        return answer


@contextlib.asynccontextmanager
async def administration(settings: NatsSettings) -> AsyncIterator[Admin]:
    """An `Admin` on a connection of its own.

    Raises:
        Unavailable: no server answers.
    """
    connection = await connect(settings, name="fshipper partition", inbox="_INBOX_partitioner")
    try:
        yield Admin(connection)
    finally:
        await connection.close()


def _explained(error: ApiError) -> ShipperError:
    """What a refusal means for the caller; `error` itself when another attempt may help, or nobody knows."""
    if error.code in NO_ROOM:
        return Unavailable(
            f"the server has no room for it: {error}",
            hint="a stream reserves its max_bytes: lower --max-bytes or --partitions, or raise max_file_store",
        )
    if error.code == INVALID_JSON:
        return ConfigError(f"the server does not know this setting: {error}", hint="correct the template (--template)")
    if error.code == NOT_FOUND_CONSUMER or error.status in BUSY_STATUSES:
        return error
    return ConfigError(f"the server refuses: {error}")
