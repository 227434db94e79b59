"""One connection that only looks: which streams of ours there are, which hosts are in them, and their messages."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from shipper.errors import StreamMissing
from shipper.jetstream.connection import Connection, connect
from shipper.jetstream.direct_get import nanoseconds
from shipper.jetstream.ordered_consumer import OrderedReader, Start
from shipper.jetstream.pull_consumer import stream_names
from shipper.settings import NatsSettings
from shipper.subjects import partition_of_stream, partition_subjects

CLOSE_SECONDS = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A stream as it is now."""

    name: str
    partition: int
    created: str  #: another value means another stream under the same name
    first_sequence: int  #: above 1: what was before is removed
    last_sequence: int
    first_ns: int | None  #: stored time of its first message; None: it is empty
    subjects: frozenset[str]  #: of the messages in it


class Watch:
    """A session of looking; nothing that it does changes a stream or a durable consumer."""

    def __init__(self, connection: Connection, prefix: str) -> None:
        self._connection = connection
        self._prefix = prefix
        self._readers: list[OrderedReader] = []

    @classmethod
    async def open(cls, settings: NatsSettings, prefix: str, *, name: str) -> "Watch":
        """A session with the first server that answers. Raises Unavailable: none does."""
        return cls(await connect(settings, name=f"fshipper {name}", inbox="_INBOX_reader"), prefix)

    async def partitions(self) -> dict[str, int]:
        """The partition of each stream of ours, by the stream's name."""
        names = await stream_names(self._connection)
        found = {name: partition_of_stream(self._prefix, name) for name in names}
        return {name: partition for name, partition in sorted(found.items()) if partition is not None}

    async def look(self) -> list[Seen]:
        """Every stream of ours. One that is deleted meanwhile is left out."""
        partitions = await self.partitions()
        seen = await asyncio.gather(*(self._see(*each) for each in partitions.items()))
        return [each for each in seen if each is not None]

    async def _see(self, name: str, partition: int) -> Seen | None:
        subjects: set[str] = set()
        while True:
            body = {"subjects_filter": partition_subjects(self._prefix, partition), "offset": len(subjects)}
            try:
                info: Any = await self._connection.api(f"STREAM.INFO.{name}", body)
            except StreamMissing:
                return None
            state, page = info["state"], info["state"].get("subjects") or {}
            subjects.update(page)
            if not page or len(subjects) >= info.get("total", 0):
                break
        return Seen(
            name=name,
            partition=partition,
            created=info["created"],
            first_sequence=state["first_seq"],
            last_sequence=state["last_seq"],
            first_ns=nanoseconds(state["first_ts"]) if state["messages"] else None,
            subjects=frozenset(subjects),
        )

    def read(
        self, stream: str, filters: Sequence[str], start: Start, *, budget: int, news: Callable[[], None]
    ) -> OrderedReader:
        """Begin to read; `news` is called whenever a message came, or trouble."""
        reader = OrderedReader(self._connection, stream, filters, start, budget=budget, news=news)
        self._readers.append(reader)
        return reader

    async def stop(self, readers: Sequence[OrderedReader]) -> None:
        """End some readers, and remove their consumers."""
        self._readers = [each for each in self._readers if each not in readers]
        if readers:
            await asyncio.wait({asyncio.create_task(each.close()) for each in readers}, timeout=CLOSE_SECONDS)

    def check(self) -> None:
        """Raise `SessionLost` with the reason if the session has ended."""
        self._connection.check()

    async def close(self) -> None:
        """End all readers and the session; idempotent, never raises, never hangs."""
        await self.stop(list(self._readers))
        await self._connection.close()
